#include "coordinator/join_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "api/shard_messages.h"
#include "coordinator/cluster_checks.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// Runs an asynchronous call to its end; only where blocking is fine.
template <typename T>
absl::StatusOr<T> Await(const std::function<void(Done<T>)>& start) {
  struct State {
    Mutex mu;
    CondVar ready;
    bool done ABSL_GUARDED_BY(mu) = false;
    absl::StatusOr<T> reply ABSL_GUARDED_BY(mu);
  };
  auto state = std::make_shared<State>();
  start([state](absl::StatusOr<T> reply) {
    MutexLock lock(&state->mu);
    state->reply = std::move(reply);
    state->done = true;
    state->ready.NotifyAll();
  });
  MutexLock lock(&state->mu);
  while (!state->done) {
    state->ready.Wait(&state->mu);
  }
  return std::move(state->reply);
}

class Joining {
 public:
  Joining(ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
          const JoinOptions& options)
      : shards_(std::move(shards)),
        catalogue_(std::move(catalogue)),
        options_(options) {}

  absl::Status Join(const DescribeCall& describe) {
    if (options_.shard_view) {
      return ReadFrom(0).status();
    }
    const std::vector<ShardDescription> told =
        *Await<std::vector<ShardDescription>>(
            [&](Done<std::vector<ShardDescription>> done) {
              describe(Within(), std::move(done));
            });
    absl::Status sound = CheckIdentities(told, options_.partial);
    if (!sound.ok()) {
      return sound;
    }
    stores_ = StoresOf(told);
    absl::StatusOr<Newest> newest = ReadNewest(told);
    if (!newest.ok()) {
      return newest.status();
    }
    const Catalogue& known = *newest->catalogue;
    sound = CheckStores(told, known, options_.accepted_stores);
    if (sound.ok() && newest->shard_zero.has_value()) {
      sound = RestoreShardZero(told, known, *newest->shard_zero);
    }
    return sound.ok() ? BringUpToDate(told, newest->catalogue) : sound;
  }

  std::vector<std::string> TakeStores() { return std::move(stores_); }

 private:
  struct Newest {
    CatalogueSnapshot catalogue;
    std::optional<int64_t> shard_zero;  // its version, if that is older
  };

  absl::StatusOr<CatalogueSnapshot> ReadFrom(int32_t shard) const {
    return Await<CatalogueSnapshot>([&](Done<CatalogueSnapshot> done) {
      catalogue_->RefreshFrom(shard, Within(), std::move(done));
    });
  }

  // Shard 0's catalogue; or the newest copy, if shard 0 is behind it or, with
  // options_.partial, does not answer.
  absl::StatusOr<Newest> ReadNewest(
      const std::vector<ShardDescription>& told) const {
    const auto newest = std::max_element(
        told.begin(), told.end(),
        [](const ShardDescription& a, const ShardDescription& b) {
          return a.catalogue_version < b.catalogue_version;
        });
    absl::StatusOr<CatalogueSnapshot> first = ReadFrom(0);
    if (first.ok() && (*first)->version >= newest->catalogue_version) {
      return Newest{*std::move(first), std::nullopt};
    }
    if (!first.ok() && (!options_.partial || newest->shard_id == 0)) {
      return first.status();
    }
    absl::StatusOr<CatalogueSnapshot> copy = ReadFrom(newest->shard_id);
    if (!copy.ok()) {
      return copy.status();
    }
    return Newest{*std::move(copy),
                  first.ok() ? std::optional((*first)->version) : std::nullopt};
  }

  // Gives shard 0, which is at `version`, the catalogue that its lost store
  // had. FAILED_PRECONDITION if it is behind on its own store: then it runs on
  // old data. REQUIRES: CheckStores holds.
  absl::Status RestoreShardZero(const std::vector<ShardDescription>& told,
                                const Catalogue& newest,
                                int64_t version) const {
    if (newest.stores.empty() || told[0].store_id.empty() ||
        newest.stores[0] == told[0].store_id) {
      return CheckVersions(told, version);
    }
    Catalogue restored = newest;
    restored.stores[0] = told[0].store_id;
    return Await<int64_t>([&](Done<int64_t> done) {
             shards_->front()->PutCatalogue(version, std::move(restored),
                                            Within(), std::move(done));
           })
        .status();
  }

  // Copies the catalogue to whoever is behind, with the stores as they are
  // now. Waits for it only if every shard answers.
  absl::Status BringUpToDate(const std::vector<ShardDescription>& told,
                             const CatalogueSnapshot& known) const {
    const auto bring = [&](Done<CatalogueSnapshot> done) {
      if (stores_.empty() || known->collections.empty() ||
          known->stores == stores_) {
        catalogue_->Distribute(known, Within(), std::move(done));
        return;
      }
      catalogue_->Change(
          [now = stores_](Catalogue* edited) {
            edited->stores = now;
            return absl::OkStatus();
          },
          Within(), std::move(done));
    };
    if (std::any_of(told.begin(), told.end(), [](const auto& shard) {
          return shard.state == ShardDescription::State::kUnreachable;
        })) {
      bring([](const absl::StatusOr<CatalogueSnapshot>&) {});
      return absl::OkStatus();
    }
    return Await<CatalogueSnapshot>(bring).status();
  }

  CallContext Within() const {
    CallContext call;
    call.deadline = absl::Now() + options_.timeout;
    return call;
  }

  const ShardSet shards_;
  const std::shared_ptr<CatalogueStore> catalogue_;
  const JoinOptions& options_;
  std::vector<std::string> stores_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> JoinCluster(
    ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
    const DescribeCall& describe, const JoinOptions& options) {
  Joining joining(std::move(shards), std::move(catalogue), options);
  const absl::Status joined = joining.Join(describe);
  if (!joined.ok()) {
    return joined;
  }
  return joining.TakeStores();
}

}  // namespace coterie
