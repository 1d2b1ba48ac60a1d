// Files beside the vectors that say more of each row: its id, its attributes.
// Row i of one belongs to row i of the other.
//
// Not thread-safe. Checked as a whole before the first row is handed out: two
// passes, one line or 64 KiB at a time. Errors are INVALID_ARGUMENT naming the
// file and the line (from 1) or row (from 0).

#ifndef COTERIE_CLIENT_ROWS_SIDE_FILES_H_
#define COTERIE_CLIENT_ROWS_SIDE_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/point.h"
#include "client/rows/input_file.h"

namespace coterie {

template <typename T>
class SideFile {
 public:
  virtual ~SideFile() = default;

  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  // Most bytes of what one row says.
  int64_t most_bytes() const { return most_bytes_; }

  // Replaces `values` by those of the next min(max_rows, rows left) rows. After
  // an error the file is spent.
  virtual absl::Status Read(int64_t max_rows, std::vector<T>* values) = 0;

 protected:
  explicit SideFile(std::string name) : name_(std::move(name)) {}

  std::string name_;
  int64_t rows_ = 0;
  int64_t most_bytes_ = 0;
};

using IdFile = SideFile<uint64_t>;
using AttributeFile = SideFile<Attributes>;

// A .npy file of uint64 or int64 not below 0, by its first bytes; else text,
// one decimal id a line, blanks around it allowed. An id that occurs twice is
// refused (id_check.h).
absl::StatusOr<std::unique_ptr<IdFile>> OpenIds(InputFile file);

// One JSON object a line (json_attributes.h), at most 128 KiB each; or, if
// `csv`, a CSV file with a header, whose every column is an attribute
// (csv_attributes.h).
absl::StatusOr<std::unique_ptr<AttributeFile>> OpenAttributes(InputFile file,
                                                              bool csv,
                                                              char delimiter);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_SIDE_FILES_H_
