#include "client/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/printable.h"

namespace coterie {
namespace {

constexpr int64_t kQuoteWidth = 40;

std::string Quote(absl::string_view text) {
  return absl::StrCat("'", Printable(text, kQuoteWidth), "'");
}

}  // namespace

std::string WithCommas(int64_t number) {
  const std::string digits = absl::StrCat(number);
  const size_t first = number < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string Plural(int64_t number, absl::string_view noun) {
  return absl::StrCat(WithCommas(number), " ", noun, number == 1 ? "" : "s");
}

std::string HumanBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  // 999.5 would print as 1000.
  while (std::abs(value) >= 999.5 && unit < 6) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return absl::StrCat(bytes, " B");
  const double size = std::abs(value);
  const int decimals = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, kUnits[unit]);
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.2f", seconds * 1000);
}

std::string ClockTime(absl::Duration duration) {
  constexpr int64_t kMost = 360'000'000;  // a hundred thousand hours
  const int64_t seconds = std::clamp<int64_t>(
      absl::ToInt64Seconds(duration + absl::Milliseconds(500)), 0, kMost);
  const int64_t hours = seconds / 3600;
  const int64_t minutes = seconds / 60 % 60;
  if (hours == 0) return absl::StrFormat("%d:%02d", minutes, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", hours, minutes, seconds % 60);
}

std::string DistanceText(double distance) {
  const double size = std::abs(distance);
  if (size != 0 && (size < 1e-4 || size >= 1e9)) {
    return absl::StrFormat("%.6e", distance);
  }
  return absl::StrFormat("%.6f", distance);
}

std::string VectorText(const std::vector<float>& vector) {
  std::string text;
  for (size_t i = 0; i < vector.size(); ++i) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), vector[i]);
    absl::StrAppend(&text, i == 0 ? "" : ",",
                    absl::string_view(digits, end.ptr - digits));
  }
  return text;
}

absl::StatusOr<uint64_t> ParsePointId(absl::string_view text) {
  uint64_t id = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   absl::ascii_isdigit);
  // SimpleAtoi alone would also take signs and spaces.
  if (!digits || !absl::SimpleAtoi(text, &id)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quote(text),
                     " is not a point id: expected digits only, 0 to "
                     "18446744073709551615"));
  }
  return id;
}

absl::StatusOr<std::vector<float>> ParseVector(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  std::vector<float> vector;
  const auto refuse = [&](absl::string_view part, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vector component ", vector.size(), " is ", Quote(part), ": ", why));
  };
  for (absl::string_view field : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(field, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty());
    if (parts.empty()) return refuse("", "expected a number");
    for (absl::string_view part : parts) {
      float value = 0;
      if (!absl::SimpleAtof(part, &value)) {
        return refuse(part, "expected a number");
      }
      if (!std::isfinite(value)) {
        return refuse(part, "expected a finite float32");
      }
      vector.push_back(value);
    }
  }
  return vector;
}

absl::StatusOr<absl::Duration> ParseTimeout(absl::string_view text) {
  absl::Duration timeout;
  if (!absl::ParseDuration(text, &timeout) || timeout <= absl::ZeroDuration() ||
      timeout > absl::Hours(24)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quote(text),
                     " is not a timeout: expected like 30s, 500ms or 1m30s, "
                     "above zero and at most 24h"));
  }
  return timeout;
}

}  // namespace coterie
