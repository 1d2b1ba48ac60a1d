// The exact search of one snapshot of a collection.
//
// Stateless; any thread. The answer is that of a canonical scan of the live
// rows (index/exact_scan.h), the same for any number of threads and any
// division into segments, because the order of neighbours is total.

#ifndef COTERIE_SHARD_SNAPSHOT_SEARCH_H_
#define COTERIE_SHARD_SNAPSHOT_SEARCH_H_

#include "absl/status/statusor.h"
#include "api/call.h"
#include "api/limits.h"
#include "api/search.h"
#include "shard/collection_state.h"
#include "shard/reply_budget.h"
#include "shard/work_queue.h"

namespace coterie {

// Fills rows_live, slots, results (with vectors if asked, without attributes),
// accounts and the scan's times of the reply.
//
// INVALID_ARGUMENT naming the query if it is no vector, has another dimension
// than the collection or is not admitted by its metric; also for k and the
// number of queries out of range, and a radius that is NaN. RESOURCE_EXHAUSTED
// naming the query if more than k points lie within the radius; also if the
// vectors exceed the budget. CANCELLED or DEADLINE_EXCEEDED within one block of
// rows when the call ends.
// O(rows x dimension x queries) over the idle threads of `queue`.
absl::StatusOr<ShardSearchReply> SearchSnapshot(
    const CollectionSnapshot& snapshot, const SearchRequest& request,
    const Limits& limits, const CallContext& call, ReplyBudget* budget,
    WorkQueue* queue);

}  // namespace coterie

#endif  // COTERIE_SHARD_SNAPSHOT_SEARCH_H_
