// The rows of one shard as k-means reads them: gathered from the segments of a
// pinned snapshot, ordered by id, with weights.
//
// Immutable after construction; any number of threads may share it. Row data
// and ids are not copied; the caller keeps the snapshot for as long as this
// object lives.
//
// Under COSINE a row stands for its direction x/|x| and distances are cosine
// distances (spherical k-means: Dhillon and Modha, Machine Learning 42, 2001).
// The other metrics use the squared Euclidean distance, INNER_PRODUCT too, for
// which a mean is not the best centre of anything.

#ifndef COTERIE_TRAINING_KMEANS_ROWS_H_
#define COTERIE_TRAINING_KMEANS_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

// A part of a shard's rows, such as one segment.
struct KMeansBlock {
  RowsView rows;
  const PointId* ids = nullptr;  // one a row
  // One a row, >= 0 and finite. Null: 1 each.
  const double* weights = nullptr;
  // Bit i of word i/64 set: row i takes part. Null: all rows do.
  const uint64_t* live = nullptr;
};

class KMeansRows {
 public:
  // INVALID_ARGUMENT naming the id: a weight that is negative or not finite, an
  // id met twice; also when some blocks have weights and others do not, and for
  // a block of another dimension.
  // REQUIRES: rows pass ValidateVector(metric, .), d <= kMaxDimension.
  // O(n log n), O(n d) under COSINE; 16 bytes a row, 8 more for a weight and
  // for COSINE.
  static absl::StatusOr<KMeansRows> Create(
      Metric metric, int64_t dimension, absl::Span<const KMeansBlock> blocks);

  // kSquaredL2 or kCosine: what distances are measured with.
  Metric metric() const { return metric_; }
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  int64_t dimension() const { return d_; }
  bool weighted() const { return !weights_.empty(); }

  // Row i in the order of ids.
  PointId id(int64_t i) const { return ids_[static_cast<size_t>(i)]; }
  // The row of an id; -1: none. O(log n).
  int64_t Find(PointId id) const;
  const float* data(int64_t i) const { return rows_[static_cast<size_t>(i)]; }
  VectorView row(int64_t i) const {
    return VectorView(data(i), static_cast<size_t>(d_));
  }
  double weight(int64_t i) const {
    return weights_.empty() ? 1.0 : weights_[static_cast<size_t>(i)];
  }
  // Canonical |x|^2 under COSINE, else 0.
  double squared_norm(int64_t i) const {
    return squared_norms_.empty() ? 0.0
                                  : squared_norms_[static_cast<size_t>(i)];
  }

  // Canonical distance of row i and `centre`, whose canonical squared norm is
  // needed under COSINE only.
  double Distance(int64_t i, VectorView centre, double squared_norm_of) const {
    return CanonicalDistance(metric_, centre, row(i), squared_norm_of,
                             squared_norm(i));
  }

 private:
  KMeansRows() = default;

  Metric metric_ = Metric::kSquaredL2;
  int64_t d_ = 0;
  std::vector<PointId> ids_;
  std::vector<const float*> rows_;
  std::vector<double> weights_;
  std::vector<double> squared_norms_;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_ROWS_H_
