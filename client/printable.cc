#include "client/printable.h"

#include "absl/strings/str_format.h"

namespace coterie {
namespace {

struct CodePoint {
  // -1: the byte here is not UTF-8.
  int32_t value = -1;
  int bytes = 1;
};

// RFC 3629, section 4. REQUIRES: text is not empty.
CodePoint FirstCodePoint(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<int32_t>(static_cast<unsigned char>(text[i]));
  };
  const int32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  int bytes = 0;
  int32_t least = 0;
  int32_t value = 0;
  if (lead >= 0xc0 && lead < 0xe0) {
    bytes = 2, least = 0x80, value = lead & 0x1f;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    bytes = 3, least = 0x800, value = lead & 0x0f;
  } else if (lead >= 0xf0 && lead < 0xf8) {
    bytes = 4, least = 0x10000, value = lead & 0x07;
  } else {
    return {};
  }
  if (text.size() < static_cast<size_t>(bytes)) return {};
  for (int i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3f);
  }
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (value < least || surrogate || value > 0x10ffff) return {};
  return {value, bytes};
}

bool IsControl(int32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0);
}

std::string Escape(absl::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\t") return "\\t";
  if (bytes == "\r") return "\\r";
  std::string escaped;
  for (const char c : bytes) {
    absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<unsigned char>(c));
  }
  return escaped;
}

}  // namespace

int64_t PrintedWidth(absl::string_view text) {
  int64_t width = 0;
  for (; !text.empty(); ++width) text.remove_prefix(FirstCodePoint(text).bytes);
  return width;
}

std::string Printable(absl::string_view text, int64_t max_width) {
  std::string printed;
  int64_t width = 0;
  // Where to cut should the rest turn out not to fit.
  size_t cut_at = 0;
  while (!text.empty()) {
    const CodePoint next = FirstCodePoint(text);
    const absl::string_view bytes = text.substr(0, next.bytes);
    const bool escape = next.value < 0 || IsControl(next.value);
    const std::string piece = escape ? Escape(bytes) : std::string(bytes);
    width += escape ? static_cast<int64_t>(piece.size()) : 1;
    if (width > max_width) {
      printed.resize(cut_at);
      return printed + "…";
    }
    printed += piece;
    if (width < max_width) cut_at = printed.size();
    text.remove_prefix(next.bytes);
  }
  return printed;
}

}  // namespace coterie
