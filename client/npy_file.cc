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

double Element(NpyType type, const char* bytes) {
  switch (type) {
    case NpyType::kFloat16:
      return HalfToFloat(Load<uint16_t>(bytes));
    case NpyType::kFloat32:
      return Load<float>(bytes);
    default:
      // Integers are not read as rows.
      return Load<double>(bytes);
  }
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
  const int64_t width = NpyTypeBytes(layout_.type);
  const int64_t rows = std::min(max_rows, layout_.rows - next_row_);
  const int64_t total = rows * layout_.columns;
  values->clear();
  values->reserve(total);
  std::vector<char> chunk(std::min(kChunkBytes, total * width));
  for (int64_t done = 0; done < total;) {
    const int64_t count = std::min<int64_t>(total - done, kChunkBytes / width);
    if (!stream_->read(chunk.data(), count * width)) {
      return absl::InvalidArgumentError(absl::StrCat(
          name_, ": cannot be read in row ", next_row_ + done / layout_.columns,
          "; has the file been changed meanwhile?"));
    }
    for (int64_t i = 0; i < count; ++i, ++done) {
      const double value = Element(layout_.type, chunk.data() + i * width);
      // False for NaN as well.
      if (!(std::abs(value) <= std::numeric_limits<float>::max())) {
        return absl::InvalidArgumentError(
            absl::StrCat(name_, ": row ", next_row_ + done / layout_.columns,
                         ", column ", done % layout_.columns, " is ", value,
                         "; expected a finite float32"));
      }
      values->push_back(static_cast<float>(value));
    }
  }
  next_row_ += rows;
  return absl::OkStatus();
}

}  // namespace coterie
