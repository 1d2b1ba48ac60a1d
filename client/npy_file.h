// Reads NumPy .npy files of floating-point rows, block by block.
//
// Not thread-safe: one reader, one thread. The file is not trusted: its header
// is checked against the file's size before anything is allocated by what it
// claims, so that a damaged or hostile file costs an error, never memory.
//
// Accepted: versions 1 and 2; dtype <f4, <f8 or <f2 (little-endian); C order;
// shape (rows, columns), or (columns,) for one vector; 1..16,384 columns; the
// file ends where the data ends. Anything else is INVALID_ARGUMENT with the
// file's name, what was found and what was expected.
//
// Format: numpy.lib.format, "NEP 1 - A simple file format for NumPy arrays".

#ifndef COTERIE_CLIENT_NPY_FILE_H_
#define COTERIE_CLIENT_NPY_FILE_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coterie {

// Longest dictionary read, as in NumPy's own reader; one of a plain matrix
// takes about 100 bytes.
inline constexpr int64_t kMaxNpyHeaderBytes = 10000;
// Magic, version and the longer of the two length fields.
inline constexpr int64_t kNpyPreambleBytes = 12;
// The widest vector any collection takes.
inline constexpr int64_t kMaxNpyColumns = 16384;

enum class NpyType { kFloat16, kFloat32, kFloat64, kInt64, kUint64 };

// What a file is read as: rows of floats, or one 64-bit integer a row, of
// shape (rows,) or (rows, 1) and dtype <u8 or <i8.
enum class NpyContent { kRows, kIntegers };

// Bytes of one element.
int64_t NpyTypeBytes(NpyType type);

// What a valid header says.
struct NpyLayout {
  NpyType type = NpyType::kFloat32;
  // A 1-D array of floats is one row, one of integers one column.
  int64_t rows = 0;
  int64_t columns = 0;
  bool one_dimensional = false;
  // Where the first element is; data_offset + rows x columns x element bytes
  // is the size of the file, without overflow.
  int64_t data_offset = 0;
};

// `start` is the beginning of the file: all of it, or at least
// kNpyPreambleBytes + kMaxNpyHeaderBytes. `name` is for messages.
// O(length of the header).
absl::StatusOr<NpyLayout> ParseNpyHeader(absl::string_view start,
                                         int64_t file_bytes,
                                         absl::string_view name,
                                         NpyContent content);

class NpyFile {
 public:
  // INVALID_ARGUMENT also if there is no such file, or it is not a regular one
  // (client/rows/input_file.h).
  static absl::StatusOr<NpyFile> Open(const std::string& path);

  // As Open, over a stream positioned at its start that holds `bytes` bytes.
  static absl::StatusOr<NpyFile> FromStream(
      std::unique_ptr<std::istream> stream, int64_t bytes, std::string name);

  const NpyLayout& layout() const { return layout_; }
  const std::string& name() const { return name_; }

  // Replaces `values` by the next min(max_rows, rows left) rows, row-major and
  // as float32; empties it at the end. A value that is not finite as float32
  // (NaN, Inf, a double beyond its range) is INVALID_ARGUMENT naming row and
  // column; narrowing rounds to nearest. After an error the reader is spent.
  // REQUIRES: max_rows > 0. Memory: the rows returned and 64 KiB.
  absl::Status ReadRows(int64_t max_rows, std::vector<float>* values);

  // The next ReadRows begins so many rows later. REQUIRES: 0 <= rows <= rows
  // left. O(1).
  void SkipRows(int64_t rows);

 private:
  NpyFile(std::unique_ptr<std::istream> stream, std::string name,
          const NpyLayout& layout)
      : stream_(std::move(stream)), name_(std::move(name)), layout_(layout) {}

  // Fill `values` from where the stream is.
  absl::Status ReadFloats(std::vector<float>* values);
  absl::Status Convert(std::vector<float>* values);
  // Errors; elements count from the next row.
  absl::Status CannotRead(int64_t element) const;
  absl::Status NotFinite(int64_t element, double value) const;

  std::unique_ptr<std::istream> stream_;
  std::string name_;
  NpyLayout layout_;
  int64_t next_row_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_NPY_FILE_H_
