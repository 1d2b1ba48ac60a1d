// What one worker gathers during a step of a KMeansShard. Used by one thread
// at a time.

#ifndef COTERIE_TRAINING_KMEANS_SHARD_WORKER_H_
#define COTERIE_TRAINING_KMEANS_SHARD_WORKER_H_

#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "training/coded_nearest.h"
#include "training/kmeans_shard.h"
#include "training/nearest_centre.h"

namespace coterie {

struct KMeansShard::Worker {
  NearestCentre::Scratch scratch;
  std::vector<int64_t> pending;  // rows to search
  // Rows to search from a known centre, and how much farther than it.
  CodedNearest::Scratch coded_scratch;
  std::vector<int64_t> coded;
  std::vector<double> reach;
  // Rows whose bound holds for all but the centres apart, and how much farther
  // than their own centre those are searched.
  std::vector<int64_t> near;
  std::vector<double> near_reach;
  int64_t apart = 0;  // rows settled by the separation of centres
  int64_t coded_rows = 0;
  int64_t coded_distances = 0;
  std::vector<NearestFound> found;
  std::vector<float*> bound_rows;
  std::vector<float> row;  // of a batch, measured from its middle
  // Differences to the shard's sums, allocated when first needed.
  std::vector<int64_t> sums;
  std::vector<int64_t> weights;
  std::vector<uint8_t> touched;
  absl::int128 objective = 0;  // beyond that of the assignment before
  int64_t moved = 0;
  int64_t evaluated = 0;
  int64_t skipped = 0;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_SHARD_WORKER_H_
