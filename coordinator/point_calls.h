// Reads of points by id, sent to the shards that own them.
//
// Stateless; any thread. Nothing blocks; `done` runs on the thread of the last
// reply. REQUIRES throughout: `spec` has passed CheckOwners for these shards.

#ifndef COTERIE_COORDINATOR_POINT_CALLS_H_
#define COTERIE_COORDINATOR_POINT_CALLS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "api/call.h"
#include "api/collection.h"
#include "api/link_use.h"
#include "api/shard_messages.h"
#include "coordinator/shard_client.h"

namespace coterie {

// What a get found, and what it took.
struct OwnersGetReply {
  // In the order of the request, repeated ids repeated; its link is unset.
  GetReply reply;
  std::vector<std::pair<int32_t, LinkUse>> links;  // of each shard asked
};

// Reads each id from its owner. Fails if one owner fails; FAILED_PRECONDITION
// naming an id that lives elsewhere (shard_view.h).
void GetFromOwners(const ShardSet& shards, const CollectionSpec& spec,
                   GetRequest request, CallContext call,
                   Done<OwnersGetReply> done);

// Sum over all shards. Fails if one fails.
void CountOnAll(const ShardSet& shards, const CountRequest& request,
                CallContext call, Done<CountReply> done);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_POINT_CALLS_H_
