// Asking shards for fewer than k neighbours first, and again where that was too
// few.
//
// Stateless; any thread; no I/O.
//
// Of the k nearest points about k/p lie on each of p shards, since a point's
// slot is a hash of its id. So a search for many neighbours asks every shard
// for a little more than its share, merges, and asks those shards again, now
// for k, whose list ends before the merged k-th neighbour: beyond the end there
// may be nearer points. Lists are prefixes of a shard's points in the total
// order (distance, id), so a list that does not end before the k-th neighbour
// hides none of the k nearest, ties included.
//
// A shard's second answer replaces its first as a whole, accounts and sequence
// too, so each shard is seen at one sequence as in one round. It may hold fewer
// near points than the first (writes went on), and a shard may fail: the k-th
// neighbour may move away and lists that were long enough no longer be. Hence
// rounds go on until none is cut short; since who was asked for k is not asked
// again there are at most p + 1, and nearly always one.

#ifndef COTERIE_COORDINATOR_SEARCH_ROUNDS_H_
#define COTERIE_COORDINATOR_SEARCH_ROUNDS_H_

#include <cstdint>
#include <vector>

#include "api/collection.h"
#include "api/search.h"
#include "coordinator/scatter_gather.h"

namespace coterie {

// Below this k one round is cheapest: a reply is mostly overhead.
inline constexpr int64_t kLeastKForRounds = 64;

// Neighbours to ask of every shard in the first round, 1..request.k: so many
// that ids placed by their hash make a second round once in a thousand searches
// at most (Bernstein's inequality for the binomial share of the shard with the
// most slots, over all queries and shards). request.k if that is below
// kLeastKForRounds or one shard has all slots; with a radius the number of
// points allowed, request.k - 1, as there is no merged k-th to wait for.
int64_t FirstAsk(const SearchRequest& request, const CollectionSpec& spec);

// The shards, ascending, whose list of some query was cut short before the
// merged request.k-th neighbour; none with a radius. Replies that failed are
// left out. REQUIRES: replies fit the request (RefuseUnfit).
// O(queries x hits x log p).
std::vector<int32_t> CutShort(const SearchRequest& request,
                              const ShardReplies& replies);

// Bytes that replies from other processes would have had more if their shards
// had been asked for k at once: 16 a hit, and 4 a component with vectors.
// Attributes are not counted. 0 with a radius.
int64_t BytesNotSent(const SearchRequest& request, const CollectionSpec& spec,
                     const ShardReplies& replies);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SEARCH_ROUNDS_H_
