#include "server/cluster_link.h"

#include <atomic>
#include <iostream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/await.h"
#include "coordinator/cluster_checks.h"
#include "server/absent_shard.h"
#include "server/cluster_verdict.h"
#include "server/movable_shard.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

constexpr int kRoundsToAgree = 2;

class ClusterLink final : public Backend {
 public:
  ClusterLink(ClusterLinkOptions options,
              std::unique_ptr<ShardAddresses> addresses,
              ShardClientFactory factory, CoordinatorSlot* slot, Health* health)
      : options_(std::move(options)),
        addresses_(std::move(addresses)),
        factory_(std::move(factory)),
        slot_(slot),
        health_(health),
        cluster_uuid_(options_.cluster_uuid) {
    options_.coordinator.partial = options_.serve_partial;
    Withdraw(absl::UnavailableError("no shard has been reached yet"), {});
  }

  absl::Status Run() override {
    for (;;) {
      Round();
      const absl::Time until = absl::Now() + options_.interval;
      MutexLock lock(&mu_);
      while (!stop_ && absl::Now() < until) {
        wake_.WaitFor(&mu_, absl::ToChronoNanoseconds(until - absl::Now()));
      }
      if (stop_) {
        return absl::OkStatus();
      }
    }
  }

  void Stop() override {
    MutexLock lock(&mu_);
    stop_ = true;
    wake_.NotifyAll();
  }

  void Close() override {
    slot_->Clear({absl::UnavailableError("the server is stopping"),
                  slot_->cluster_uuid(),
                  {}});
    links_.clear();
    clients_.clear();
  }

 private:
  // One look at all shards, and what follows from it.
  void Round() {
    const absl::StatusOr<std::vector<std::string>> addresses =
        addresses_->Resolve(options_.timeout);
    if (!addresses.ok()) {
      Doubt(addresses.status(), 0, {});
      return;
    }
    std::vector<ShardProbe> probes = Probe(*addresses);
    SetAside(&probes);
    const ClusterVerdict verdict =
        JudgeCluster(probes, cluster_uuid_, addresses_->complete_list());
    if (absl::IsFailedPrecondition(verdict.status)) {
      Withdraw(verdict.status, probes);
      return;
    }
    if (shards_total_ > 0 && !verdict.probe_of_shard.empty() &&
        verdict.probe_of_shard.size() != shards_total_) {
      Withdraw(absl::FailedPreconditionError(absl::StrCat(
                   "the cluster has ", verdict.probe_of_shard.size(),
                   " shards now; when this coordinator began it had ",
                   shards_total_)),
               probes);
      return;
    }
    Retarget(verdict, probes);
    const bool whole = verdict.status.ok();
    if (links_.empty() &&
        (whole || (options_.serve_partial && verdict.serving > 0))) {
      const absl::Status connected = Connect(verdict, probes);
      if (!connected.ok()) {
        Doubt(connected, 0, probes);
        return;
      }
    }
    if (whole) {
      Trust(verdict);
    } else {
      Doubt(verdict.status, verdict.serving, probes);
    }
  }

  // Takes shards out that run on another store than they did. If nothing is
  // lost by that, or another coordinator has taken the new store in, the
  // coordinator is made anew instead, and judges for itself.
  void SetAside(std::vector<ShardProbe>* probes) {
    std::set<int32_t> known;
    for (const ShardProbe& probe : *probes) {
      if (probe.told.ok() && IsKnownStore(*probe.told)) {
        known.insert(probe.told->shard_id);
      }
    }
    for (ShardProbe& probe : *probes) {
      if (links_.empty() || !probe.told.ok() || IsKnownStore(*probe.told) ||
          known.count(probe.told->shard_id) > 0) {
        continue;
      }
      const absl::StatusOr<std::shared_ptr<Coordinator>> coordinator =
          slot_->Current();
      if (!coordinator.ok() || probe.told->catalogue_version > 0 ||
          (*coordinator)->catalogue()->collections.empty()) {
        links_.clear();
        return;
      }
      const int32_t id = probe.told->shard_id;
      // Nobody is left where it was. Called by its old store where it is now,
      // it tells callers what happened.
      if (static_cast<size_t>(id) < links_.size() &&
          target_[id] != probe.address) {
        links_[static_cast<size_t>(id)]->Retarget(
            ClientOf(id, probe.address, cluster_uuid_, store_[id]));
      }
      probe.told = AnotherStore(*probe.told, store_[id]);
    }
  }

  // Whether the shard runs on the store it is called on, or one of the two is
  // not known.
  bool IsKnownStore(const ShardDescription& shard) const {
    const auto known = store_.find(shard.shard_id);
    return known == store_.end() || known->second.empty() ||
           shard.store_id.empty() || known->second == shard.store_id ||
           shard.cluster_uuid != cluster_uuid_;
  }

  // Asks every address at once. Clients of addresses that are gone go too.
  std::vector<ShardProbe> Probe(const std::vector<std::string>& addresses) {
    std::map<std::string, std::shared_ptr<ShardClient>> clients;
    for (const std::string& address : addresses) {
      const auto known = clients_.find(address);
      clients[address] = known != clients_.end()
                             ? known->second
                             : factory_(-1, address, "", "");
    }
    clients_ = std::move(clients);
    return *Await<std::vector<ShardProbe>>(
        [&](Done<std::vector<ShardProbe>> done) {
          AskAll(addresses, std::move(done));
        });
  }

  void AskAll(const std::vector<std::string>& addresses,
              Done<std::vector<ShardProbe>> done) {
    struct Asked {
      std::vector<ShardProbe> probes;
      std::atomic<size_t> pending{0};
      Done<std::vector<ShardProbe>> done;
    };
    if (addresses.empty()) {
      done(std::vector<ShardProbe>());
      return;
    }
    auto asked = std::make_shared<Asked>();
    asked->pending = addresses.size();
    asked->done = std::move(done);
    for (const std::string& address : addresses) {
      asked->probes.push_back({address, absl::UnknownError("not asked")});
    }
    CallContext call;
    call.deadline = absl::Now() + options_.timeout;
    for (size_t i = 0; i < addresses.size(); ++i) {
      clients_[addresses[i]]->Describe(
          call, [asked, i](absl::StatusOr<ShardDescription> told) {
            asked->probes[i].told = std::move(told);
            if (asked->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
              asked->done(std::move(asked->probes));
            }
          });
    }
  }

  std::shared_ptr<ShardClient> ClientOf(int32_t shard_id,
                                        const std::string& address,
                                        const std::string& cluster_uuid,
                                        const std::string& store_id) {
    target_[shard_id] = address;
    return factory_(shard_id, address, cluster_uuid, store_id);
  }

  // Shards that answer at another address than before are called there.
  void Retarget(const ClusterVerdict& verdict,
                const std::vector<ShardProbe>& probes) {
    for (const auto& link : links_) {
      const int32_t id = link->shard_id();
      if (static_cast<size_t>(id) >= verdict.probe_of_shard.size()) {
        continue;
      }
      const int32_t at = verdict.probe_of_shard[static_cast<size_t>(id)];
      if (at < 0) {
        continue;
      }
      const std::string& address = probes[static_cast<size_t>(at)].address;
      if (store_[id].empty()) {
        store_[id] = probes[static_cast<size_t>(at)].told->store_id;
      }
      if (target_[id] != address) {
        if (!target_[id].empty()) {
          std::cerr << "coteried: shard " << id << " moved from " << target_[id]
                    << " to " << address << std::endl;
        }
        link->Retarget(ClientOf(id, address, verdict.cluster_uuid, store_[id]));
      }
    }
  }

  // All shards are there for the first time, or again after a contradiction;
  // or as many as will do.
  absl::Status Connect(const ClusterVerdict& verdict,
                       const std::vector<ShardProbe>& probes) {
    std::vector<std::shared_ptr<MovableShard>> links;
    std::vector<std::shared_ptr<ShardClient>> clients;
    target_.clear();
    store_.clear();
    for (size_t i = 0; i < verdict.probe_of_shard.size(); ++i) {
      const int32_t id = static_cast<int32_t>(i);
      const int32_t at = verdict.probe_of_shard[i];
      std::shared_ptr<ShardClient> target;
      if (at < 0) {
        target = MakeAbsentShard(id);
      } else {
        const ShardProbe& probe = probes[static_cast<size_t>(at)];
        store_[id] = probe.told->store_id;
        target = ClientOf(id, probe.address, verdict.cluster_uuid,
                          probe.told->store_id);
      }
      links.push_back(std::make_shared<MovableShard>(id, std::move(target)));
      clients.push_back(links.back());
    }
    absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
        Coordinator::Create(std::move(clients), options_.coordinator);
    if (!coordinator.ok()) {
      return coordinator.status();
    }
    links_ = std::move(links);
    const std::vector<std::string>& stores =
        (*coordinator)->catalogue()->stores;
    for (size_t i = 0; i < stores.size(); ++i) {
      std::string& store = store_[static_cast<int32_t>(i)];
      if (store.empty()) {
        store = stores[i];
      }
    }
    // From now on no other cluster will do.
    cluster_uuid_ = verdict.cluster_uuid;
    shards_total_ = links_.size();
    slot_->Set(*std::move(coordinator), verdict.cluster_uuid);
    good_rounds_ = kRoundsToAgree;
    return absl::OkStatus();
  }

  // All shards answer.
  void Trust(const ClusterVerdict& verdict) {
    bad_rounds_ = 0;
    for (size_t i = 0; i < verdict.probe_of_shard.size(); ++i) {
      health_->SetShard(static_cast<int32_t>(i), true);
    }
    if (++good_rounds_ >= kRoundsToAgree) {
      Say(true, "");
    }
  }

  // Something does not answer, for now. A coordinator that there is goes on:
  // its replies name what is missing.
  void Doubt(const absl::Status& why, int32_t serving,
             const std::vector<ShardProbe>& probes) {
    good_rounds_ = 0;
    const std::string reason(why.message());
    if (links_.empty()) {
      Withdraw(why, probes);
      return;
    }
    if (++bad_rounds_ < kRoundsToAgree) {
      return;
    }
    std::set<int32_t> up;
    for (const ShardProbe& probe : probes) {
      if (probe.told.ok() &&
          probe.told->state == ShardDescription::State::kServing) {
        up.insert(probe.told->shard_id);
      }
    }
    for (const auto& link : links_) {
      health_->SetShard(link->shard_id(), up.count(link->shard_id()) > 0);
    }
    Say(options_.serve_partial && serving > 0, reason);
  }

  // Nothing may be served.
  void Withdraw(const absl::Status& why,
                const std::vector<ShardProbe>& probes) {
    good_rounds_ = 0;
    links_.clear();
    CoordinatorSlot::Pending pending;
    pending.reason = absl::Status(
        why.code(), absl::StrCat("the coordinator has no whole cluster: ",
                                 std::string(why.message())));
    pending.cluster_uuid = cluster_uuid_;
    for (const ShardProbe& probe : probes) {
      ShardDescription shard;
      if (probe.told.ok()) {
        shard = *probe.told;
      } else {
        shard.shard_id = -1;
        shard.state = ShardDescription::State::kUnreachable;
        shard.reason = probe.told.status().ToString(
            absl::StatusToStringMode::kWithNoExtraData);
      }
      shard.address = probe.address;
      pending.shards.push_back(std::move(shard));
    }
    slot_->Clear(std::move(pending));
    Say(false, std::string(why.message()));
  }

  // Health, and a line whenever it changes or its reason does.
  void Say(bool serving, const std::string& reason) {
    health_->SetProcess(serving, reason);
    const std::string line =
        serving ? reason.empty() ? "all shards answer"
                                 : absl::StrCat("serving in part: ", reason)
                : absl::StrCat("not serving: ", reason);
    if (line != said_) {
      said_ = line;
      std::cerr << "coteried: " << line << std::endl;
    }
  }

  ClusterLinkOptions options_;  // constant from the constructor on
  const std::unique_ptr<ShardAddresses> addresses_;
  const ShardClientFactory factory_;
  CoordinatorSlot* const slot_;
  Health* const health_;

  // Of Run's thread.
  std::map<std::string, std::shared_ptr<ShardClient>> clients_;  // by address
  std::vector<std::shared_ptr<MovableShard>> links_;  // empty: none serves
  std::map<int32_t, std::string> target_;             // address of each link
  std::map<int32_t, std::string> store_;              // that it is called on
  std::string cluster_uuid_;  // the only one served; empty: any yet
  size_t shards_total_ = 0;   // of that cluster; 0: not known yet
  int good_rounds_ = 0;
  int bad_rounds_ = 0;
  std::string said_;

  Mutex mu_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::unique_ptr<Backend> MakeClusterLink(
    ClusterLinkOptions options, std::unique_ptr<ShardAddresses> addresses,
    ShardClientFactory factory, CoordinatorSlot* slot, Health* health) {
  return std::make_unique<ClusterLink>(std::move(options), std::move(addresses),
                                       std::move(factory), slot, health);
}

}  // namespace coterie
