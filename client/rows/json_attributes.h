// Attributes of a point as one JSON object, and back. Stateless; any thread.
//
//   {"word": "king", "rank": 17, "score": 0.5, "rare": false, "tags": ["a"]}
//
// Types survive: a number without fraction and exponent that fits 64 bits is
// an int, any other number a double, and doubles are written with one or the
// other; infinite ones as 1e999, which readers take for infinity. null is no
// attribute. Objects within, and lists of anything but strings, are refused.

#ifndef COTERIE_CLIENT_ROWS_JSON_ATTRIBUTES_H_
#define COTERIE_CLIENT_ROWS_JSON_ATTRIBUTES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/point.h"

namespace coterie {

// RFC 8259. INVALID_ARGUMENT saying what was found and at which byte, from 1,
// if the text is no such object, names an attribute twice, or is not UTF-8.
// O(length); recursion is bounded, for there is no nesting.
absl::StatusOr<Attributes> ParseAttributes(absl::string_view json);

// One line without its end; keys ascend. ParseAttributes gives the same back.
// REQUIRES: UTF-8, no NaN.
std::string FormatAttributes(const Attributes& attributes);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_JSON_ATTRIBUTES_H_
