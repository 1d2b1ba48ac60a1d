#include "client/rows/json_attributes.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/quoted.h"
#include "client/rows/number_text.h"

namespace coterie {
namespace {

void AppendUtf8(uint32_t code, std::string* out) {
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out->push_back(static_cast<char>(kLead[more] | code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) {
    out->push_back(static_cast<char>(0x80 | (code >> (6 * i) & 0x3f)));
  }
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Attributes> Parse() {
    Attributes attributes;
    if (!Take('{')) return Refuse("expected an object: {\"name\": value}");
    bool first = true;
    while (!Take('}')) {
      if (!first && !Take(',')) return Refuse("expected , or }");
      absl::Status status = ParseMember(&attributes);
      if (!status.ok()) return status;
      first = false;
    }
    SkipBlanks();
    if (at_ != text_.size()) return Refuse("text behind the object");
    return attributes;
  }

 private:
  absl::Status Refuse(absl::string_view why) const {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", at_ + 1, ": ", why));
  }

  void SkipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' ||
                                  text_[at_] == '\r' || text_[at_] == '\n')) {
      ++at_;
    }
  }

  bool Take(char c) {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool TakeWord(absl::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  absl::Status ParseMember(Attributes* attributes) {
    absl::StatusOr<std::string> name = ParseString();
    if (!name.ok()) return name.status();
    if (!Take(':')) return Refuse("expected : and a value");
    absl::StatusOr<std::optional<AttributeValue>> value = ParseAny();
    if (!value.ok()) return value.status();
    if (!value->has_value()) return absl::OkStatus();
    if (!attributes->emplace(*name, **std::move(value)).second) {
      return Refuse(absl::StrCat("attribute ", Quoted(*name), " twice"));
    }
    return absl::OkStatus();
  }

  // Nothing for null.
  absl::StatusOr<std::optional<AttributeValue>> ParseAny() {
    SkipBlanks();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '"') {
      absl::StatusOr<std::string> text = ParseString();
      if (!text.ok()) return text.status();
      return AttributeValue(*std::move(text));
    }
    if (c == '[') return ParseList();
    if (c == '{') {
      return Refuse(
          "an object; expected a string, number, true, false, null "
          "or a list of strings");
    }
    if (TakeWord("true")) return AttributeValue(true);
    if (TakeWord("false")) return AttributeValue(false);
    if (TakeWord("null")) return std::optional<AttributeValue>();
    return ParseNumber();
  }

  absl::StatusOr<std::optional<AttributeValue>> ParseList() {
    std::vector<std::string> strings;
    ++at_;
    bool first = true;
    while (!Take(']')) {
      if (!first && !Take(',')) return Refuse("expected , or ]");
      SkipBlanks();
      if (at_ < text_.size() && text_[at_] != '"') {
        return Refuse("a list may hold only strings");
      }
      absl::StatusOr<std::string> text = ParseString();
      if (!text.ok()) return text.status();
      strings.push_back(*std::move(text));
      first = false;
    }
    return AttributeValue(std::move(strings));
  }

  size_t TakeDigits() {
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - start;
  }

  absl::StatusOr<std::optional<AttributeValue>> ParseNumber() {
    const size_t start = at_;
    TakeWord("-");
    const size_t first_digit = at_;
    const size_t digits = TakeDigits();
    const bool sound = digits == 1 || (digits > 1 && text_[first_digit] != '0');
    bool whole = true;
    if (sound && TakeWord(".")) {
      whole = false;
      if (TakeDigits() == 0) return Refuse("expected a digit behind the point");
    }
    if (sound && (TakeWord("e") || TakeWord("E"))) {
      whole = false;
      if (!TakeWord("+")) TakeWord("-");
      if (TakeDigits() == 0) return Refuse("expected a digit of the exponent");
    }
    if (!sound) {
      at_ = start;
      return Refuse("expected a value");
    }
    const absl::string_view number = text_.substr(start, at_ - start);
    // "-0" is no integer: it would lose its sign.
    if (whole && number != "-0") {
      if (const auto value = ParseInteger(number)) {
        return AttributeValue(*value);
      }
    }
    return AttributeValue(ParseDouble(number).value_or(0));
  }

  absl::StatusOr<std::string> ParseString() {
    if (!Take('"')) return Refuse("expected a string");
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) {
        return Refuse("a control character in a string; expected an escape");
      }
      ++at_;
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      absl::Status status = ParseEscape(&out);
      if (!status.ok()) return status;
    }
    if (at_ == text_.size()) return Refuse("a string does not end");
    ++at_;
    if (!IsValidUtf8(out)) return Refuse("a string is not UTF-8");
    return out;
  }

  // Behind the backslash.
  absl::Status ParseEscape(std::string* out) {
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    constexpr absl::string_view kEscapes = "\"\\/bfnrt";
    constexpr absl::string_view kMeaning = "\"\\/\b\f\n\r\t";
    const size_t simple = kEscapes.find(c);
    if (c != '\0' && simple != absl::string_view::npos) {
      out->push_back(kMeaning[simple]);
      return absl::OkStatus();
    }
    if (c != 'u') return Refuse("an escape that JSON does not have");
    std::optional<uint32_t> code = TakeHex();
    if (code.has_value() && *code >= 0xd800 && *code < 0xdc00) {
      const std::optional<uint32_t> low =
          TakeWord("\\u") ? TakeHex() : std::nullopt;
      if (!low.has_value() || *low < 0xdc00 || *low > 0xdfff) {
        return Refuse("half of a surrogate pair");
      }
      code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
    } else if (code.has_value() && *code >= 0xdc00 && *code < 0xe000) {
      return Refuse("half of a surrogate pair");
    }
    if (!code.has_value()) return Refuse("expected four hex digits");
    AppendUtf8(*code, out);
    return absl::OkStatus();
  }

  std::optional<uint32_t> TakeHex() {
    const absl::string_view digits = text_.substr(at_, 4);
    uint32_t code = 0;
    const auto parsed =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || parsed.ptr != digits.data() + 4) {
      return std::nullopt;
    }
    at_ += 4;
    return code;
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

void AppendString(absl::string_view text, std::string* out) {
  out->push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (c == '\n') {
      out->append("\\n");
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(out, "\\u%04x", c);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

std::string DoubleText(double value) {
  if (std::isinf(value)) return value > 0 ? "1e999" : "-1e999";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value);
  std::string text(digits, end.ptr);
  // Else it would be read as an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct AppendValue {
  std::string* out;

  void operator()(const std::string& text) const { AppendString(text, out); }
  void operator()(int64_t value) const { absl::StrAppend(out, value); }
  void operator()(double value) const { out->append(DoubleText(value)); }
  void operator()(bool value) const { out->append(value ? "true" : "false"); }
  void operator()(const std::vector<std::string>& strings) const {
    out->push_back('[');
    for (size_t i = 0; i < strings.size(); ++i) {
      if (i > 0) out->append(", ");
      AppendString(strings[i], out);
    }
    out->push_back(']');
  }
};

}  // namespace

absl::StatusOr<Attributes> ParseAttributes(absl::string_view json) {
  return Parser(json).Parse();
}

std::string FormatAttributes(const Attributes& attributes) {
  std::string json = "{";
  for (const auto& [name, value] : attributes) {
    if (json.size() > 1) json.append(", ");
    AppendString(name, &json);
    json.append(": ");
    std::visit(AppendValue{&json}, value);
  }
  json.push_back('}');
  return json;
}

}  // namespace coterie
