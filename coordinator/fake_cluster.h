// A coordinator over fake shards, and the means to wait for it. For tests.
//
// Not thread-safe, but the coordinator and the shards in it are.

#ifndef COTERIE_COORDINATOR_FAKE_CLUSTER_H_
#define COTERIE_COORDINATOR_FAKE_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "api/call.h"
#include "coordinator/coordinator.h"
#include "coordinator/fake_shard_client.h"
#include "sync/mutex.h"

namespace coterie {

// Where the reply of one call arrives. Thread-safe; copies share it.
template <typename T>
class Outcome {
 public:
  // To be given to one call.
  Done<T> done() {
    return [state = state_](absl::StatusOr<T> reply) {
      MutexLock lock(&state->mu);
      ++state->times;
      state->reply = std::move(reply);
      state->arrived.NotifyAll();
    };
  }
  // How often `done` ran: 1 unless something is wrong.
  int times() const {
    MutexLock lock(&state_->mu);
    return state_->times;
  }
  // Waits for the reply.
  absl::StatusOr<T> Wait() {
    MutexLock lock(&state_->mu);
    while (state_->times == 0) {
      state_->arrived.Wait(&state_->mu);
    }
    return state_->reply;
  }

 private:
  struct State {
    Mutex mu;
    CondVar arrived;
    int times ABSL_GUARDED_BY(mu) = 0;
    absl::StatusOr<T> reply ABSL_GUARDED_BY(mu);
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Starts a call and waits for its reply.
template <typename T>
absl::StatusOr<T> Wait(absl::FunctionRef<void(Done<T>)> start) {
  Outcome<T> outcome;
  start(outcome.done());
  return outcome.Wait();
}

// The environment's SEED, or a fixed one.
uint64_t TestSeed();

// `slots` owners that put each id on the wished shard, other slots on shard 0.
// REQUIRES: the ids have distinct slots (slots large), else it aborts.
std::vector<int32_t> PlacementOf(
    const std::vector<std::pair<PointId, int32_t>>& wishes, int32_t slots);

struct FakeCluster {
  // Aborts unless Coordinator::Create succeeds.
  explicit FakeCluster(int32_t shards,
                       FakeShardClient::Options fake_options = {},
                       CoordinatorOptions options = {});
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;
  // Stops the shards.
  ~FakeCluster();

  FakeShardClient& shard(int32_t i) { return *fakes[static_cast<size_t>(i)]; }
  std::vector<std::shared_ptr<ShardClient>> clients() const;

  // The calls, waited for.
  absl::StatusOr<CollectionSpec> Create(const std::string& name,
                                        int32_t dimension,
                                        Metric metric = Metric::kSquaredL2,
                                        int32_t slots = kDefaultSlots);
  absl::StatusOr<WriteReply> Upsert(const std::string& name,
                                    std::vector<Point> points,
                                    CallContext call = {});
  absl::StatusOr<SearchReply> Search(SearchRequest request,
                                     CallContext call = {});
  // With vectors.
  absl::StatusOr<GetReply> Get(const std::string& name,
                               std::vector<PointId> ids);
  absl::StatusOr<int64_t> Count(const std::string& name);
  absl::StatusOr<WriteReply> Delete(const std::string& name,
                                    std::vector<PointId> ids);
  // An upsert, deletes or updates, as the batch has them.
  absl::StatusOr<WriteReply> Write(WriteBatch batch, CallContext call = {});
  // Points dropped with the collection.
  absl::StatusOr<int64_t> Drop(const std::string& name);

  std::vector<std::shared_ptr<FakeShardClient>> fakes;
  std::unique_ptr<Coordinator> coordinator;
};

// A point without attributes.
Point MakePoint(PointId id, std::vector<float> vector);

// A search for the k nearest of one vector.
SearchRequest Nearest(const std::string& collection, std::vector<float> query,
                      int64_t k);

// Ids of the hits of one query, in order.
std::vector<PointId> IdsOf(const SearchReply& reply, size_t query = 0);

// The k nearest of `points`, after `offset`, by comparing with all of them.
std::vector<Neighbor> ModelNearest(Metric metric,
                                   const std::vector<Point>& points,
                                   VectorView query, int64_t k,
                                   int64_t offset = 0);

// n points with distinct ids (0 and 2^64-1 among them if n > 1) on a coarse
// grid, so that distances tie; no zero vectors.
std::vector<Point> RandomPoints(int64_t n, int32_t dimension,
                                std::mt19937_64* random);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_FAKE_CLUSTER_H_
