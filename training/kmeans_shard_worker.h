// What one worker gathers during a step of a KMeansShard. Used by one thread
// at a time.

#ifndef COTERIE_TRAINING_KMEANS_SHARD_WORKER_H_
#define COTERIE_TRAINING_KMEANS_SHARD_WORKER_H_

#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "training/kmeans_shard.h"
#include "training/nearest_centre.h"

namespace coterie {

struct KMeansShard::Worker {
  NearestCentre::Scratch scratch;
  std::vector<int64_t> pending;  // rows to search
  std::vector<NearestFound> found;
  std::vector<float*> bound_rows;
  // Differences to the shard's sums, allocated when first needed.
  std::vector<int64_t> sums;
  std::vector<int64_t> weights;
  std::vector<uint8_t> touched;
  absl::int128 objective = 0;
  int64_t moved = 0;
  int64_t evaluated = 0;
  int64_t skipped = 0;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_SHARD_WORKER_H_
