// Writes rows to a file that OpenRows reads back byte for byte.
//
// Not thread-safe. Streams: nothing is held but a buffer. The file appears when
// it is committed (atomic_file.h).
//
// csv has a header, id,v0,v1,..., and numbers with as many digits as give the
// same float back; the other formats have no place for ids.

#ifndef COTERIE_CLIENT_ROWS_ROW_WRITER_H_
#define COTERIE_CLIENT_ROWS_ROW_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/rows/atomic_file.h"
#include "client/rows/row_source.h"

namespace coterie {

class RowWriter {
 public:
  virtual ~RowWriter() = default;

  // REQUIRES: as many values as the dimension says.
  virtual absl::Status Add(uint64_t id, absl::Span<const float> values) = 0;
  // No more rows: completes the file, still under its temporary name.
  virtual absl::Status Finish() = 0;
  // Gives it its name. REQUIRES: finished.
  absl::Status Commit() { return file_.Commit(); }

 protected:
  explicit RowWriter(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
};

// INVALID_ARGUMENT for formats that cannot hold every float32: those of bytes,
// and libsvm, whose zeros would not come back as rows of one width.
absl::StatusOr<std::unique_ptr<RowWriter>> CreateRows(const std::string& path,
                                                      RowFormat format,
                                                      int64_t dimension);

// The ids alone, as .npy of uint64, shape (rows,): what OpenIds reads.
absl::StatusOr<std::unique_ptr<RowWriter>> CreateIds(const std::string& path);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_ROW_WRITER_H_
