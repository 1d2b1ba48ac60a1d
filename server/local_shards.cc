#include "server/local_shards.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "coordinator/coordinator.h"
#include "server/in_process_shard_client.h"
#include "server/late_shard_service.h"
#include "shard/shard.h"
#include "shard/work_pool.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

int32_t Cores() {
  return std::max<int32_t>(
      1, static_cast<int32_t>(std::thread::hardware_concurrency()));
}

class LocalShards final : public Backend {
 public:
  LocalShards(const ServerOptions& options, DataDir dir, const RpcOptions& rpc,
              CoordinatorSlot* slot, Health* health)
      : options_(options),
        dir_(std::move(dir)),
        slot_(slot),
        health_(health),
        first_(std::max(0, options.shard_id)),
        pool_(std::make_shared<WorkPool>(options.threads > 0 ? options.threads
                                                             : Cores())),
        shards_(options.shard_id >= 0 ? 1
                                      : static_cast<size_t>(dir_.shards())) {
    for (size_t i = 0; i < shards_.size(); ++i) {
      health_->SetShard(IdOf(i), false);
    }
    if (options.role == ServerOptions::Role::kShard) {
      remote_ = MakeLateShardService(LoadingShard(0), rpc);
    }
    SayLoading();
  }

  std::vector<grpc::Service*> services() override {
    if (remote_ == nullptr) {
      return {};
    }
    return {remote_->service()};
  }

  absl::Status Run() override {
    if (absl::Status loaded = Load(); !loaded.ok()) {
      return loaded;
    }
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (size_t i = 0; i < shards_.size(); ++i) {
      clients.push_back(MakeInProcessShardClient(IdOf(i), shards_[i]));
    }
    CoordinatorOptions coordinator_options;
    coordinator_options.limits = options_.limits;
    coordinator_options.jobs.step_timeout = options_.job_step;
    coordinator_options.accepted_stores = options_.accepted_stores;
    coordinator_options.shard_view =
        options_.role == ServerOptions::Role::kShard;
    absl::StatusOr<std::unique_ptr<Coordinator>> coordinator =
        Coordinator::Create(std::move(clients), coordinator_options);
    if (!coordinator.ok()) {
      return coordinator.status();
    }
    slot_->Set(*std::move(coordinator), dir_.cluster_uuid());
    if (remote_ != nullptr) {
      remote_->Serve(shards_.front().get());
    }
    health_->SetProcess(true, "");
    MutexLock lock(&mu_);
    while (!stop_) {
      stopped_.Wait(&mu_);
    }
    return absl::OkStatus();
  }

  void Stop() override {
    MutexLock lock(&mu_);
    stop_ = true;
    stopped_.NotifyAll();
  }

  void Close() override {
    for (const std::shared_ptr<Shard>& shard : shards_) {
      if (shard != nullptr) {
        shard->Stop();
      }
    }
    slot_->Clear({absl::UnavailableError("the server is stopping"),
                  dir_.cluster_uuid(),
                  {}});
  }

 private:
  int32_t IdOf(size_t i) const { return first_ + static_cast<int32_t>(i); }

  bool stop() {
    MutexLock lock(&mu_);
    return stop_;
  }

  ShardOptions OptionsOf(int32_t shard_id) const {
    ShardOptions shard;
    shard.shard_id = shard_id;
    shard.shards_total = dir_.shards();
    shard.cluster_uuid = dir_.cluster_uuid();
    shard.path = dir_.ShardPath(shard_id);
    shard.limits = options_.limits;
    shard.pool = pool_;
    shard.queue_capacity = options_.queue_capacity;
    shard.write_queue_bytes = options_.write_queue_bytes;
    shard.unsealed_bytes = options_.unsealed_bytes;
    const int64_t merge_bytes =
        options_.merge_bytes > 0 ? options_.merge_bytes : DefaultMergeBytes();
    shard.merge_bytes = std::max<int64_t>(
        1, merge_bytes / static_cast<int64_t>(shards_.size()));
    const int64_t job_bytes =
        options_.job_bytes > 0 ? options_.job_bytes : DefaultJobBytes();
    shard.job_bytes =
        std::max<int64_t>(1, job_bytes / static_cast<int64_t>(shards_.size()));
    const int64_t index_bytes =
        options_.index_bytes > 0 ? options_.index_bytes : DefaultIndexBytes();
    shard.index_bytes = std::max<int64_t>(
        1, index_bytes / static_cast<int64_t>(shards_.size()));
    return shard;
  }

  ShardDescription LoadingShard(size_t i) const {
    ShardDescription shard;
    shard.shard_id = IdOf(i);
    shard.address = "in-process";
    shard.state = ShardDescription::State::kLoading;
    shard.reason = "reading its store";
    shard.cluster_uuid = dir_.cluster_uuid();
    shard.shards_total = dir_.shards();
    return shard;
  }

  // Tells callers how far loading has come.
  void SayLoading() {
    const int32_t total = static_cast<int32_t>(shards_.size());
    const std::string reason =
        absl::StrCat("loading: ", loaded_.load(), " of ", total,
                     " shards of this process are loaded");
    CoordinatorSlot::Pending pending;
    pending.reason = absl::UnavailableError(reason);
    pending.cluster_uuid = dir_.cluster_uuid();
    for (size_t i = 0; i < shards_.size(); ++i) {
      pending.shards.push_back(LoadingShard(i));
    }
    slot_->Clear(std::move(pending));
    health_->SetProcess(false, reason);
  }

  // Loading is bound by disk and by copying rows: as many at once as there are
  // cores.
  absl::Status Load() {
    std::vector<absl::Status> results(shards_.size());
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < shards_.size() && !stop(); i = next++) {
        auto shard = Shard::Open(OptionsOf(IdOf(i)));
        results[i] = WithShard(shard.status(), IdOf(i));
        if (shard.ok()) {
          shards_[i] = *std::move(shard);
          health_->SetShard(IdOf(i), true);
          ++loaded_;
          SayLoading();
        }
      }
    };
    std::vector<std::thread> threads;
    for (size_t t = 1;
         t < std::min(shards_.size(), static_cast<size_t>(Cores())); ++t) {
      threads.emplace_back(work);
    }
    work();
    for (std::thread& t : threads) {
      t.join();
    }
    for (const absl::Status& s : results) {
      if (!s.ok()) {
        return s;
      }
    }
    return stop() ? absl::CancelledError("stopped while loading")
                  : absl::OkStatus();
  }

  const ServerOptions options_;
  // Released last: the lock is held while any shard is open.
  DataDir dir_;
  CoordinatorSlot* const slot_;
  Health* const health_;
  const int32_t first_;  // id of shards_[0]
  // Of all shards.
  const std::shared_ptr<WorkPool> pool_;
  std::vector<std::shared_ptr<Shard>> shards_;
  // Role shard only. After shards_, so that it goes first.
  std::unique_ptr<LateShardService> remote_;
  std::atomic<int32_t> loaded_{0};
  Mutex mu_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace

std::unique_ptr<Backend> MakeLocalShards(const ServerOptions& options,
                                         DataDir dir, const RpcOptions& rpc,
                                         CoordinatorSlot* slot,
                                         Health* health) {
  return std::make_unique<LocalShards>(options, std::move(dir), rpc, slot,
                                       health);
}

}  // namespace coterie
