// Text from elsewhere, made fit for one cell or line of a terminal.
// Stateless; any thread. O(length).

#ifndef COTERIE_CLIENT_PRINTABLE_H_
#define COTERIE_CLIENT_PRINTABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace coterie {

// Code points of valid UTF-8; other bytes count one each. Stands in for width
// on a terminal: wide and combining characters are off by their difference.
int64_t PrintedWidth(absl::string_view text);

// Control characters and bytes that are not UTF-8 become \n, \t or \xHH, so
// that stored text can neither break a line nor command the terminal. More
// than `max_width` code points (escapes count whole) are cut to end in "…".
// REQUIRES: max_width >= 1.
std::string Printable(absl::string_view text, int64_t max_width);

}  // namespace coterie

#endif  // COTERIE_CLIENT_PRINTABLE_H_
