// From the shards' replies to the reply: the global top k, how much of the data
// it speaks for, and whether it is certified.
//
// Stateless; any thread; no I/O.
//
// `exact` of a query is set only if
//   1. every shard answered, at the catalogue's version,
//   2. each slot of the collection was reported once, by its owner (in the view
//      of one shard: each slot that it owns),
//   3. each shard's live rows are those of its slots,
//   4. every list was in order, finite and no longer than its shard was asked
//      for,
//   5. no id was met twice in the lists, in any query,
//   6. on each shard, live = evaluated + ruled out + filtered for this query,
//      and none was left unseen by the strategy.
// The first of these that fails, in this order, is `withheld`.
// It proves accounting, not honesty.

#ifndef COTERIE_COORDINATOR_MERGE_REPLIES_H_
#define COTERIE_COORDINATOR_MERGE_REPLIES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "api/collection.h"
#include "api/search.h"
#include "coordinator/scatter_gather.h"

namespace coterie {

struct MergedSearch {
  // Without total_seconds and cost.
  SearchReply reply;
  // Ids met more than once: each reported once, at its least distance.
  int64_t duplicate_ids = 0;
};

// Makes INTERNAL failures of replies that do not answer the request: another
// shard's, or with another number of queries.
void RefuseUnfit(const SearchRequest& request, ShardReplies* replies);

// Merges by a p-way merge (index/top_k.h), then applies the offset. Vectors and
// attributes follow their hit. `spec` is the collection in the catalogue of
// version `catalogue_version`. Replies are those that the answer is to be made
// of, each from one round (coordinator/search_rounds.h); unfit ones are
// refused.
//
// Failures of shards: FAIL returns the first by shard id, naming it; ALLOW and
// REQUIRE list them in Coverage, but return the first if no shard answered or
// coverage is below min_ratio. Faults of the request or of the route
// (INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, CANCELLED, and
// RESOURCE_EXHAUSTED without a delay to retry after) are returned whatever the
// policy. RESOURCE_EXHAUSTED if a radius holds request.k points
// or more, naming the limit.
//
// With a shard missing, the ratio is of slots, and rows_total is estimated as
// rows_covered x slots / slots covered (0 if no slot is).
// O(queries x p x k log p).
absl::StatusOr<MergedSearch> MergeReplies(const SearchRequest& request,
                                          const CollectionSpec& spec,
                                          int64_t catalogue_version,
                                          ShardReplies replies);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_MERGE_REPLIES_H_
