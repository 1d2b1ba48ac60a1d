#include "coordinator/coordinator.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "coordinator/catalogue_store.h"
#include "coordinator/cluster_checks.h"
#include "coordinator/fan_out.h"
#include "coordinator/join_cluster.h"
#include "coordinator/measured_search.h"
#include "coordinator/owner_writes.h"
#include "coordinator/point_calls.h"
#include "coordinator/recall_meter.h"
#include "coordinator/routed_call.h"
#include "coordinator/scan_stream.h"
#include "coordinator/search_call.h"
#include "coordinator/shard_deadline.h"
#include "coordinator/shard_view.h"

namespace coterie {
namespace {

// Reads may be tried again as they are; a write has given its points away, and
// its caller tries again.
constexpr int kReadTries = 2;
constexpr int kWriteTries = 1;

absl::Status AcceptAny(const CollectionSpec&) { return absl::OkStatus(); }

// Adds `spec` to the catalogue, giving it number and owners.
absl::Status AddCollection(const CoordinatorOptions& options, int32_t shards,
                           const std::vector<std::string>& stores,
                           CollectionSpec* spec, Catalogue* catalogue) {
  if (catalogue->Find(spec->name) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat("collection ", Quoted(spec->name), " exists already"));
  }
  const int64_t count = static_cast<int64_t>(catalogue->collections.size());
  if (count >= options.limits.collections) {
    return absl::ResourceExhaustedError(
        absl::StrCat(count,
                     " collections exist, which is the limit "
                     "collections; drop one"));
  }
  if (catalogue->next_number == std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all ", catalogue->next_number, " collection numbers are used up"));
  }
  if (!stores.empty() && catalogue->collections.empty()) {
    catalogue->stores = stores;  // from now on there is something to lose
  }
  spec->number = catalogue->next_number++;
  spec->owner = options.placement(spec->slots, shards);
  auto at = std::lower_bound(
      catalogue->collections.begin(), catalogue->collections.end(), *spec,
      [](const CollectionSpec& a, const CollectionSpec& b) {
        return a.name < b.name;
      });
  catalogue->collections.insert(at, *spec);
  return CheckOwners(*catalogue, shards);
}

absl::Status RemoveCollection(absl::string_view name, Catalogue* catalogue) {
  const CollectionSpec* spec = catalogue->Find(name);
  if (spec == nullptr) {
    return NoSuchCollection(name);
  }
  catalogue->collections.erase(catalogue->collections.begin() +
                               (spec - catalogue->collections.data()));
  return absl::OkStatus();
}

}  // namespace

class Coordinator::Impl {
 public:
  // `view_of`: the one shard that this is a view of, -1 if it is none.
  Impl(ShardSet set, CoordinatorOptions opts, int32_t view_of)
      : shards(std::move(set)),
        options(std::move(opts)),
        view_shard(view_of),
        catalogue(std::make_shared<CatalogueStore>(shards, options.shard_view)),
        search(std::make_shared<SearchContext>()),
        recalls(std::make_shared<RecallMeter>(options.recall_interval)) {
    search->shards = shards;
    search->catalogue = catalogue;
    search->merge_reserve = options.merge_reserve;
  }

  // What shards get of a caller's time.
  CallContext Reserved(CallContext call) const {
    return ShardCall(std::move(call), options.merge_reserve);
  }

  int32_t shard_count() const { return static_cast<int32_t>(shards->size()); }

  // OK if data may be changed here.
  absl::Status MayChange() const {
    return options.shard_view ? RefusedByView(view_shard) : absl::OkStatus();
  }

  void SearchRouted(std::shared_ptr<const SearchRequest> request,
                    CallContext call, Done<SearchReply> done);
  // Statistics of one collection from every shard; fails if one fails.
  void Stats(const std::string& name, const CallContext& call,
             Done<std::vector<ShardCollectionStats>> done) const {
    FanOut<ShardCollectionStats>(
        shard_count(),
        [&](int64_t i, Done<ShardCollectionStats> told) {
          (*shards)[static_cast<size_t>(i)]->CollectionStats(name, call,
                                                             std::move(told));
        },
        [done = std::move(done)](
            std::vector<absl::StatusOr<ShardCollectionStats>> told) mutable {
          std::vector<ShardCollectionStats> stats;
          for (size_t i = 0; i < told.size(); ++i) {
            if (!told[i].ok()) {
              done(WithShard(told[i].status(), static_cast<int32_t>(i)));
              return;
            }
            stats.push_back(*std::move(told[i]));
          }
          done(std::move(stats));
        });
  }

  // Refuses the batch if it is not `sound`; else writes it.
  void Write(absl::Status sound, WriteBatch batch, CallContext call,
             Done<WriteReply> done) const {
    absl::Status may = MayChange();
    if (may.ok()) {
      may = std::move(sound);
    }
    if (!may.ok()) {
      done(std::move(may));
      return;
    }
    call = Reserved(std::move(call));
    std::string name = batch.collection;
    auto shared = std::make_shared<WriteBatch>(std::move(batch));
    // Deletes are small, so that there is a copy for another try.
    const bool copy = shared->upserts.empty() && shared->updates.empty();
    RouteCall<WriteReply>(
        catalogue, std::move(name),
        [shared](const CollectionSpec& spec) {
          return CheckVectors(spec, *shared);
        },
        call, copy ? kReadTries : kWriteTries,
        [set = shards, shared, copy, call](const CollectionRoute& route,
                                           Done<WriteReply> written) {
          WriteToOwners(set, *route.spec, copy ? *shared : std::move(*shared),
                        call, std::move(written));
        },
        std::move(done));
  }

  const ShardSet shards;
  const CoordinatorOptions options;
  const int32_t view_shard;
  // As JoinCluster found them; constant once Create returns.
  std::vector<std::string> stores;
  const std::shared_ptr<CatalogueStore> catalogue;
  const std::shared_ptr<SearchContext> search;
  const std::shared_ptr<RecallMeter> recalls;
};

Coordinator::Coordinator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Coordinator::~Coordinator() = default;

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(
    std::vector<std::shared_ptr<ShardClient>> shards,
    CoordinatorOptions options) {
  std::sort(shards.begin(), shards.end(), [](const auto& a, const auto& b) {
    return a->shard_id() < b->shard_id();
  });
  int32_t view_shard = -1;
  if (options.shard_view && shards.size() == 1) {
    view_shard = shards[0]->shard_id();
    shards[0] = MakeShardView(std::move(shards[0]));
  }
  absl::Status ids = CheckIds(shards);
  if (!ids.ok()) {
    return ids;
  }
  options.describe_timeout =
      std::min(options.describe_timeout, options.connect_timeout);
  auto impl = std::make_shared<Impl>(
      std::make_shared<const std::vector<std::shared_ptr<ShardClient>>>(
          std::move(shards)),
      std::move(options), view_shard);
  auto coordinator = absl::WrapUnique(new Coordinator(impl));
  JoinOptions join;
  join.shard_view = impl->options.shard_view;
  join.partial = impl->options.partial;
  join.accepted_stores = impl->options.accepted_stores;
  join.timeout = impl->options.connect_timeout;
  absl::StatusOr<std::vector<std::string>> stores = JoinCluster(
      impl->shards, impl->catalogue,
      [&](CallContext call, Done<std::vector<ShardDescription>> done) {
        coordinator->Describe(std::move(call), std::move(done));
      },
      join);
  if (!stores.ok()) {
    return stores.status();
  }
  impl->stores = *std::move(stores);
  JobsOptions jobs = impl->options.jobs;
  jobs.limits = impl->options.limits;
  coordinator->jobs_ = std::make_unique<Jobs>(
      impl->shards, impl->catalogue,
      std::shared_ptr<LinkModels>(impl->search, &impl->search->links),
      std::move(jobs));
  return coordinator;
}

void Coordinator::CreateCollection(CollectionSpec spec, CallContext call,
                                   Done<CollectionSpec> done) {
  absl::Status valid = impl_->MayChange();
  if (valid.ok()) {
    valid = ValidateCollection(spec, impl_->options.limits);
  }
  if (!valid.ok()) {
    done(std::move(valid));
    return;
  }
  call = impl_->Reserved(std::move(call));
  auto made = std::make_shared<CollectionSpec>(std::move(spec));
  impl_->catalogue->Change(
      [impl = impl_, made](Catalogue* catalogue) {
        return AddCollection(impl->options, impl->shard_count(), impl->stores,
                             made.get(), catalogue);
      },
      std::move(call),
      [made, done = std::move(done)](
          absl::StatusOr<CatalogueSnapshot> changed) mutable {
        if (!changed.ok()) {
          done(changed.status());
          return;
        }
        done(*made);
      });
}

void Coordinator::GetCollection(std::string name, CallContext call,
                                Done<CollectionDescription> done) {
  call = impl_->Reserved(std::move(call));
  RouteCall<CollectionDescription>(
      impl_->catalogue, name, AcceptAny, call, kReadTries,
      [impl = impl_, name, call](const CollectionRoute& route,
                                 Done<CollectionDescription> described) {
        impl->Stats(name, call,
                    [spec = *route.spec, described = std::move(described)](
                        absl::StatusOr<std::vector<ShardCollectionStats>>
                            stats) mutable {
                      if (!stats.ok()) {
                        described(stats.status());
                        return;
                      }
                      described(CollectionDescription{std::move(spec),
                                                      *std::move(stats)});
                    });
      },
      std::move(done));
}

void Coordinator::ListCollections(CallContext call,
                                  Done<std::vector<CollectionSpec>> done) {
  impl_->catalogue->Refresh(
      impl_->Reserved(std::move(call)),
      [done =
           std::move(done)](absl::StatusOr<CatalogueSnapshot> fresh) mutable {
        if (!fresh.ok()) {
          done(fresh.status());
          return;
        }
        done((*fresh)->collections);
      });
}

void Coordinator::DeleteCollection(std::string name, CallContext call,
                                   Done<int64_t> done) {
  if (absl::Status may = impl_->MayChange(); !may.ok()) {
    done(std::move(may));
    return;
  }
  GetCollection(
      name, call,
      [impl = impl_, name, call, done = std::move(done)](
          absl::StatusOr<CollectionDescription> described) mutable {
        // An unknown one goes through Change as well: a drop that failed
        // half-way is finished there before it answers NOT_FOUND.
        if (!described.ok() && !absl::IsNotFound(described.status())) {
          done(described.status());
          return;
        }
        int64_t points = 0;
        if (described.ok()) {
          for (const ShardCollectionStats& shard : described->shards) {
            points += shard.points;
          }
        }
        impl->catalogue->Change(
            [name](Catalogue* catalogue) {
              return RemoveCollection(name, catalogue);
            },
            impl->Reserved(std::move(call)),
            [points, done = std::move(done)](
                absl::StatusOr<CatalogueSnapshot> changed) mutable {
              if (!changed.ok()) {
                done(changed.status());
                return;
              }
              done(points);
            });
      });
}

void Coordinator::Upsert(WriteBatch batch, CallContext call,
                         Done<WriteReply> done) {
  absl::Status sound = CheckUpsert(batch, impl_->options.limits);
  impl_->Write(std::move(sound), std::move(batch), std::move(call),
               std::move(done));
}

void Coordinator::Delete(std::string collection, std::vector<PointId> ids,
                         CallContext call, Done<WriteReply> done) {
  Delete(WriteBatch{std::move(collection), {}, std::move(ids)}, std::move(call),
         std::move(done));
}

void Coordinator::Delete(WriteBatch batch, CallContext call,
                         Done<WriteReply> done) {
  impl_->Write(absl::OkStatus(), std::move(batch), std::move(call),
               std::move(done));
}

void Coordinator::SetAttributes(WriteBatch batch, CallContext call,
                                Done<WriteReply> done) {
  absl::Status sound = CheckUpdates(batch, impl_->options.limits);
  impl_->Write(std::move(sound), std::move(batch), std::move(call),
               std::move(done));
}

void Coordinator::Get(GetRequest request, CallContext call,
                      Done<GetReply> done) {
  call = impl_->Reserved(std::move(call));
  std::string name = request.collection;
  RouteCall<GetReply>(
      impl_->catalogue, std::move(name), AcceptAny, call, kReadTries,
      [impl = impl_, request = std::move(request), call](
          const CollectionRoute& route, Done<GetReply> read) {
        GetFromOwners(impl->shards, *route.spec, request, call,
                      [read = std::move(read)](
                          absl::StatusOr<OwnersGetReply> got) mutable {
                        if (!got.ok()) {
                          read(got.status());
                          return;
                        }
                        read(std::move(got->reply));
                      });
      },
      std::move(done));
}

void Coordinator::Count(CountRequest request, CallContext call,
                        Done<CountReply> done) {
  call = impl_->Reserved(std::move(call));
  std::string name = request.collection;
  RouteCall<CountReply>(
      impl_->catalogue, std::move(name), AcceptAny, call, kReadTries,
      [impl = impl_, request = std::move(request), call](
          const CollectionRoute& route, Done<CountReply> counted) mutable {
        request.number = route.spec->number;
        CountOnAll(impl->shards, request, call, std::move(counted));
      },
      std::move(done));
}

std::unique_ptr<PointStream> Coordinator::Scan(ScanRequest request,
                                               CallContext call) {
  return MakeScanStream(impl_->shards, impl_->catalogue, std::move(request),
                        impl_->Reserved(std::move(call)));
}

void Coordinator::Impl::SearchRouted(
    std::shared_ptr<const SearchRequest> request, CallContext call,
    Done<SearchReply> done) {
  std::string name = request->collection;
  RouteCall<SearchReply>(
      catalogue, std::move(name),
      [request](const CollectionSpec& spec) {
        const absl::Status status = CheckStrategy(request->strategy, spec);
        return status.ok() ? CheckQueries(spec, *request) : status;
      },
      Reserved(call), kReadTries,
      [context = search, request, call](const CollectionRoute& route,
                                        Done<SearchReply> found) {
        SearchOnce(context, request, route, call, std::move(found));
      },
      std::move(done));
}

std::map<std::string, double> Coordinator::recalls() const {
  return impl_->recalls->averages();
}

void Coordinator::Search(SearchRequest request, CallContext call,
                         Done<SearchReply> done) {
  absl::Status sound = CheckExtent(request, impl_->options.limits);
  if (sound.ok()) {
    sound = call.status();
  }
  if (!sound.ok()) {
    done(std::move(sound));
    return;
  }
  if (impl_->options.shard_view) {
    done = [id = impl_->view_shard,
            done = std::move(done)](absl::StatusOr<SearchReply> found) mutable {
      if (found.ok()) {
        NameShard(id, &*found);
      }
      done(std::move(found));
    };
  }
  auto shared = std::make_shared<const SearchRequest>(std::move(request));
  if (shared->measure_recall || !IsExact(shared->strategy)) {
    done = MeasuringRecall(
        [impl = impl_](std::shared_ptr<const SearchRequest> other,
                       CallContext its_call, Done<SearchReply> found) {
          impl->SearchRouted(std::move(other), std::move(its_call),
                             std::move(found));
        },
        impl_->recalls, shared, call, std::move(done));
  }
  impl_->SearchRouted(std::move(shared), std::move(call), std::move(done));
}

void Coordinator::Describe(CallContext call,
                           Done<std::vector<ShardDescription>> done) {
  CallContext shard_call = call;
  shard_call.deadline = std::min(call.deadline - impl_->options.merge_reserve,
                                 absl::Now() + impl_->options.describe_timeout);
  FanOut<ShardDescription>(
      impl_->shard_count(),
      [&](int64_t i, Done<ShardDescription> told) {
        (*impl_->shards)[static_cast<size_t>(i)]->Describe(shard_call,
                                                           std::move(told));
      },
      [shards = impl_->shards, done = std::move(done)](
          std::vector<absl::StatusOr<ShardDescription>> told) mutable {
        std::vector<ShardDescription> out;
        for (size_t i = 0; i < told.size(); ++i) {
          if (told[i].ok()) {
            out.push_back(*std::move(told[i]));
            continue;
          }
          ShardDescription& silent = out.emplace_back();
          silent.shard_id = static_cast<int32_t>(i);
          silent.address = (*shards)[i]->address();
          silent.state = ShardDescription::State::kUnreachable;
          silent.reason = told[i].status().ToString(
              absl::StatusToStringMode::kWithNoExtraData);
        }
        done(std::move(out));
      });
}

std::shared_ptr<const Catalogue> Coordinator::catalogue() const {
  return impl_->catalogue->Current();
}

int64_t Coordinator::duplicate_ids_met() const {
  return impl_->search->duplicate_ids_met.load(std::memory_order_relaxed);
}

}  // namespace coterie
