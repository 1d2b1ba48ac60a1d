// A collection as random writes leave it, for tests of what reads it.

#ifndef COTERIE_SHARD_WRITTEN_SNAPSHOT_H_
#define COTERIE_SHARD_WRITTEN_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "api/point.h"
#include "index/metric.h"
#include "shard/collection_state.h"
#include "shard/shard_testing.h"

namespace coterie {

// What is stored, and how a shard keeps it.
struct Written {
  std::map<PointId, std::vector<float>> model;
  std::shared_ptr<const CollectionSnapshot> snapshot;
};

// Upserts and deletes, one in five, of ids below `writes`: sealed segments, a
// tail of fewer than `tail_rows` rows, and dead rows in both.
Written Write(Metric metric, int64_t dimension, int64_t writes,
              int64_t tail_rows, Random& random);

}  // namespace coterie

#endif  // COTERIE_SHARD_WRITTEN_SNAPSHOT_H_
