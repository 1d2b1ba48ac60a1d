// One shard of a cluster of processes stands still (SIGSTOP): every call on the
// coordinator ends by its deadline, says which shard was missing, and
// everything works again, without a restart, when the shard goes on. Prints
// what it measured.

#include "tests/stopped_shard.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

TEST_F(StoppedShard, NoCallOutlivesItsDeadlineAndAllWorksAfterwards) {
  const Call fail = Search(nullptr);
  const Call allow = Search([](auto* policy) { policy->mutable_allow(); });
  const Call require = Search(
      [](auto* policy) { policy->mutable_require()->set_min_ratio(0.9); });
  shards_[1]->Signal(SIGSTOP);
  stopped_ = true;
  // Whoever needs the shard fails, on a machine that is not too busy in time to
  // say why; whoever does not is answered.
  int named = 0;
  for (const auto& [kind, call] : std::vector<std::pair<std::string, Call>>{
           {"search fail", fail},
           {"search require", require},
           {"upsert", Upsert()},
           {"get", Get()},
           {"count", Count()},
           {"scan", Scan()},
           {"get collection", GetCollection()}}) {
    const Outcomes outcomes = Run(kind, call, absl::Milliseconds(90));
    EXPECT_EQ(outcomes.answered, 0) << kind;
    named += outcomes.named;
  }
  EXPECT_GT(named, 0);
  for (const auto& [kind, call] : std::vector<std::pair<std::string, Call>>{
           {"search allow", allow}, {"describe", Describe()}}) {
    EXPECT_GT(Run(kind, call, absl::Milliseconds(490)).answered, 0) << kind;
  }
  shards_[1]->Signal(SIGCONT);
  stopped_ = false;
  for (const Call& call :
       {fail, Upsert(), Get(), Count(), Scan(), GetCollection(), Describe()}) {
    absl::Status status;
    do {
      status = Within(absl::Seconds(10), call);
    } while (absl::IsUnavailable(status));
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST_F(StoppedShard, NoShardAnsweringIsADeadlineNeverAnEmptyAnswer) {
  for (const auto& shard : shards_) shard->Signal(SIGSTOP);
  for (const Call& search :
       {Search(nullptr), Search([](auto* policy) { policy->mutable_allow(); }),
        Search([](auto* policy) {
          policy->mutable_require()->set_min_ratio(0.1);
        })}) {
    const absl::Status status = Within(absl::Milliseconds(50), search);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
}

// A handler that waits for a shard, which never answers, does not hold up the
// end of its server.
TEST_F(StoppedShard, AStoppedCoordinatorEndsInTimeWhateverItWaitsFor) {
  shards_[1]->Signal(SIGSTOP);
  constexpr int kCalls = 3;
  absl::Status ended[kCalls];
  std::vector<std::thread> callers;
  std::atomic<int> begun{0};
  for (int i = 0; i < kCalls; ++i) {
    callers.emplace_back([&, i] {
      const Call call = i == 0 ? Upsert() : i == 1 ? Count() : Search(nullptr);
      ++begun;
      ended[i] = Within(absl::Seconds(300), call);
    });
  }
  while (begun < kCalls) std::this_thread::yield();
  // Behind them on the same channel: when it has ended, they are under way.
  EXPECT_FALSE(Within(absl::Milliseconds(200), Get()).ok());
  const absl::Time begin = absl::Now();
  coordinator_->Signal(SIGTERM);
  EXPECT_EQ(coordinator_->AwaitExit(), 0);
  const absl::Duration took = absl::Now() - begin;
  std::cout << "ended after " << took << "\n";
  EXPECT_LT(took, kDrain + absl::Seconds(1) +
                      absl::Milliseconds(Setting("ALLOWANCE_MS", 1000)));
  for (std::thread& caller : callers) caller.join();
  for (const absl::Status& status : ended) {
    EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsCancelled(status))
        << status;
  }
}

// How a coordinator's memory may grow; under asan what is freed stays.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMostOfScans = int64_t{800} << 20;
#else
constexpr int64_t kMostOfScans = int64_t{64} << 20;
#endif

// Scans whose reader stands still hold a page or two each, not the collection.
TEST_F(StoppedShard, AReaderThatStandsStillCostsPagesNotTheCollection) {
  constexpr int kScans = 8;
  constexpr int64_t kDimension = 1024;
  v1::CreateCollectionRequest create;
  create.mutable_collection()->set_name("wide");
  create.mutable_collection()->set_dimension(kDimension);
  create.mutable_collection()->set_metric(v1::SQUARED_L2);
  v1::CreateCollectionResponse created;
  grpc::ClientContext creating;
  ASSERT_TRUE(collections_->CreateCollection(&creating, create, &created).ok());
  // 16 MiB: all scans of it together 128 MiB.
  for (uint64_t first = 0; first < 4096; first += 1024) {
    v1::UpsertRequest request;
    request.set_collection("wide");
    for (uint64_t id = first; id < first + 1024; ++id) {
      v1::Point* point = request.add_points();
      point->set_id(id);
      point->mutable_vector()->mutable_values()->mutable_values()->Resize(
          kDimension, static_cast<float>(id));
    }
    v1::UpsertResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(points_->Upsert(&context, request, &response).ok());
  }
  const int64_t before = coordinator_->ResidentBytes();
  v1::ScanRequest request;
  request.set_collection("wide");
  request.set_with_vectors(true);
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::ScanResponse>>> readers;
  v1::ScanResponse page;
  for (int i = 0; i < kScans; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(points_->Scan(contexts.back().get(), request));
    ASSERT_TRUE(readers.back()->Read(&page));
  }
  // Time for the coordinator to read ahead, if it did.
  int64_t most = before;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(Within(absl::Seconds(10), Search(nullptr)).ok());
    most = std::max(most, coordinator_->ResidentBytes());
  }
  std::cout << kScans << " stalled scans: memory grew by "
            << ((most - before) >> 20) << " MiB\n";
  EXPECT_LT(most - before, kMostOfScans);
  for (int i = 0; i < kScans; ++i) {
    contexts[static_cast<size_t>(i)]->TryCancel();
    EXPECT_EQ(readers[static_cast<size_t>(i)]->Finish().error_code(),
              grpc::StatusCode::CANCELLED);
  }
}

}  // namespace
}  // namespace coterie
