// The catalogue as a coordinator has it: a cached copy, refreshed from shard 0,
// changed there by compare-and-set, copied to the other shards.
//
// Thread-safe. Nothing blocks; `done` runs on the thread of a reply. A reader
// keeps the immutable snapshot it took: a newer one replaces the pointer, and
// the last reader frees the old. The cached version never falls.

#ifndef COTERIE_COORDINATOR_CATALOGUE_STORE_H_
#define COTERIE_COORDINATOR_CATALOGUE_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/call.h"
#include "api/collection.h"
#include "coordinator/shard_client.h"
#include "sync/mutex.h"

namespace coterie {

using CatalogueSnapshot = std::shared_ptr<const Catalogue>;

// A collection and the catalogue that it stands in, which it keeps alive.
struct CollectionRoute {
  CatalogueSnapshot catalogue;
  const CollectionSpec* spec = nullptr;
};

// OK if every collection gives each of its slots to one of `shards` shards, or,
// in the view of one shard, elsewhere. FAILED_PRECONDITION naming collection
// and slot otherwise.
absl::Status CheckOwners(const Catalogue& catalogue, int32_t shards,
                         bool view = false);

// NOT_FOUND naming the collection.
absl::Status NoSuchCollection(absl::string_view name);

class CatalogueStore : public std::enable_shared_from_this<CatalogueStore> {
 public:
  // Changes a copy of shard 0's catalogue, except the version, or refuses. May
  // be called again if another coordinator was faster.
  using Edit = absl::AnyInvocable<absl::Status(Catalogue*)>;
  // Whether a request fits the collection.
  using Check = absl::AnyInvocable<absl::Status(const CollectionSpec&)>;

  // Made by std::make_shared. Version 0 until the first Refresh. `view`: over
  // the view of one shard (shard_view.h), whose copy is never changed.
  explicit CatalogueStore(ShardSet shards, bool view = false);

  CatalogueSnapshot Current() const;

  // Reads shard 0's catalogue and caches it. FAILED_PRECONDITION if its owners
  // make no sense.
  void Refresh(CallContext call, Done<CatalogueSnapshot> done);
  // The same from another shard's copy, which may be behind.
  void RefreshFrom(int32_t shard, CallContext call,
                   Done<CatalogueSnapshot> done);

  // The collection by name, if `check` accepts it. Asks shard 0 once when the
  // cached copy lacks the collection or the check fails: another coordinator
  // may have made it anew.
  void Route(std::string name, Check check, CallContext call,
             Done<CollectionRoute> done);

  // Applies `edit` on shard 0, then copies the result to the others. When the
  // edit refuses, copies are brought up to date first: so repeating a change
  // that failed half-way finishes it. UNAVAILABLE (or what the shard said)
  // naming the shard that did not take its copy.
  void Change(Edit edit, CallContext call, Done<CatalogueSnapshot> done);

  // Refreshes, then brings one shard's copy up to date. Replies with the
  // catalogue, whatever the shard's answer was.
  void Repair(int32_t shard, CallContext call, Done<CatalogueSnapshot> done);

  // Repair without anyone waiting, unless one of this shard is under way.
  void RepairInBackground(int32_t shard);

  // Brings every shard's copy up to `snapshot`, by compare-and-set against the
  // version found there; newer copies stay.
  void Distribute(CatalogueSnapshot snapshot, CallContext call,
                  Done<CatalogueSnapshot> done);

 private:
  // Caches what a shard said unless something newer is there; returns it.
  absl::StatusOr<CatalogueSnapshot> Adopt(int32_t shard, Catalogue catalogue);
  void TryChange(std::shared_ptr<Edit> edit, int attempt, CallContext call,
                 Done<CatalogueSnapshot> done);
  void PutChanged(CatalogueSnapshot changed, std::shared_ptr<Edit> edit,
                  int attempt, CallContext call, Done<CatalogueSnapshot> done);
  // Done<int64_t>: the version then on the shard.
  void BringUpToDate(int32_t shard, CatalogueSnapshot snapshot, int attempt,
                     CallContext call, Done<int64_t> done);

  const ShardSet shards_;
  const bool view_;
  // Element i: a background repair of shard i is under way.
  std::vector<std::atomic<bool>> repairing_;
  mutable Mutex mu_;
  CatalogueSnapshot current_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_CATALOGUE_STORE_H_
