// Numbers as people read and write them. Stateless; any thread.

#ifndef COTERIE_CLIENT_NUMBERS_H_
#define COTERIE_CLIENT_NUMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace coterie {

// 1234567 -> "1,234,567".
std::string WithCommas(int64_t number);

// 3 -> "3 rows", 1 -> "1 row", 12345 -> "12,345 rows".
std::string Plural(int64_t number, absl::string_view noun);

// 1503238553 -> "1.50 GB": powers of 1000, three figures.
std::string HumanBytes(int64_t bytes);

// Seconds as milliseconds: 0.0123 -> "12.30".
std::string Milliseconds(double seconds);

// 75 s -> "1:15", 4000 s -> "1:06:40". Negative is 0:00.
std::string ClockTime(absl::Duration duration);

// A distance for a column: six decimals; in scientific notation where those
// would hide it (0 < |d| < 1e-4, or |d| >= 1e9).
std::string DistanceText(double distance);

// 0,-1.5,... with as many digits as give the same floats back: what
// ParseVector reads.
std::string VectorText(const std::vector<float>& vector);

// Decimal digits only, 0..2^64-1, exact: never through a double. INVALID_
// ARGUMENT naming the text otherwise.
absl::StatusOr<uint64_t> ParsePointId(absl::string_view text);

// "0.1,-2,3e-4": numbers apart by commas or spaces, [] around them allowed.
// INVALID_ARGUMENT naming the component when one is not a number or not finite
// as float32, or when there is none.
absl::StatusOr<std::vector<float>> ParseVector(absl::string_view text);

// "30s", "500ms", "1m30s"; above zero and at most 24 h.
absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text);

}  // namespace coterie

#endif  // COTERIE_CLIENT_NUMBERS_H_
