// One shard of a larger cluster, shown as a cluster of its own so that the
// public services can serve its rows for whoever looks at one shard.
//
// Thread-safe. As a cluster it is shard 0 of 1, and slots that other shards own
// are kElsewhere; errors name the shard as it is really called.

#ifndef COTERIE_COORDINATOR_SHARD_VIEW_H_
#define COTERIE_COORDINATOR_SHARD_VIEW_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "api/search.h"
#include "coordinator/shard_client.h"

namespace coterie {

// Owner of a slot that is not of the shards at hand.
inline constexpr int32_t kElsewhere = -1;

std::shared_ptr<ShardClient> MakeShardView(std::shared_ptr<ShardClient> shard);

// FAILED_PRECONDITION: what changes data or collections is for a coordinator.
absl::Status RefusedByView(int32_t shard_id);

// Puts the shard's own id into a reply that was merged over a view.
void NameShard(int32_t shard_id, SearchReply* reply);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SHARD_VIEW_H_
