// One search over all shards: queries by id resolved, scattered (in rounds, if
// k is large: coordinator/search_rounds.h), merged.
//
// Stateless but for SearchContext; any thread. Nothing blocks.

#ifndef COTERIE_COORDINATOR_SEARCH_CALL_H_
#define COTERIE_COORDINATOR_SEARCH_CALL_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/search.h"
#include "coordinator/catalogue_store.h"
#include "coordinator/link_models.h"
#include "coordinator/shard_client.h"

namespace coterie {

// What searches share. Thread-safe; outlived by none of them (shared_ptr).
struct SearchContext {
  ShardSet shards;
  std::shared_ptr<CatalogueStore> catalogue;
  absl::Duration merge_reserve;
  LinkModels links;
  std::atomic<int64_t> duplicate_ids_met{0};
};

// What can be said of a search without knowing the collection. INVALID_ARGUMENT
// naming the field and, where one is passed, the limit.
absl::Status CheckExtent(const SearchRequest& request, const Limits& limits);

// Whether every query vector has the collection's dimension and suits its
// metric. INVALID_ARGUMENT naming queries[i]. O(queries x dimension).
absl::Status CheckQueries(const CollectionSpec& spec,
                          const SearchRequest& request);

// REQUIRES: request passed both checks. With a radius its k is one more than
// the points allowed (api/search_convert.h); shards are told the number allowed
// and refuse what is more by themselves. All rounds share the call's deadline;
// a shard that fails in a later round is one that did not answer, since its
// first answer could hide near points. Errors: NOT_FOUND naming queries[i] if
// its id is not stored; those of ScatterSearch and MergeReplies; ABORTED if
// another coordinator re-made the collection meanwhile (a second try may
// succeed). A shard that answers at an older catalogue than the route's gets
// the newer one in the background; one that answers at a newer makes this
// coordinator refresh, so that the answer can still be certified.
void SearchOnce(std::shared_ptr<SearchContext> context,
                std::shared_ptr<const SearchRequest> request,
                CollectionRoute route, CallContext call,
                Done<SearchReply> done);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SEARCH_CALL_H_
