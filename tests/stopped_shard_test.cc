// One shard of a cluster of processes stands still (SIGSTOP): every call on the
// coordinator ends by its deadline, says which shard was missing, and
// everything works again, without a restart, when the shard goes on.
//
// CALLS in the environment says how many of each kind, ALLOWANCE_MS how late
// beyond 20 ms an answer may be because the machine is busy. Prints what it
// measured.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/grpc_status.h"
#include "api/status_details.h"
#include "api/v1/cluster.grpc.pb.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/server_process.h"

namespace coterie {
namespace {

constexpr int64_t kPoints = 200;
constexpr absl::Duration kLate = absl::Milliseconds(20);

int64_t Setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  int64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// What became of one kind of call.
struct Outcomes {
  std::string kind;
  std::vector<absl::Duration> late;  // after its deadline; negative: before
  int answered = 0;                  // OK
  int named = 0;                     // failed, naming the shard
  std::vector<absl::Status> other;   // failed in another way

  void Add(const absl::Status& status, absl::Duration after) {
    late.push_back(after);
    if (status.ok()) {
      ++answered;
    } else if (absl::IsDeadlineExceeded(status) ||
               absl::IsUnavailable(status)) {
      named += ShardOf(status) == 1 ? 1 : 0;
    } else {
      other.push_back(status);
    }
  }

  void Print() {
    std::sort(late.begin(), late.end());
    const auto at = [&](double part) {
      return absl::ToDoubleMilliseconds(late[static_cast<size_t>(
          part * static_cast<double>(late.size() - 1))]);
    };
    std::cout << absl::StreamFormat(
        "%-16s %4d calls  ok %4d  named %4d  after the deadline, ms: median "
        "%.1f  p99 %.1f  most %.1f\n",
        kind, late.size(), answered, named, at(0.5), at(0.99), at(1));
  }
};

class StoppedShard : public testing::Test {
 protected:
  using Call = std::function<absl::Status(grpc::ClientContext*)>;

  void SetUp() override {
    const std::string folder = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
    std::string& shards = shard_addresses_;
    for (int i = 0; i < 2; ++i) {
      shards_[i] = std::make_unique<ServerProcess>(
          absl::StrCat(folder, "/", i),
          std::vector<std::string>{"--role=shard",
                                   absl::StrCat("--shard_id=", i),
                                   "--shards_total=2", "--cluster=test"});
      ASSERT_FALSE(shards_[i]->address().empty());
      absl::StrAppend(&shards, i == 0 ? "" : ",", shards_[i]->address());
    }
    coordinator_ = std::make_unique<ServerProcess>(
        folder,
        std::vector<std::string>{"--role=coordinator", "--shards=" + shards});
    ASSERT_FALSE(coordinator_->address().empty());
    const auto channel = NewChannel(*coordinator_);
    collections_ = v1::CollectionService::NewStub(channel);
    points_ = v1::PointService::NewStub(channel);
    search_ = v1::SearchService::NewStub(channel);
    cluster_ = v1::ClusterService::NewStub(channel);
    v1::CreateCollectionRequest create;
    create.mutable_collection()->set_name("c");
    create.mutable_collection()->set_dimension(2);
    create.mutable_collection()->set_metric(v1::SQUARED_L2);
    v1::CreateCollectionResponse created;
    grpc::ClientContext context;
    ASSERT_TRUE(
        collections_->CreateCollection(&context, create, &created).ok());
    ASSERT_TRUE(Within(absl::Seconds(30), Upsert()).ok());
  }

  // A connection of its own.
  static std::shared_ptr<grpc::Channel> NewChannel(const ServerProcess& to) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(16 << 20);
    return grpc::CreateCustomChannel(
        to.address(), grpc::InsecureChannelCredentials(), arguments);
  }

  // --- Calls ---

  Call Search(std::function<void(v1::PartialPolicy*)> policy) {
    return [this, policy](grpc::ClientContext* context) {
      v1::SearchRequest request;
      request.set_collection("c");
      v1::Vector* vector = request.add_queries()->mutable_vector();
      vector->mutable_values()->add_values(1);
      vector->mutable_values()->add_values(2);
      request.set_k(3);
      if (policy) policy(request.mutable_partial_policy());
      v1::SearchResponse response;
      const grpc::Status status = search_->Search(context, request, &response);
      if (status.ok()) {
        EXPECT_EQ(response.coverage().shards_ok(), stopped_ ? 1 : 2);
        EXPECT_EQ(response.coverage().shards_total(), 2);
      }
      return FromGrpcStatus(status);
    };
  }
  Call Upsert() {
    return [this](grpc::ClientContext* context) {
      v1::UpsertRequest request;
      request.set_collection("c");
      for (int64_t id = 0; id < kPoints; ++id) {
        v1::Point* point = request.add_points();
        point->set_id(static_cast<uint64_t>(id));
        point->mutable_vector()->mutable_values()->add_values(
            static_cast<float>(id));
        point->mutable_vector()->mutable_values()->add_values(1);
      }
      v1::UpsertResponse response;
      return FromGrpcStatus(points_->Upsert(context, request, &response));
    };
  }
  Call Get() {
    return [this](grpc::ClientContext* context) {
      v1::GetRequest request;
      request.set_collection("c");
      for (uint64_t id = 0; id < 10; ++id) request.add_ids(id);
      v1::GetResponse response;
      return FromGrpcStatus(points_->Get(context, request, &response));
    };
  }
  Call Count() {
    return [this](grpc::ClientContext* context) {
      v1::CountRequest request;
      request.set_collection("c");
      v1::CountResponse response;
      return FromGrpcStatus(points_->Count(context, request, &response));
    };
  }
  Call Scan() {
    return [this](grpc::ClientContext* context) {
      v1::ScanRequest request;
      request.set_collection("c");
      const auto reader = points_->Scan(context, request);
      v1::ScanResponse page;
      while (reader->Read(&page)) {
      }
      return FromGrpcStatus(reader->Finish());
    };
  }
  Call GetCollection() {
    return [this](grpc::ClientContext* context) {
      v1::GetCollectionRequest request;
      request.set_name("c");
      v1::GetCollectionResponse response;
      return FromGrpcStatus(
          collections_->GetCollection(context, request, &response));
    };
  }
  Call Describe() {
    return [this](grpc::ClientContext* context) {
      v1::DescribeResponse response;
      const grpc::Status status = cluster_->Describe(context, {}, &response);
      if (status.ok()) {
        EXPECT_EQ(response.shards_size(), 2);
      }
      return FromGrpcStatus(status);
    };
  }

  // --- Running them ---

  absl::Status Within(absl::Duration deadline, const Call& call,
                      absl::Duration* late = nullptr) {
    grpc::ClientContext context;
    const absl::Time until = absl::Now() + deadline;
    context.set_deadline(absl::ToChronoTime(until));
    const absl::Status status = call(&context);
    if (late != nullptr) *late = absl::Now() - until;
    return status;
  }

  // With deadlines of 20 ms, and one and two steps more.
  Outcomes Run(const std::string& kind, const Call& call, absl::Duration step) {
    Outcomes outcomes;
    outcomes.kind = kind;
    const int64_t calls = Setting("CALLS", 6);
    for (int64_t i = 0; i < calls; ++i) {
      const absl::Duration deadline = absl::Milliseconds(20) + step * (i % 3);
      absl::Duration late;
      const absl::Status status = Within(deadline, call, &late);
      outcomes.Add(status, late);
    }
    outcomes.Print();
    const absl::Duration bound =
        kLate + absl::Milliseconds(Setting("ALLOWANCE_MS", 1000));
    EXPECT_LE(outcomes.late.back(), bound) << kind;
    EXPECT_TRUE(outcomes.other.empty()) << kind << ": " << outcomes.other[0];
    return outcomes;
  }

  std::unique_ptr<ServerProcess> shards_[2];
  std::string shard_addresses_;
  std::unique_ptr<ServerProcess> coordinator_;
  std::unique_ptr<v1::CollectionService::Stub> collections_;
  std::unique_ptr<v1::PointService::Stub> points_;
  std::unique_ptr<v1::SearchService::Stub> search_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
  bool stopped_ = false;
};

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

// How a coordinator's memory may grow; under asan what is freed stays.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMostOfScans = int64_t{800} << 20, kMostGrowth = kMostOfScans;
#else
constexpr int64_t kMostOfScans = int64_t{64} << 20,
                  kMostGrowth = 4 * kMostOfScans;
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

// Beside a coordinator that may handle 16 MiB of requests at once.
class PileUp : public StoppedShard {
 protected:
  static constexpr size_t kCalls = 192;
  static constexpr size_t kChannels = 8;

  void SetUp() override {
    StoppedShard::SetUp();
    bounded_ = std::make_unique<ServerProcess>(
        testing::TempDir() + "/bounded",
        std::vector<std::string>{
            "--role=coordinator", "--shards=" + shard_addresses_,
            absl::StrCat("--max_inflight_bytes=", 16 << 20)});
    ASSERT_FALSE(bounded_->address().empty());
    for (size_t i = 0; i < kChannels; ++i) {
      const auto channel = NewChannel(*bounded_);
      writers_.push_back(v1::PointService::NewStub(channel));
      readers_.push_back(v1::SearchService::NewStub(channel));
    }
  }

  // `count` vectors of `dimension`, to upsert into and to look for in it.
  void Fill(const std::string& collection, int count, int dimension) {
    upsert_.set_collection(collection);
    search_for_.set_collection(collection);
    search_for_.set_k(1);
    for (int i = 0; i < count; ++i) {
      v1::Point* point = upsert_.add_points();
      point->set_id(static_cast<uint64_t>(i));
      point->mutable_vector()->mutable_values()->mutable_values()->Resize(
          dimension, static_cast<float>(i));
      *search_for_.add_queries()->mutable_vector() = point->vector();
    }
  }

  absl::Status UpsertOnce(size_t channel) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
    v1::UpsertResponse response;
    return FromGrpcStatus(
        writers_[channel]->Upsert(&context, upsert_, &response));
  }

  struct UnderWay {
    grpc::ClientContext context;
    v1::UpsertResponse upserted;
    v1::SearchResponse found;
    absl::Status status;
    absl::Notification ended;
  };

  void Start(size_t i, UnderWay* call) {
    const auto end = [this, call](const grpc::Status& status) {
      call->status = FromGrpcStatus(status);
      ++ended_;
      call->ended.Notify();
    };
    const size_t channel = i / 2 % kChannels;
    if (i % 2 == 0) {
      writers_[channel]->async()->Upsert(&call->context, &upsert_,
                                         &call->upserted, end);
    } else {
      readers_[channel]->async()->Search(&call->context, &search_for_,
                                         &call->found, end);
    }
  }

  // Sends upserts and searches, all at once, while a shard stands still: those
  // that find no room are told so at once and when to come back, the memory
  // stays bounded, and everything works afterwards.
  void ExpectBounded() {
    shards_[1]->Signal(SIGSTOP);
    const int64_t before = bounded_->ResidentBytes();
    const auto deadline = absl::ToChronoTime(absl::Now() + absl::Seconds(30));
    std::vector<UnderWay> calls(kCalls);
    for (size_t i = 0; i < kCalls; ++i) {
      calls[i].context.set_deadline(deadline);
      Start(i, &calls[i]);
    }
    int64_t most = before;
    int refused = 0;
    while (ended_ < static_cast<int>(kCalls) * 3 / 4) {
      most = std::max(most, bounded_->ResidentBytes());
      std::this_thread::yield();
    }
    shards_[1]->Signal(SIGCONT);
    for (UnderWay& call : calls) {
      call.ended.WaitForNotification();
      if (absl::IsResourceExhausted(call.status)) {
        ++refused;
        EXPECT_TRUE(RetryAfterOf(call.status).has_value()) << call.status;
      } else {
        EXPECT_TRUE(call.status.ok()) << call.status;
      }
    }
    std::cout << kCalls << " calls: " << refused << " refused, memory grew by "
              << ((most - before) >> 20) << " MiB\n";
    EXPECT_GE(refused, static_cast<int>(kCalls / 2));
    EXPECT_LT(most - before, kMostGrowth);
    EXPECT_TRUE(UpsertOnce(0).ok());
  }

  std::unique_ptr<ServerProcess> bounded_;
  std::vector<std::unique_ptr<v1::PointService::Stub>> writers_;
  std::vector<std::unique_ptr<v1::SearchService::Stub>> readers_;
  v1::UpsertRequest upsert_;
  v1::SearchRequest search_for_;
  std::atomic<int> ended_{0};
};

TEST_F(PileUp, OfLargeCallsIsBoundedAndRefusedAtOnce) {
  v1::CreateCollectionRequest create;
  create.mutable_collection()->set_name("wide");
  create.mutable_collection()->set_dimension(1024);
  create.mutable_collection()->set_metric(v1::SQUARED_L2);
  v1::CreateCollectionResponse created;
  grpc::ClientContext creating;
  ASSERT_TRUE(collections_->CreateCollection(&creating, create, &created).ok());
  Fill("wide", 256, 1024);  // 1 MiB
  ASSERT_TRUE(UpsertOnce(0).ok());
  ExpectBounded();
}

// On the wire they have 64 to 100 KiB, all together hardly more than the bound.
TEST_F(PileUp, OfManySmallThingsIsBoundedByWhatTheyTakeInMemory) {
  Fill("c", 4096, 2);
  ASSERT_TRUE(UpsertOnce(0).ok());
  ExpectBounded();
}

}  // namespace
}  // namespace coterie
