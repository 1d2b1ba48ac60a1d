// Whether shards are the one cluster that a coordinator takes them for.
//
// Stateless; any thread. FAILED_PRECONDITION naming shard and difference;
// UNAVAILABLE naming a shard that did not answer. O(shards).

#ifndef COTERIE_COORDINATOR_CLUSTER_CHECKS_H_
#define COTERIE_COORDINATOR_CLUSTER_CHECKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "api/shard_messages.h"
#include "coordinator/shard_client.h"

namespace coterie {

// That shard i stands at place i, and there is one.
absl::Status CheckIds(const std::vector<std::shared_ptr<ShardClient>>& shards);

// That what the shards say of themselves is one cluster of that many.
// REQUIRES: shards is not empty.
absl::Status CheckIdentities(const std::vector<ShardDescription>& shards);

// That no copy of the catalogue is ahead of shard 0's, at `version`: shard 0
// would have lost data.
absl::Status CheckVersions(const std::vector<ShardDescription>& shards,
                           int64_t version);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_CLUSTER_CHECKS_H_
