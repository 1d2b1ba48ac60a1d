// Shards served over gRPC in this process, with a problem's rows on them, and a
// coordinator.

#ifndef COTERIE_BENCH_SGD_SERVED_CLUSTER_H_
#define COTERIE_BENCH_SGD_SERVED_CLUSTER_H_

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/training.h"
#include "bench/sgd/experiments.h"
#include "coordinator/coordinator.h"
#include "coordinator/shard_client.h"
#include "tests/local_cluster.h"
#include "tests/served_shard.h"
#include "tests/sgd_following.h"

namespace coterie {

// One thread.
class ServedCluster {
 public:
  // Makes of a shard's client the one that the coordinator is given.
  using Wrap = std::function<std::shared_ptr<ShardClient>(
      int32_t shard, std::shared_ptr<ShardClient> client)>;

  // A slot for each of `slots`; even placement. Ends the program if something
  // fails.
  ServedCluster(const SgdProblem& problem, int32_t shards, int32_t slots,
                const Wrap& wrap = nullptr)
      : folder_(absl::StrCat(std::filesystem::temp_directory_path().string(),
                             "/coterie-sgd-bench-", getpid())) {
    std::filesystem::remove_all(folder_);
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (int32_t i = 0; i < shards; ++i) {
      ShardOptions options;
      options.shard_id = i;
      options.shards_total = shards;
      options.cluster_uuid = "01234567-89ab-4def-8123-456789abcdef";
      options.path = absl::StrCat(folder_, "/shard-", i);
      options.threads = 1;
      std::filesystem::create_directories(options.path);
      served_.push_back(std::make_unique<ServedShard>(options));
      std::shared_ptr<ShardClient> client = served_.back()->OverGrpc();
      clients.push_back(wrap ? wrap(i, std::move(client)) : std::move(client));
    }
    coordinator_ = *Coordinator::Create(std::move(clients), {});
    Load(problem, slots);
  }
  ~ServedCluster() {
    coordinator_.reset();
    served_.clear();
    std::filesystem::remove_all(folder_);
  }

  // The job to its end.
  Followed Train(const SgdRequest& request) {
    return Follow(coordinator_->jobs().Train(request, {}).get());
  }

 private:
  template <typename T>
  static void Check(const absl::StatusOr<T>& result) {
    if (result.ok()) return;
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    std::exit(1);
  }

  void Load(const SgdProblem& problem, int32_t slots) {
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = static_cast<int32_t>(problem.data.dimension);
    spec.metric = Metric::kSquaredL2;
    spec.slots = slots;
    Check(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
      coordinator_->CreateCollection(spec, {}, std::move(done));
    }));
    constexpr size_t kBatch = 1000;
    const auto d = static_cast<size_t>(problem.data.dimension);
    const size_t n = problem.data.labels.size();
    for (size_t first = 0; first < n; first += kBatch) {
      WriteBatch batch;
      batch.collection = "c";
      for (size_t i = first; i < std::min(n, first + kBatch); ++i) {
        const float* row = problem.data.values.data() + i * d;
        batch.upserts.push_back({problem.data.ids[i],
                                 {row, row + d},
                                 {{"y", problem.data.labels[i]}}});
      }
      Check(Await<WriteReply>([&](Done<WriteReply> done) {
        coordinator_->Upsert(std::move(batch), {}, std::move(done));
      }));
    }
  }

  const std::string folder_;
  std::vector<std::unique_ptr<ServedShard>> served_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace coterie

#endif  // COTERIE_BENCH_SGD_SERVED_CLUSTER_H_
