// One search sent to shards, and the replies collected.
//
// Stateless; any thread. Nothing blocks: the thread of the deciding reply goes
// on. What the replies mean is merge_replies' business.

#ifndef COTERIE_COORDINATOR_SCATTER_GATHER_H_
#define COTERIE_COORDINATOR_SCATTER_GATHER_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/search.h"
#include "coordinator/shard_client.h"

namespace coterie {

// Element i is shard i's answer.
using ShardReplies = std::vector<absl::StatusOr<ShardSearchReply>>;

// Element i of `requests` is for shard i; null: the shard is not asked and its
// answer is left UNKNOWN. REQUIRES: one for each shard, at least one not null,
// all of one partial policy.
// Each shard gets the call's deadline less `reserve` (less half of what
// remains, if that is less) and a token that follows the caller's. Round trips
// and the k asked for are written into the replies.
//
// Under the FAIL policy the first failure, naming its shard, is the outcome at
// once, and the other shards are told to stop. Under the other policies the
// outcome is OK with the answer or failure of every shard that was asked. When
// the caller has gone away the outcome is CANCELLED.
void ScatterSearch(const ShardSet& shards,
                   std::vector<std::shared_ptr<const SearchRequest>> requests,
                   CallContext call, absl::Duration reserve,
                   Done<ShardReplies> done);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SCATTER_GATHER_H_
