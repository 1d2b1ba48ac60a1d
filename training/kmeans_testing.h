// Data, shards and a slow obvious model for tests of k-means.

#ifndef COTERIE_TRAINING_KMEANS_TESTING_H_
#define COTERIE_TRAINING_KMEANS_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/kmeans_job.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {

struct KMeansData {
  Metric metric = Metric::kSquaredL2;
  int64_t d = 1;
  std::vector<float> rows;
  std::vector<PointId> ids;     // empty: 0, 1, ...
  std::vector<double> weights;  // empty: 1 each

  int64_t n() const { return static_cast<int64_t>(rows.size()) / d; }
  VectorView row(int64_t i) const {
    return VectorView(rows.data() + i * d, static_cast<size_t>(d));
  }
  PointId id(int64_t i) const {
    return ids.empty() ? static_cast<PointId>(i) : ids[static_cast<size_t>(i)];
  }
};

// `n` rows around `blobs` centres; ids are scattered over all 64 bits.
KMeansData Blobs(int64_t n, int64_t d, int64_t blobs, double spread,
                 std::mt19937_64& random);
// Signs and magnitudes over 40 binary orders: float sums depend on their order.
KMeansData HeavyTailed(int64_t n, int64_t d, std::mt19937_64& random);

// Rows of comma-separated numbers.
KMeansData ReadCsv(const std::string& path);

// KMeansWorkers with `threads` threads.
KMeansWorkers ThreadedWorkers(int32_t threads);

// The rows of `data` on `shards` shards: row i on shard place(i).
class KMeansCluster {
 public:
  KMeansCluster(const KMeansData& data, const std::vector<int32_t>& place,
                int32_t shards, const KMeansShard::Options& options = {});
  // By a hash of seed and row.
  KMeansCluster(const KMeansData& data, int32_t shards, uint64_t seed = 0);

  absl::Span<KMeansShard* const> shards() const { return pointers_; }
  absl::StatusOr<KMeansResult> Run(const KMeansOptions& options,
                                   const KMeansWorkers& workers = {});
  // Label of each id, of all shards.
  std::map<PointId, int32_t> Labels() const;

 private:
  void Build(const KMeansData& data, const std::vector<int32_t>& place,
             int32_t shards, const KMeansShard::Options& options);

  struct Part {
    std::vector<float> rows;
    std::vector<PointId> ids;
    std::vector<double> weights;
  };
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<KMeansShard>> shards_;
  std::vector<KMeansShard*> pointers_;
};

// Options for `data` with k centres, the first k rows as given ones if `given`.
KMeansOptions OptionsFor(const KMeansData& data, int64_t k, bool given);

// Lloyd's algorithm from given centres with sums in long double: labels by
// canonical distance, until no row moves.
struct KMeansModel {
  std::vector<float> centres;
  std::vector<int32_t> labels;
  double objective = 0;
  int64_t iterations = 0;
};
KMeansModel RunKMeansModel(const KMeansData& data, std::vector<float> centres,
                           int64_t max_iterations);

// The canonical nearest centre by trying all.
int32_t NearestByAll(Metric metric, VectorView row, RowsView centres,
                     double* distance);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_TESTING_H_
