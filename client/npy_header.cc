// The header of a .npy file: a Python dictionary literal in a fixed dialect.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/npy_file.h"

namespace coterie {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);

absl::Status Refuse(absl::string_view name, absl::string_view found,
                    absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", found, "; expected ", expected));
}

// Text out of the file, safe and short enough to print.
std::string Quote(absl::string_view text) {
  constexpr size_t kMost = 40;
  const bool cut = text.size() > kMost;
  return absl::StrCat("'", absl::CHexEscape(text.substr(0, kMost)),
                      cut ? "..." : "", "'");
}

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Recursive descent over {'key': value, ...}. Errors are sentences about what
// was found; the caller adds the file's name.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : rest_(text) {}

  // Empty string on success.
  std::string Parse(Header* header) {
    if (!Take('{')) return "no dictionary in the header";
    while (!Take('}')) {
      std::string error = ParseEntry(header);
      if (!error.empty()) return error;
      if (Take(',')) continue;
      if (!Take('}')) return "the header's dictionary does not end";
      break;
    }
    SkipSpace();
    if (!rest_.empty()) return "text after the header's dictionary";
    return "";
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && absl::ascii_isspace(rest_.front())) {
      rest_.remove_prefix(1);
    }
  }

  bool Take(char c) {
    SkipSpace();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeWord(absl::string_view word) {
    SkipSpace();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string> TakeString() {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) {
      return std::nullopt;
    }
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  std::string ParseEntry(Header* header) {
    const std::optional<std::string> key = TakeString();
    if (!key.has_value()) return "a header that is not key: value pairs";
    if (!Take(':')) return absl::StrCat("no value of key ", Quote(*key));
    if (*key == "descr") return ParseDescr(header);
    if (*key == "fortran_order") return ParseOrder(header);
    if (*key == "shape") return ParseShape(header);
    return absl::StrCat("unknown key ", Quote(*key), " in the header");
  }

  std::string ParseDescr(Header* header) {
    if (header->descr.has_value()) return "key 'descr' twice";
    if (Take('[')) return "a structured dtype";
    header->descr = TakeString();
    return header->descr.has_value() ? "" : "a dtype that is not a string";
  }

  std::string ParseOrder(Header* header) {
    if (header->fortran_order.has_value()) return "key 'fortran_order' twice";
    if (TakeWord("True")) {
      header->fortran_order = true;
    } else if (TakeWord("False")) {
      header->fortran_order = false;
    } else {
      return "a fortran_order that is neither True nor False";
    }
    return "";
  }

  std::string ParseShape(Header* header) {
    if (header->shape.has_value()) return "key 'shape' twice";
    if (!Take('(')) return "a shape that is not a tuple";
    std::vector<int64_t> shape;
    bool comma = true;
    while (!Take(')')) {
      if (!comma) return "a shape that is not a tuple of numbers";
      std::string error = ParseExtent(&shape);
      if (!error.empty()) return error;
      comma = Take(',');
    }
    // (5) is a number in Python; (5,) is a tuple.
    if (shape.size() == 1 && !comma) return "a shape that is not a tuple";
    header->shape = std::move(shape);
    return "";
  }

  std::string ParseExtent(std::vector<int64_t>* shape) {
    constexpr size_t kMostDimensions = 32;
    if (shape->size() == kMostDimensions) return "over 32 dimensions";
    SkipSpace();
    if (!rest_.empty() && rest_.front() == '-') {
      return "a negative extent in the shape";
    }
    int64_t value = 0;
    int digits = 0;
    while (!rest_.empty() && absl::ascii_isdigit(rest_.front())) {
      const int64_t digit = rest_.front() - '0';
      if (value > (std::numeric_limits<int64_t>::max() - digit) / 10) {
        return "an extent beyond 2^63 in the shape";
      }
      value = value * 10 + digit;
      ++digits;
      rest_.remove_prefix(1);
    }
    if (digits == 0) return "a shape that is not a tuple of numbers";
    if (!rest_.empty() && rest_.front() == 'L') rest_.remove_prefix(1);
    shape->push_back(value);
    return "";
  }

  absl::string_view rest_;
};

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", shape[i]);
  }
  absl::StrAppend(&text, shape.size() == 1 ? ",)" : ")");
  return text;
}

absl::StatusOr<NpyType> TypeOf(const std::string& descr, absl::string_view name,
                               NpyContent content) {
  const bool rows = content == NpyContent::kRows;
  if (rows && descr == "<f4") return NpyType::kFloat32;
  if (rows && descr == "<f8") return NpyType::kFloat64;
  if (rows && descr == "<f2") return NpyType::kFloat16;
  if (!rows && descr == "<u8") return NpyType::kUint64;
  if (!rows && descr == "<i8") return NpyType::kInt64;
  const bool big = !descr.empty() && descr[0] == '>';
  return Refuse(
      name, absl::StrCat("dtype ", Quote(descr), big ? " (big-endian)" : ""),
      rows ? "'<f4', '<f8' or '<f2': save a.astype('<f4')"
           : "'<u8' or '<i8': save a.astype('<u8')");
}

absl::Status CheckShape(const Header& header, const std::string& shape,
                        absl::string_view name, NpyContent content) {
  const size_t dimensions = header.shape->size();
  const bool column =
      dimensions == 1 || (dimensions == 2 && header.shape->back() == 1);
  if (content == NpyContent::kIntegers) {
    if (column) return absl::OkStatus();
    return Refuse(name, absl::StrCat("shape ", shape), "(rows,) or (rows, 1)");
  }
  if (dimensions != 1 && dimensions != 2) {
    return Refuse(name, absl::StrCat("shape ", shape),
                  "(rows, columns), or (columns,) for one vector");
  }
  // One vector has the same bytes in either order.
  if (*header.fortran_order && dimensions == 2) {
    return Refuse(name, "Fortran order",
                  "C order: save numpy.ascontiguousarray(a)");
  }
  return absl::OkStatus();
}

// Where the dictionary starts and ends.
struct Span {
  int64_t begin = 0;
  int64_t length = 0;
};

absl::StatusOr<Span> LocateDictionary(absl::string_view start,
                                      int64_t file_bytes,
                                      absl::string_view name) {
  constexpr int64_t kMagicAndVersion = 8;
  if (start.substr(0, kMagic.size()) != kMagic) {
    return Refuse(name, "not a .npy file", "the magic string \\x93NUMPY");
  }
  const auto byte = [&](int64_t i) {
    return static_cast<int64_t>(static_cast<unsigned char>(start[i]));
  };
  const auto size = static_cast<int64_t>(start.size());
  if (size < kMagicAndVersion) {
    return Refuse(name, "a file that ends in its header", "a whole .npy file");
  }
  const int64_t major = byte(6);
  if ((major != 1 && major != 2) || byte(7) != 0) {
    return Refuse(name, absl::StrCat("version ", major, ".", byte(7)),
                  "version 1.0 or 2.0");
  }
  Span span;
  span.begin = kMagicAndVersion + (major == 1 ? 2 : 4);
  if (size < span.begin) {
    return Refuse(name, "a file that ends in its header", "a whole .npy file");
  }
  for (int64_t i = span.begin - 1; i >= kMagicAndVersion; --i) {
    span.length = span.length * 256 + byte(i);
  }
  if (span.length > kMaxNpyHeaderBytes) {
    return Refuse(name, absl::StrCat("a header of ", span.length, " bytes"),
                  absl::StrCat("at most ", kMaxNpyHeaderBytes));
  }
  if (span.length > file_bytes - span.begin ||
      span.length > size - span.begin) {
    return Refuse(name,
                  absl::StrCat("a header of ", span.length,
                               " bytes in a file of ", file_bytes),
                  "a whole .npy file");
  }
  return span;
}

absl::Status CheckSize(const NpyLayout& layout, const std::string& shape,
                       int64_t file_bytes, absl::string_view name) {
  const int64_t row_bytes = layout.columns * NpyTypeBytes(layout.type);
  const int64_t present = file_bytes - layout.data_offset;
  // Compared by division: rows x row_bytes may not fit 64 bits.
  if (present / row_bytes == layout.rows && present % row_bytes == 0) {
    return absl::OkStatus();
  }
  const bool fits =
      layout.rows <= std::numeric_limits<int64_t>::max() / row_bytes;
  return Refuse(
      name, absl::StrCat(present, " bytes of data"),
      absl::StrCat(fits ? absl::StrCat(layout.rows * row_bytes) : "over 2^63",
                   " for shape ", shape, " of ", NpyTypeBytes(layout.type),
                   "-byte numbers: the file is cut off, appended to or its "
                   "header is wrong"));
}

}  // namespace

int64_t NpyTypeBytes(NpyType type) {
  switch (type) {
    case NpyType::kFloat16:
      return 2;
    case NpyType::kFloat32:
      return 4;
    default:
      return 8;
  }
}

absl::StatusOr<NpyLayout> ParseNpyHeader(absl::string_view start,
                                         int64_t file_bytes,
                                         absl::string_view name,
                                         NpyContent content) {
  absl::StatusOr<Span> span = LocateDictionary(start, file_bytes, name);
  if (!span.ok()) return span.status();
  Header header;
  HeaderParser parser(start.substr(span->begin, span->length));
  const std::string error = parser.Parse(&header);
  constexpr absl::string_view kDialect =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (rows, columns)}";
  if (!error.empty()) return Refuse(name, error, kDialect);
  if (!header.descr || !header.fortran_order || !header.shape) {
    return Refuse(name, "a header without descr, fortran_order or shape",
                  kDialect);
  }
  absl::StatusOr<NpyType> type = TypeOf(*header.descr, name, content);
  if (!type.ok()) return type.status();
  const std::string shape = ShapeText(*header.shape);
  absl::Status fits = CheckShape(header, shape, name, content);
  if (!fits.ok()) return fits;
  NpyLayout layout;
  layout.type = *type;
  layout.one_dimensional = header.shape->size() == 1;
  const bool one_row = layout.one_dimensional && content == NpyContent::kRows;
  layout.rows = one_row ? 1 : header.shape->front();
  layout.columns = content == NpyContent::kIntegers ? 1 : header.shape->back();
  layout.data_offset = span->begin + span->length;
  if (layout.columns < 1 || layout.columns > kMaxNpyColumns) {
    return Refuse(name,
                  absl::StrCat(layout.columns, " columns in shape ", shape),
                  absl::StrCat("1..", kMaxNpyColumns));
  }
  absl::Status size = CheckSize(layout, shape, file_bytes, name);
  if (!size.ok()) return size;
  return layout;
}

}  // namespace coterie
