#include "client/npy_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/rows/input_file.h"

namespace coterie {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied as they are in the file");

// A multiple of every element size.
constexpr int64_t kChunkBytes = 64 << 10;

// IEEE binary16, every bit pattern.
float HalfToFloat(uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int fraction = half & 0x3ff;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  } else if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else {
    magnitude = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// Of the types that have to be converted.
double Element(NpyType type, const char* bytes) {
  return type == NpyType::kFloat16 ? HalfToFloat(Load<uint16_t>(bytes))
                                   : Load<double>(bytes);
}

}  // namespace

absl::StatusOr<NpyFile> NpyFile::Open(const std::string& path) {
  absl::StatusOr<InputFile> file = OpenInputFile(path);
  if (!file.ok()) return file.status();
  return FromStream(std::move(file->stream), file->bytes, path);
}

absl::StatusOr<NpyFile> NpyFile::FromStream(
    std::unique_ptr<std::istream> stream, int64_t bytes, std::string name) {
  std::string start(
      std::min<int64_t>(bytes, kNpyPreambleBytes + kMaxNpyHeaderBytes), '\0');
  stream->read(start.data(), static_cast<std::streamsize>(start.size()));
  if (stream->gcount() != static_cast<std::streamsize>(start.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": read ", stream->gcount(), " bytes of a file of ", bytes));
  }
  absl::StatusOr<NpyLayout> layout =
      ParseNpyHeader(start, bytes, name, NpyContent::kRows);
  if (!layout.ok()) return layout.status();
  stream->seekg(layout->data_offset);
  return NpyFile(std::move(stream), std::move(name), *layout);
}

void NpyFile::SkipRows(int64_t rows) {
  next_row_ += rows;
  stream_->seekg(layout_.data_offset +
                 next_row_ * layout_.columns * NpyTypeBytes(layout_.type));
}

absl::Status NpyFile::ReadRows(int64_t max_rows, std::vector<float>* values) {
  const int64_t rows = std::min(max_rows, layout_.rows - next_row_);
  values->resize(rows * layout_.columns);
  absl::Status status =
      layout_.type == NpyType::kFloat32 ? ReadFloats(values) : Convert(values);
  if (!status.ok()) return status;
  next_row_ += rows;
  return absl::OkStatus();
}

absl::Status NpyFile::ReadFloats(std::vector<float>* values) {
  const auto bytes =
      static_cast<std::streamsize>(values->size() * sizeof(float));
  if (bytes > 0 &&
      !stream_->read(reinterpret_cast<char*>(values->data()), bytes)) {
    return CannotRead(stream_->gcount() / static_cast<int64_t>(sizeof(float)));
  }
  for (size_t i = 0; i < values->size(); ++i) {
    if (!std::isfinite((*values)[i])) {
      return NotFinite(static_cast<int64_t>(i), (*values)[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status NpyFile::Convert(std::vector<float>* values) {
  const int64_t width = NpyTypeBytes(layout_.type);
  const auto total = static_cast<int64_t>(values->size());
  std::vector<char> chunk(std::min(kChunkBytes, total * width));
  for (int64_t done = 0; done < total;) {
    const int64_t count = std::min<int64_t>(total - done, kChunkBytes / width);
    if (!stream_->read(chunk.data(), count * width)) return CannotRead(done);
    for (int64_t i = 0; i < count; ++i, ++done) {
      const double value = Element(layout_.type, chunk.data() + i * width);
      // False for NaN as well.
      if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
        return NotFinite(done, value);
      }
      (*values)[done] = static_cast<float>(value);
    }
  }
  return absl::OkStatus();
}

absl::Status NpyFile::CannotRead(int64_t element) const {
  return absl::InvalidArgumentError(absl::StrCat(
      name_, ": cannot be read in row ", next_row_ + element / layout_.columns,
      "; has the file been changed meanwhile?"));
}

absl::Status NpyFile::NotFinite(int64_t element, double value) const {
  return absl::InvalidArgumentError(absl::StrCat(
      name_, ": row ", next_row_ + element / layout_.columns, ", column ",
      element % layout_.columns, " is ", value, "; expected a finite float32"));
}

}  // namespace coterie
