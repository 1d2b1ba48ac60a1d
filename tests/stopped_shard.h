// A cluster of three processes, a coordinator and two shards, of which one can
// be made to stand still. Test-only; one thread, but for calls.
//
// CALLS in the environment says how many of each kind Run makes, ALLOWANCE_MS
// how late beyond 20 ms an answer may be because the machine is busy.

#ifndef COTERIE_TESTS_STOPPED_SHARD_H_
#define COTERIE_TESTS_STOPPED_SHARD_H_

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

inline constexpr int64_t kPoints = 200;
inline constexpr absl::Duration kLate = absl::Milliseconds(20);
inline constexpr absl::Duration kDrain = absl::Seconds(1);

// A number from the environment.
inline int64_t Setting(const char* name, int64_t otherwise) {
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
        folder, std::vector<std::string>{
                    "--role=coordinator", "--shards=" + shards,
                    absl::StrCat("--drain=", absl::FormatDuration(kDrain))});
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

}  // namespace coterie

#endif  // COTERIE_TESTS_STOPPED_SHARD_H_
