// Rows of vectors out of a file of any format: what the importer reads.
//
// Not thread-safe: one source, one thread. Files are not trusted: whatever
// their headers claim, a damaged or hostile file costs an error, never memory.
// Memory: the rows handed out, one row and 64 KiB; text formats also hold one
// line.
//
// Every error is INVALID_ARGUMENT and names the file, the row or line, what
// was found and what was expected. Rows and components count from 0, lines
// and columns of text from 1. Files that change while they are read are
// noticed where sizes or lines no longer agree.
//
// | format | extension | what it is |
// |---|---|---|
// | npy | .npy | NumPy array (rows, columns) of float32, float64, float16 |
// | fvecs | .fvecs | each row: int32 dimension, then as many float32 |
// | bvecs | .bvecs | each row: int32 dimension, then as many bytes 0..255 |
// | fbin | .fbin | uint32 rows, uint32 dimension, then float32 rows |
// | u8bin, i8bin | .u8bin, .i8bin | as fbin, of bytes 0..255 or -128..127 |
// | csv | .csv, .tsv | RFC 4180, see csv_rows.h |
// | libsvm | .libsvm, .svm | label index:value ..., see libsvm_rows.h |
//
// fvecs and bvecs are the formats of TEXMEX and ann-benchmarks, the *bin ones
// of the big-ann benchmarks. Numbers are little-endian.

#ifndef COTERIE_CLIENT_ROWS_ROW_SOURCE_H_
#define COTERIE_CLIENT_ROWS_ROW_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/point.h"
#include "client/rows/input_file.h"

namespace coterie {

// The widest vector any collection takes.
inline constexpr int64_t kMaxDimension = 16384;

struct RowBlock {
  int64_t rows = 0;
  // rows x dimension, row-major; finite.
  std::vector<float> values;
  // One each, or none if the file has none.
  std::vector<uint64_t> ids;
  std::vector<Attributes> attributes;

  void Clear();
};

class RowSource {
 public:
  virtual ~RowSource() = default;

  const std::string& name() const { return name_; }
  // Rows in the file. Known when it is opened.
  int64_t rows() const { return rows_; }
  // Components of each row, 1..kMaxDimension.
  int64_t dimension() const { return dimension_; }
  // Whether the file itself says each row's id.
  virtual bool has_ids() const { return false; }
  // An upper bound of the bytes of a row's attributes and their names.
  virtual int64_t attribute_bytes() const { return 0; }

  // Rows get this dimension: must be that of the file, or not below it for
  // sparse formats, which do not say how wide they are. INVALID_ARGUMENT
  // naming both otherwise. Call before Read.
  virtual absl::Status SetDimension(int64_t dimension);

  // Replaces `block` by the next min(max_rows, rows left) rows; none at the
  // end. After an error the source is spent. REQUIRES: max_rows > 0.
  virtual absl::Status Read(int64_t max_rows, RowBlock* block) = 0;

  // As reading so many rows, without keeping them. REQUIRES: 0 <= rows <= rows
  // left. O(1) for binary formats, unless said otherwise O(bytes skipped).
  virtual absl::Status Skip(int64_t rows);

 protected:
  RowSource(std::string name, int64_t rows, int64_t dimension)
      : name_(std::move(name)), rows_(rows), dimension_(dimension) {}

  std::string name_;
  int64_t rows_ = 0;
  int64_t dimension_ = 0;
};

enum class RowFormat {
  kNpy,
  kFvecs,
  kBvecs,
  kFbin,
  kU8bin,
  kI8bin,
  kCsv,
  kLibsvm,
};

// "npy", ... of the table above.
absl::string_view RowFormatName(RowFormat format);
// All of them, for messages: "npy, fvecs, ...".
std::string RowFormatNames();

// By name, in any case.
absl::StatusOr<RowFormat> ParseRowFormat(absl::string_view name);
// By the extension of a path, in any case.
absl::StatusOr<RowFormat> RowFormatOfPath(absl::string_view path);

enum class CsvHeader {
  // There is one if the first record has a field that is not a number.
  kGuess,
  kYes,
  kNo,
};

struct RowOptions {
  // CSV: one byte, not a quote, digit or line end.
  char delimiter = ',';
  CsvHeader header = CsvHeader::kGuess;
  // CSV: a column's name, or its number from 1 if it has none. Ids are
  // decimal; attribute columns may say a type, see csv_rows.h.
  std::string id_column;
  std::vector<std::string> attribute_columns;
  // libsvm: indices count from 0; else from 1.
  bool zero_based = false;
  // libsvm: the attribute that keeps the label; empty drops it.
  std::string label = "label";
};

// Opens rows of the format. Text formats are read through here, so that every
// fault is found before the first row is handed out; of binary ones header
// and size are checked. O(size of the file) for text, else O(1).
absl::StatusOr<std::unique_ptr<RowSource>> OpenRows(InputFile file,
                                                    RowFormat format,
                                                    const RowOptions& options);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_ROW_SOURCE_H_
