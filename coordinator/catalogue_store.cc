#include "coordinator/catalogue_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "coordinator/fan_out.h"
#include "coordinator/shard_view.h"

namespace coterie {
namespace {

// Rounds of compare-and-set. Each lost round is another coordinator's success,
// so this many at once may change the catalogue without one giving up.
constexpr int kMaxAttempts = 128;

constexpr absl::Duration kRepairTimeout = absl::Seconds(10);

absl::Status OutOfAttempts(int64_t version) {
  return absl::AbortedError(
      absl::StrCat("the catalogue was changed by others ", kMaxAttempts,
                   " times in a row, lastly at version ", version));
}

}  // namespace

absl::Status CheckOwners(const Catalogue& catalogue, int32_t shards,
                         bool view) {
  for (const CollectionSpec& spec : catalogue.collections) {
    if (static_cast<int64_t>(spec.owner.size()) != spec.slots) {
      return absl::FailedPreconditionError(absl::StrCat(
          "collection ", Quoted(spec.name), " has ", spec.slots,
          " slots but owners for ", spec.owner.size(), " of them"));
    }
    for (int32_t s = 0; s < spec.slots; ++s) {
      const int32_t owner = spec.owner[static_cast<size_t>(s)];
      if (view && owner == kElsewhere) {
        continue;
      }
      if (owner < 0 || owner >= shards) {
        return absl::FailedPreconditionError(
            absl::StrCat("collection ", Quoted(spec.name), ": slot ", s,
                         " belongs to shard ", owner, ", but there are ",
                         shards, " shards"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status NoSuchCollection(absl::string_view name) {
  return absl::NotFoundError(absl::StrCat(
      "collection ", Quoted(name),
      " does not exist; CreateCollection makes it, ListCollections lists"));
}

CatalogueStore::CatalogueStore(ShardSet shards, bool view)
    : shards_(std::move(shards)),
      view_(view),
      repairing_(shards_->size()),
      current_(std::make_shared<Catalogue>()) {}

CatalogueSnapshot CatalogueStore::Current() const {
  MutexLock lock(&mu_);
  return current_;
}

absl::StatusOr<CatalogueSnapshot> CatalogueStore::Adopt(int32_t shard,
                                                        Catalogue catalogue) {
  absl::Status sound =
      CheckOwners(catalogue, static_cast<int32_t>(shards_->size()), view_);
  if (!sound.ok()) {
    return WithShard(std::move(sound), shard);
  }
  auto snapshot = std::make_shared<const Catalogue>(std::move(catalogue));
  MutexLock lock(&mu_);
  if (snapshot->version > current_->version) {
    current_ = snapshot;
  }
  return snapshot;
}

void CatalogueStore::Refresh(CallContext call, Done<CatalogueSnapshot> done) {
  RefreshFrom(0, std::move(call), std::move(done));
}

void CatalogueStore::RefreshFrom(int32_t shard, CallContext call,
                                 Done<CatalogueSnapshot> done) {
  (*shards_)[static_cast<size_t>(shard)]->ReadCatalogue(
      std::move(call),
      [self = shared_from_this(), shard,
       done = std::move(done)](absl::StatusOr<Catalogue> reply) mutable {
        if (!reply.ok()) {
          done(WithShard(reply.status(), shard));
          return;
        }
        done(self->Adopt(shard, *std::move(reply)));
      });
}

void CatalogueStore::Route(std::string name, Check check, CallContext call,
                           Done<CollectionRoute> done) {
  CatalogueSnapshot cached = Current();
  if (const CollectionSpec* spec = cached->Find(name);
      spec != nullptr && check(*spec).ok()) {
    done(CollectionRoute{std::move(cached), spec});
    return;
  }
  Refresh(std::move(call),
          [name = std::move(name), check = std::move(check),
           done = std::move(done)](
              absl::StatusOr<CatalogueSnapshot> fresh) mutable {
            if (!fresh.ok()) {
              done(fresh.status());
              return;
            }
            const CollectionSpec* spec = (*fresh)->Find(name);
            if (spec == nullptr) {
              done(NoSuchCollection(name));
              return;
            }
            absl::Status fits = check(*spec);
            if (!fits.ok()) {
              done(std::move(fits));
              return;
            }
            done(CollectionRoute{*std::move(fresh), spec});
          });
}

void CatalogueStore::Change(Edit edit, CallContext call,
                            Done<CatalogueSnapshot> done) {
  TryChange(std::make_shared<Edit>(std::move(edit)), 0, std::move(call),
            std::move(done));
}

void CatalogueStore::TryChange(std::shared_ptr<Edit> edit, int attempt,
                               CallContext call, Done<CatalogueSnapshot> done) {
  absl::Status live = call.status();
  if (!live.ok()) {
    done(std::move(live));
    return;
  }
  Refresh(call, [self = shared_from_this(), edit, attempt, call,
                 done = std::move(done)](
                    absl::StatusOr<CatalogueSnapshot> fresh) mutable {
    if (!fresh.ok()) {
      done(fresh.status());
      return;
    }
    auto changed = std::make_shared<Catalogue>(**fresh);
    absl::Status edited = (*edit)(changed.get());
    if (!edited.ok()) {
      self->Distribute(
          *std::move(fresh), call,
          [edited = std::move(edited), done = std::move(done)](
              absl::StatusOr<CatalogueSnapshot> copied) mutable {
            done(copied.ok() ? std::move(edited) : copied.status());
          });
      return;
    }
    ++changed->version;
    self->PutChanged(std::move(changed), std::move(edit), attempt,
                     std::move(call), std::move(done));
  });
}

void CatalogueStore::PutChanged(CatalogueSnapshot changed,
                                std::shared_ptr<Edit> edit, int attempt,
                                CallContext call,
                                Done<CatalogueSnapshot> done) {
  shards_->front()->PutCatalogue(
      changed->version - 1, *changed, call,
      [self = shared_from_this(), changed, edit = std::move(edit), attempt,
       call, done = std::move(done)](absl::StatusOr<int64_t> stored) mutable {
        if (absl::IsAborted(stored.status())) {
          if (attempt + 1 == kMaxAttempts) {
            done(OutOfAttempts(changed->version));
            return;
          }
          self->TryChange(std::move(edit), attempt + 1, std::move(call),
                          std::move(done));
          return;
        }
        if (!stored.ok()) {
          done(WithShard(stored.status(), 0));
          return;
        }
        absl::StatusOr<CatalogueSnapshot> adopted = self->Adopt(0, *changed);
        if (!adopted.ok()) {
          done(adopted.status());
          return;
        }
        self->Distribute(std::move(changed), std::move(call), std::move(done));
      });
}

void CatalogueStore::Repair(int32_t shard, CallContext call,
                            Done<CatalogueSnapshot> done) {
  Refresh(call, [self = shared_from_this(), shard, call,
                 done = std::move(done)](
                    absl::StatusOr<CatalogueSnapshot> fresh) mutable {
    if (!fresh.ok() || shard == 0 || self->view_) {
      done(std::move(fresh));
      return;
    }
    CatalogueSnapshot snapshot = *std::move(fresh);
    self->BringUpToDate(
        shard, snapshot, 0, std::move(call),
        [snapshot, done = std::move(done)](absl::StatusOr<int64_t>) mutable {
          done(std::move(snapshot));
        });
  });
}

void CatalogueStore::RepairInBackground(int32_t shard) {
  if (repairing_[static_cast<size_t>(shard)].exchange(true)) {
    return;
  }
  CallContext call;
  call.deadline = absl::Now() + kRepairTimeout;
  Repair(shard, std::move(call),
         [self = shared_from_this(), shard](absl::StatusOr<CatalogueSnapshot>) {
           self->repairing_[static_cast<size_t>(shard)] = false;
         });
}

void CatalogueStore::Distribute(CatalogueSnapshot snapshot, CallContext call,
                                Done<CatalogueSnapshot> done) {
  FanOut<int64_t>(
      static_cast<int64_t>(shards_->size()) - 1,
      [&](int64_t i, Done<int64_t> copied) {
        BringUpToDate(static_cast<int32_t>(i) + 1, snapshot, 0, call,
                      std::move(copied));
      },
      [snapshot, done = std::move(done)](
          std::vector<absl::StatusOr<int64_t>> versions) mutable {
        for (absl::StatusOr<int64_t>& version : versions) {
          if (!version.ok()) {
            done(version.status());
            return;
          }
        }
        done(std::move(snapshot));
      });
}

void CatalogueStore::BringUpToDate(int32_t shard, CatalogueSnapshot snapshot,
                                   int attempt, CallContext call,
                                   Done<int64_t> done) {
  if (attempt == kMaxAttempts) {
    done(WithShard(OutOfAttempts(snapshot->version), shard));
    return;
  }
  ShardClient* client = (*shards_)[static_cast<size_t>(shard)].get();
  client->ReadCatalogue(
      call, [self = shared_from_this(), client, shard, snapshot, attempt, call,
             done = std::move(done)](absl::StatusOr<Catalogue> found) mutable {
        if (!found.ok()) {
          done(WithShard(found.status(), shard));
          return;
        }
        if (found->version >= snapshot->version) {
          done(found->version);
          return;
        }
        client->PutCatalogue(
            found->version, *snapshot, call,
            [self, shard, snapshot, attempt, call,
             done = std::move(done)](absl::StatusOr<int64_t> stored) mutable {
              if (absl::IsAborted(stored.status())) {
                self->BringUpToDate(shard, std::move(snapshot), attempt + 1,
                                    std::move(call), std::move(done));
                return;
              }
              if (!stored.ok()) {
                done(WithShard(stored.status(), shard));
                return;
              }
              done(*stored);
            });
      });
}

}  // namespace coterie
