// Writes of points, sent to the shards that own them.
//
// Stateless; any thread. Nothing blocks; `done` runs on the thread of the last
// reply.

#ifndef COTERIE_COORDINATOR_OWNER_WRITES_H_
#define COTERIE_COORDINATOR_OWNER_WRITES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/shard_messages.h"
#include "coordinator/shard_client.h"

namespace coterie {

// What can be said of a batch without knowing the collection: of an upsert or
// of updates, that it is not empty, not over limits.points_per_upsert, has no
// id twice and nothing of another kind. INVALID_ARGUMENT naming the item (both
// positions of an id) otherwise. O(points).
absl::Status CheckUpsert(const WriteBatch& batch, const Limits& limits);
absl::Status CheckUpdates(const WriteBatch& batch, const Limits& limits);

// Whether every vector has the collection's dimension and suits its metric.
// INVALID_ARGUMENT naming points[i] otherwise. O(points x dimension).
absl::Status CheckVectors(const CollectionSpec& spec, const WriteBatch& batch);

// Writes each item on its owner, all owners at once. On failure the status is
// that of the first shard (by id) that failed; message and WriteOutcome
// (api/write_outcome.h) say what was applied, and where. The batch may be sent
// again. REQUIRES: `spec` has passed CheckOwners for these shards.
void WriteToOwners(const ShardSet& shards, const CollectionSpec& spec,
                   WriteBatch batch, CallContext call, Done<WriteReply> done);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_OWNER_WRITES_H_
