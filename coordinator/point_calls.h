// Writes and reads of points by id, sent to the shards that own them.
//
// Stateless; any thread. Nothing blocks; `done` runs on the thread of the last
// reply. REQUIRES throughout: `spec` has passed CheckOwners for these shards.

#ifndef COTERIE_COORDINATOR_POINT_CALLS_H_
#define COTERIE_COORDINATOR_POINT_CALLS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/link_use.h"
#include "api/shard_messages.h"
#include "coordinator/shard_client.h"

namespace coterie {

// What can be said of an upsert without knowing the collection: not empty, not
// over limits.points_per_upsert, no deletes, no id twice. INVALID_ARGUMENT
// naming the item (both positions of an id) otherwise. O(points).
absl::Status CheckBatch(const WriteBatch& batch, const Limits& limits);

// Whether every vector has the collection's dimension and suits its metric.
// INVALID_ARGUMENT naming points[i] otherwise. O(points x dimension).
absl::Status CheckVectors(const CollectionSpec& spec, const WriteBatch& batch);

// Writes each point on its owner, all owners at once. On failure the status is
// that of the first shard (by id) that failed; the message says how many items
// were applied, and where. The batch may be sent again.
void WriteToOwners(const ShardSet& shards, const CollectionSpec& spec,
                   WriteBatch batch, CallContext call, Done<WriteReply> done);

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
