// The search of one snapshot of a collection, for one caller or for several at
// once.
//
// Stateless; any thread. Each answer is what the search would get alone: that
// of a canonical scan of the live rows (shard/search_pass.h), or what its
// strategy finds (shard/index_search.h).

#ifndef COTERIE_SHARD_SNAPSHOT_SEARCH_H_
#define COTERIE_SHARD_SNAPSHOT_SEARCH_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/limits.h"
#include "api/search.h"
#include "shard/collection_state.h"
#include "shard/filtered_rows.h"
#include "shard/reply_budget.h"
#include "shard/work_queue.h"

namespace coterie {

// One caller's search; the pointers are not null.
struct SearchInPass {
  const SearchRequest* request;
  CallContext call;
  ReplyBudget* budget;
};

// A reply to each search, in order, after one pass over the rows for all that
// scan and one for each other: fills
// rows_live, slots, results (with vectors if asked, without attributes),
// accounts and the scan's times. Called by work of the queue. `filtered`: what
// the filter of the searches admits of the snapshot (FilterRows); null if they
// have none. REQUIRES: all have the same filter.
//
// INVALID_ARGUMENT naming the query if it is no vector, has another dimension
// than the collection or is not admitted by its metric; also for k and the
// number of queries out of range, and a radius that is NaN. FAILED_PRECONDITION
// if the collection has not the strategy's index. RESOURCE_EXHAUSTED
// naming the query if more than k points lie within the radius; also if the
// vectors exceed the budget. CANCELLED or DEADLINE_EXCEEDED within one block of
// rows when the call ends. An error of one search does not touch the others.
// O(rows x dimension x queries) over the idle threads of `queue`.
std::vector<absl::StatusOr<ShardSearchReply>> SearchSnapshot(
    const CollectionSnapshot& snapshot, absl::Span<const SearchInPass> searches,
    const Limits& limits, WorkQueue* queue,
    const FilteredRows* filtered = nullptr);

// The same for one search.
absl::StatusOr<ShardSearchReply> SearchSnapshot(
    const CollectionSnapshot& snapshot, const SearchRequest& request,
    const Limits& limits, const CallContext& call, ReplyBudget* budget,
    WorkQueue* queue, const FilteredRows* filtered = nullptr);

}  // namespace coterie

#endif  // COTERIE_SHARD_SNAPSHOT_SEARCH_H_
