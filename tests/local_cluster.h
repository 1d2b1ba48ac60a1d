// p real shards and a coordinator in this process, on a temporary folder, with
// calls that wait. Test-only. Calls may come from many threads.

#ifndef COTERIE_TESTS_LOCAL_CLUSTER_H_
#define COTERIE_TESTS_LOCAL_CLUSTER_H_

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/coordinator.h"
#include "shard/shard.h"

namespace coterie {

// Runs an asynchronous call to its end: Await<Reply>([&](Done<Reply> done) {
// client.Method(..., std::move(done)); }).
template <typename T, typename Call>
absl::StatusOr<T> Await(Call call) {
  std::promise<absl::StatusOr<T>> promise;
  std::future<absl::StatusOr<T>> future = promise.get_future();
  call(Done<T>([&promise](absl::StatusOr<T> reply) {
    promise.set_value(std::move(reply));
  }));
  return future.get();
}

struct LocalClusterOptions {
  int32_t shards = 1;
  int32_t threads = 1;
  int64_t tail_rows = 65536;
  int64_t index_rows = 4096;
  CoordinatorOptions coordinator = {};
};

class LocalCluster {
 public:
  // On an empty folder named after the running test. Aborts the test program
  // if the cluster cannot start.
  explicit LocalCluster(LocalClusterOptions options);
  ~LocalCluster();

  // Stops everything and opens the same folder again.
  void Restart();

  Coordinator& coordinator() { return *coordinator_; }
  // Over the same shards; to be dropped before the cluster restarts or goes.
  std::unique_ptr<Coordinator> AnotherCoordinator();
  Shard& shard(int32_t i) { return *shards_[static_cast<size_t>(i)]; }

  absl::Status Create(const std::string& name, int32_t dimension, Metric metric,
                      int32_t slots = kDefaultSlots);
  absl::StatusOr<WriteReply> Upsert(const std::string& collection,
                                    std::vector<Point> points);
  absl::StatusOr<WriteReply> Delete(const std::string& collection,
                                    std::vector<PointId> ids);
  absl::StatusOr<SearchReply> Search(SearchRequest request);
  absl::StatusOr<GetReply> Get(GetRequest request);
  absl::StatusOr<int64_t> Count(const std::string& collection);
  // Every point, page by page.
  absl::StatusOr<std::vector<Point>> Scan(ScanRequest request);

 private:
  void Open();
  void Close();

  const LocalClusterOptions options_;
  const std::string folder_;
  std::vector<std::shared_ptr<Shard>> shards_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_LOCAL_CLUSTER_H_
