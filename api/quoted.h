// Text of strangers, made fit for messages. Stateless; any thread.

#ifndef COTERIE_API_QUOTED_H_
#define COTERIE_API_QUOTED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace coterie {

// `text` in double quotes, C-escaped to printable ASCII. Of more than 80 bytes
// only the first 80 are shown, followed by the length: an error that quotes its
// input stays smaller than a header may be.
std::string Quoted(absl::string_view text);

// Structurally valid UTF-8 (RFC 3629): no overlong forms, no surrogates,
// nothing above U+10FFFF. Empty is valid. O(length).
bool IsValidUtf8(absl::string_view text);

// `text` with each byte that keeps it from being valid UTF-8 replaced by '?'.
std::string ToValidUtf8(absl::string_view text);

}  // namespace coterie

#endif  // COTERIE_API_QUOTED_H_
