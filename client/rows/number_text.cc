#include "client/rows/number_text.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"

namespace coterie {
namespace {

// Without blanks around it and a leading +.
absl::string_view Bare(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  return text;
}

template <typename T>
std::optional<T> ParseReal(absl::string_view text) {
  text = Bare(text);
  const char* const end = text.data() + text.size();
  T value = 0;
  const std::from_chars_result parsed =
      std::from_chars(text.data(), end, value);
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument) {
    return std::nullopt;
  }
  if (parsed.ec == std::errc()) return value;
  // Out of range: this one tells too large from too small.
  absl::from_chars(text.data(), end, value);
  return std::abs(value) < 1 ? 0 : std::copysign(T{INFINITY}, value);
}

bool HasLeadingZero(absl::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    text.remove_prefix(1);
  }
  return text.size() > 1 && text[0] == '0' && absl::ascii_isdigit(text[1]);
}

}  // namespace

std::optional<float> ParseFloat(absl::string_view text) {
  return ParseReal<float>(text);
}

std::optional<double> ParseDouble(absl::string_view text) {
  return ParseReal<double>(text);
}

std::optional<int64_t> ParseInteger(absl::string_view text) {
  text = Bare(text);
  const char* const end = text.data() + text.size();
  int64_t value = 0;
  const std::from_chars_result parsed =
      std::from_chars(text.data(), end, value);
  if (parsed.ptr != end || parsed.ec != std::errc()) return std::nullopt;
  return value;
}

std::string NotAComponent(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return "empty; expected a number";
  return absl::StrCat(Quoted(text), ParseFloat(text).has_value()
                                        ? "; expected a finite float32"
                                        : "; expected a number");
}

void TypeGuess::See(absl::string_view text) {
  seen_ = true;
  const absl::string_view bare = absl::StripAsciiWhitespace(text);
  bool_ = bool_ && (bare == "true" || bare == "false");
  // A double may be no integer, but every integer is a double.
  if (!double_) return;
  if (HasLeadingZero(bare)) {
    int_ = double_ = false;
    return;
  }
  int_ = int_ && ParseInteger(bare).has_value();
  if (int_) return;
  const std::optional<double> value = ParseDouble(bare);
  double_ = value.has_value() && std::isfinite(*value);
}

ValueType TypeGuess::type() const {
  if (!seen_) return ValueType::kString;
  if (int_) return ValueType::kInt;
  if (double_) return ValueType::kDouble;
  return bool_ ? ValueType::kBool : ValueType::kString;
}

std::optional<ValueType> ParseValueType(absl::string_view name) {
  for (const ValueType type : {ValueType::kInt, ValueType::kDouble,
                               ValueType::kBool, ValueType::kString}) {
    if (name == ValueTypeName(type)) return type;
  }
  return std::nullopt;
}

absl::string_view ValueTypeName(ValueType type) {
  switch (type) {
    case ValueType::kInt:
      return "int";
    case ValueType::kDouble:
      return "double";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      break;
  }
  return "string";
}

absl::StatusOr<AttributeValue> ParseValue(absl::string_view text,
                                          ValueType type) {
  const absl::string_view bare = absl::StripAsciiWhitespace(text);
  switch (type) {
    case ValueType::kInt:
      if (const auto value = ParseInteger(bare)) return AttributeValue(*value);
      break;
    case ValueType::kDouble:
      if (const auto value = ParseDouble(bare);
          value.has_value() && !std::isnan(*value)) {
        return AttributeValue(*value);
      }
      break;
    case ValueType::kBool:
      if (bare == "true" || bare == "false") {
        return AttributeValue(bare == "true");
      }
      break;
    case ValueType::kString:
      if (IsValidUtf8(text)) return AttributeValue(std::string(text));
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(text), "; expected UTF-8"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), "; expected ", ValueTypeName(type)));
}

}  // namespace coterie
