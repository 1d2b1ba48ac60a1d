#include "client/rows/fixed_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied as they are in the file");

enum class Element { kFloat, kUnsignedByte, kSignedByte };

constexpr int64_t kBytesAtOnce = 64 << 10;

Element ElementOf(RowFormat format) {
  switch (format) {
    case RowFormat::kBvecs:
    case RowFormat::kU8bin:
      return Element::kUnsignedByte;
    case RowFormat::kI8bin:
      return Element::kSignedByte;
    default:
      return Element::kFloat;
  }
}

struct Layout {
  Element element = Element::kFloat;
  int64_t rows = 0;
  int64_t dimension = 0;
  // Before the first row, and before each row.
  int64_t header_bytes = 0;
  int64_t prefix_bytes = 0;

  int64_t element_bytes() const { return element == Element::kFloat ? 4 : 1; }
  int64_t row_bytes() const {
    return prefix_bytes + dimension * element_bytes();
  }
};

absl::Status CheckDimension(int64_t dimension, const std::string& where) {
  if (dimension >= 1 && dimension <= kMaxDimension) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, " says dimension ", dimension, "; expected 1..",
                   kMaxDimension, ": is it of another format?"));
}

// Header of *bin: rows and dimension.
absl::StatusOr<Layout> ReadHeader(InputFile* file, Layout layout) {
  uint32_t header[2] = {};
  if (file->bytes < static_cast<int64_t>(sizeof(header)) ||
      !file->stream->read(reinterpret_cast<char*>(header), sizeof(header))) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->name, ": ", file->bytes,
                     " bytes; expected a header of 8: rows and dimension"));
  }
  layout.rows = header[0];
  layout.dimension = header[1];
  layout.header_bytes = sizeof(header);
  absl::Status status = CheckDimension(
      layout.dimension, absl::StrCat(file->name, ": the header"));
  if (!status.ok()) return status;
  // At most 2^32 x 2^14 x 4: no overflow.
  const int64_t expected =
      layout.header_bytes + layout.rows * layout.row_bytes();
  if (expected != file->bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file->name, ": ", file->bytes, " bytes; expected ", expected, " for ",
        layout.rows, " rows of ", layout.dimension, " components of ",
        layout.element_bytes(),
        " bytes: the file is cut off, appended to or of another format"));
  }
  return layout;
}

// *vecs: the first row tells.
absl::StatusOr<Layout> ReadFirstRow(InputFile* file, Layout layout) {
  int32_t dimension = 0;
  layout.prefix_bytes = sizeof(dimension);
  if (file->bytes < layout.prefix_bytes ||
      !file->stream->read(reinterpret_cast<char*>(&dimension),
                          sizeof(dimension))) {
    return absl::InvalidArgumentError(absl::StrCat(
        file->name, ": ", file->bytes,
        " bytes; expected rows, each with its dimension in front"));
  }
  layout.dimension = dimension;
  absl::Status status =
      CheckDimension(dimension, absl::StrCat(file->name, ": row 0"));
  if (!status.ok()) return status;
  layout.rows = file->bytes / layout.row_bytes();
  if (file->bytes % layout.row_bytes() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(file->name, ": ", file->bytes, " bytes are ", layout.rows,
                     " rows of dimension ", dimension, " and ",
                     file->bytes % layout.row_bytes(),
                     " bytes more; expected whole rows of ", layout.row_bytes(),
                     " bytes: the file is cut off, or its rows differ"));
  }
  file->stream->seekg(0);
  return layout;
}

class FixedRows : public RowSource {
 public:
  FixedRows(InputFile file, const Layout& layout)
      : RowSource(std::move(file.name), layout.rows, layout.dimension),
        stream_(std::move(file.stream)),
        layout_(layout) {}

  absl::Status Skip(int64_t rows) override {
    next_row_ += rows;
    stream_->seekg(layout_.header_bytes + next_row_ * layout_.row_bytes());
    return absl::OkStatus();
  }

  absl::Status Read(int64_t max_rows, RowBlock* block) override {
    block->Clear();
    const int64_t row_bytes = layout_.row_bytes();
    const int64_t at_once = std::max<int64_t>(1, kBytesAtOnce / row_bytes);
    const int64_t end = next_row_ + std::min(max_rows, rows_ - next_row_);
    block->values.resize((end - next_row_) * dimension_);
    float* out = block->values.data();
    while (next_row_ < end) {
      const int64_t count = std::min(at_once, end - next_row_);
      bytes_.resize(count * row_bytes);
      if (!stream_->read(bytes_.data(), count * row_bytes)) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": cannot be read in row ",
                         next_row_ + stream_->gcount() / row_bytes,
                         "; has the file been changed meanwhile?"));
      }
      for (int64_t i = 0; i < count; ++i, ++next_row_, out += dimension_) {
        absl::Status status = Convert(bytes_.data() + i * row_bytes, out);
        if (!status.ok()) return status;
      }
      block->rows += count;
    }
    return absl::OkStatus();
  }

 private:
  // One row, whose number is next_row_.
  absl::Status Convert(const char* row, float* out) const {
    if (layout_.prefix_bytes != 0) {
      int32_t dimension = 0;
      std::memcpy(&dimension, row, sizeof(dimension));
      if (dimension != dimension_) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": row ", next_row_, " has dimension ",
                         dimension, "; row 0 has ", dimension_));
      }
      row += layout_.prefix_bytes;
    }
    switch (layout_.element) {
      case Element::kUnsignedByte:
        for (int64_t i = 0; i < dimension_; ++i) {
          out[i] = static_cast<unsigned char>(row[i]);
        }
        return absl::OkStatus();
      case Element::kSignedByte:
        for (int64_t i = 0; i < dimension_; ++i) {
          out[i] = static_cast<signed char>(row[i]);
        }
        return absl::OkStatus();
      case Element::kFloat:
        break;
    }
    std::memcpy(out, row, dimension_ * sizeof(float));
    const float* bad = std::find_if_not(out, out + dimension_, [](float value) {
      return std::isfinite(value);
    });
    if (bad == out + dimension_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": row ", next_row_, ", column ", bad - out, " is ",
                     *bad, "; expected a finite float32"));
  }

  const std::unique_ptr<std::istream> stream_;
  const Layout layout_;
  int64_t next_row_ = 0;
  std::vector<char> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RowSource>> OpenFixedRows(InputFile file,
                                                         RowFormat format) {
  Layout layout;
  layout.element = ElementOf(format);
  const bool vecs = format == RowFormat::kFvecs || format == RowFormat::kBvecs;
  absl::StatusOr<Layout> read =
      vecs ? ReadFirstRow(&file, layout) : ReadHeader(&file, layout);
  if (!read.ok()) return read.status();
  return std::make_unique<FixedRows>(std::move(file), *read);
}

}  // namespace coterie
