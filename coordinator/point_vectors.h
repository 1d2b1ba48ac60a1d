// The vectors that a call speaks of, wherever they are.
//
// Stateless; waits for shards: only for threads that may block.

#ifndef COTERIE_COORDINATOR_POINT_VECTORS_H_
#define COTERIE_COORDINATOR_POINT_VECTORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/point.h"
#include "coordinator/shard_client.h"

namespace coterie {

// `given` if there are no ids, else those of the points, in the order of the
// ids; empty for an id without point. Errors name the shard.
absl::StatusOr<std::vector<std::vector<float>>> PointVectors(
    const ShardSet& shards, const CollectionSpec& spec,
    const std::vector<PointId>& ids,
    const std::vector<std::vector<float>>& given, const CallContext& call);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_POINT_VECTORS_H_
