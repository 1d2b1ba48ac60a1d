// The rows of a shard as an SGD job sees them: with labels, ordered by worker
// and then by id, so that sums do not depend on where a row is stored.
//
// Immutable once made; any thread. Vectors are not copied; the caller keeps
// the snapshot for as long as this object lives.

#ifndef COTERIE_TRAINING_SGD_ROWS_H_
#define COTERIE_TRAINING_SGD_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/vectors.h"
#include "training/sgd_model.h"

namespace coterie {

// A part of a shard's rows, such as one segment.
struct SgdBlockOfRows {
  RowsView rows;
  const PointId* ids = nullptr;    // one a row
  const double* labels = nullptr;  // one a row
  // Bit i of word i/64 set: row i takes part. Null: all rows do.
  const uint64_t* live = nullptr;
};

// How rows are shared out.
struct SgdSplit {
  int32_t workers = 1;
  // Of the job; decides which rows are held out.
  uint64_t seed = 0;
  // Share of rows kept from training, to measure loss and accuracy on, in
  // [0, 1): those with a uniform hash of (seed, id) below it.
  double held_out = 0;
};

class SgdRows {
 public:
  // INVALID_ARGUMENT naming the id for a label that the model refuses and for
  // an id met twice; also for a block of another dimension and workers < 1.
  // REQUIRES: a valid model; finite rows. O(n log n + n d); 24 bytes a row.
  static absl::StatusOr<SgdRows> Create(
      const SgdModel& model, const SgdSplit& split,
      absl::Span<const SgdBlockOfRows> blocks);

  int32_t workers() const { return static_cast<int32_t>(begins_.size()) - 2; }

  // Rows [begin, end) are those of a worker, by id. "Worker" workers() has
  // those held out.
  int64_t begin(int32_t worker) const {
    return begins_[static_cast<size_t>(worker)];
  }
  int64_t end(int32_t worker) const { return begin(worker + 1); }
  int64_t count(int32_t worker) const { return end(worker) - begin(worker); }

  PointId id(int64_t row) const { return ids_[static_cast<size_t>(row)]; }
  double label(int64_t row) const { return labels_[static_cast<size_t>(row)]; }
  const float* row(int64_t row) const {
    return rows_[static_cast<size_t>(row)];
  }
  absl::Span<const float* const> rows(int64_t begin, int64_t count) const {
    return absl::MakeSpan(rows_).subspan(static_cast<size_t>(begin),
                                         static_cast<size_t>(count));
  }
  absl::Span<const double> labels(int64_t begin, int64_t count) const {
    return absl::MakeSpan(labels_).subspan(static_cast<size_t>(begin),
                                           static_cast<size_t>(count));
  }
  // Largest |x|^2 of the rows to train on, canonical.
  double max_squared_norm() const { return max_squared_norm_; }
  // Least and largest label of the rows to train on, -1 for 0 under kLogistic.
  // 0 if there are none.
  double least_label() const { return least_label_; }
  double most_label() const { return most_label_; }
  // Sum of hashes of each row's id, label and |x|^2, modulo 2^64: of other rows
  // it is another, but with a probability near 2^-64.
  uint64_t checksum() const { return checksum_; }

 private:
  SgdRows() = default;

  std::vector<int64_t> begins_;
  std::vector<PointId> ids_;
  std::vector<double> labels_;
  std::vector<const float*> rows_;
  double max_squared_norm_ = 0;
  double least_label_ = 0;
  double most_label_ = 0;
  uint64_t checksum_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_ROWS_H_
