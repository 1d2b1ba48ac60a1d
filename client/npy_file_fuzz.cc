// Any bytes as a .npy file: an error that names the file, or rows that agree
// with the header and are finite.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "client/npy_file.h"

namespace {

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

void RequireRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument,
          "refusals are INVALID_ARGUMENT");
  Require(absl::StartsWith(status.message(), "f.npy: "),
          "refusals name the file");
  Require(status.message().size() < 1000, "refusals are short");
  for (const char c : status.message()) {
    Require(c >= 0x20 && c < 0x7f, "refusals are printable");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<coterie::NpyFile> file =
      coterie::NpyFile::FromStream(std::make_unique<std::istringstream>(bytes),
                                   static_cast<int64_t>(size), "f.npy");
  if (!file.ok()) {
    RequireRefusal(file.status());
    return 0;
  }
  const coterie::NpyLayout& layout = file->layout();
  Require(layout.columns >= 1 && layout.columns <= coterie::kMaxNpyColumns,
          "columns are in range");
  Require(layout.data_offset + layout.rows * layout.columns *
                                   coterie::NpyTypeBytes(layout.type) ==
              static_cast<int64_t>(size),
          "the layout fills the file");
  const int64_t block = 1 + (size == 0 ? 0 : data[size - 1] % 5);
  std::vector<float> values;
  int64_t read = 0;
  do {
    const absl::Status status = file->ReadRows(block, &values);
    if (!status.ok()) {
      RequireRefusal(status);
      return 0;
    }
    for (const float value : values) {
      Require(std::isfinite(value), "values are finite");
    }
    read += static_cast<int64_t>(values.size());
  } while (!values.empty());
  Require(read == layout.rows * layout.columns, "all rows are read");
  return 0;
}
