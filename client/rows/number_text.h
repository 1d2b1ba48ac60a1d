// Numbers and values written as text in data files. Stateless, except
// TypeGuess; any thread.

#ifndef COTERIE_CLIENT_ROWS_NUMBER_TEXT_H_
#define COTERIE_CLIENT_ROWS_NUMBER_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/point.h"

namespace coterie {

// A decimal number, blanks around it and a leading + allowed, rounded once to
// the nearest float32; what underflows is 0. nullopt if the text is no number;
// "nan", "inf" and what is beyond float32 give a value that is not finite.
std::optional<float> ParseFloat(absl::string_view text);
// The same in double precision.
std::optional<double> ParseDouble(absl::string_view text);
// Decimal digits with an optional sign; nullopt also beyond 64 bits.
std::optional<int64_t> ParseInteger(absl::string_view text);

// Why `text` is no component of a vector: `"x"; expected a number`.
std::string NotAComponent(absl::string_view text);

enum class ValueType { kInt, kDouble, kBool, kString };

// The narrowest type that all texts of a column share, of int, double, bool
// (true and false) and string. A number with leading zeros, such as a postal
// code, is a string, for a number would lose them; so is a double that is not
// finite.
class TypeGuess {
 public:
  void See(absl::string_view text);
  // kString if nothing was seen.
  ValueType type() const;

 private:
  bool seen_ = false;
  bool int_ = true;
  bool double_ = true;
  bool bool_ = true;
};

// "int", "double", "bool", "string"; nullopt for others.
std::optional<ValueType> ParseValueType(absl::string_view name);
absl::string_view ValueTypeName(ValueType type);

// INVALID_ARGUMENT, quoting the text, if it is not of the type, or is a string
// that is not UTF-8.
absl::StatusOr<AttributeValue> ParseValue(absl::string_view text,
                                          ValueType type);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_NUMBER_TEXT_H_
