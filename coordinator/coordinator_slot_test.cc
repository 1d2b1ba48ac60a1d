// Services over a slot, through a real gRPC server: while it is empty, when it
// is filled, and under a budget.

#include "coordinator/coordinator_slot.h"

#include <gmock/gmock.h>
#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "api/byte_budget.h"
#include "api/grpc_status.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/services.h"
#include "coordinator/test_server.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

class SlotServices : public testing::Test {
 protected:
  SlotServices() {
    static const bool held = (grpc_init(), true);
    EXPECT_TRUE(held);
    RpcOptions options;
    options.budget = budget_;
    services_ = MakeServices(slot_, options, "1.2.3");
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    for (grpc::Service* service : services_->all()) {
      builder.RegisterService(service);
    }
    server_ = builder.BuildAndStart();
    auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                                       grpc::InsecureChannelCredentials());
    search_ = v1::SearchService::NewStub(channel);
    points_ = v1::PointService::NewStub(channel);
    cluster_service_ = v1::ClusterService::NewStub(channel);
  }
  ~SlotServices() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  // A request's bytes are given back when gRPC lets go of it, which may be
  // after its caller has the reply.
  void Settle() {
    WaitUntil([this] { return budget_->used() == 0; });
  }
  absl::Status Search() {
    grpc::ClientContext context;
    v1::SearchResponse reply;
    return FromGrpcStatus(
        search_->Search(&context, SearchOf("c", {1}, 1), &reply));
  }
  absl::Status Upsert() {
    Settle();
    grpc::ClientContext context;
    v1::UpsertResponse reply;
    return FromGrpcStatus(
        points_->Upsert(&context, UpsertOf("c", {{1}}), &reply));
  }
  v1::DescribeResponse Describe() {
    grpc::ClientContext context;
    v1::DescribeResponse reply;
    EXPECT_TRUE(
        cluster_service_->Describe(&context, v1::DescribeRequest(), &reply)
            .ok());
    return reply;
  }
  // Puts a cluster into the slot that the test can reach.
  void Fill() {
    cluster_ = std::make_unique<FakeCluster>(1);
    ASSERT_TRUE(cluster_->Create("c", 1).ok());
    slot_.Set(std::shared_ptr<Coordinator>(cluster_->coordinator.get(),
                                           [](Coordinator*) {}),
              "uuid");
  }

  std::unique_ptr<FakeCluster> cluster_;
  CoordinatorSlot slot_;
  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(30);
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::SearchService::Stub> search_;
  std::unique_ptr<v1::PointService::Stub> points_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_service_;
};

TEST_F(SlotServices, WhileItIsEmptyCallsSayWhyAndDescribeAnswers) {
  CoordinatorSlot::Pending pending;
  pending.reason = absl::UnavailableError("loading: 1 of 2 shards");
  pending.cluster_uuid = "uuid";
  ShardDescription& shard = pending.shards.emplace_back();
  shard.shard_id = 1;
  shard.state = ShardDescription::State::kLoading;
  slot_.Clear(pending);
  const absl::Status searched = Search();
  for (const absl::Status& status : {searched, Upsert()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("1 of 2 shards"));
  }
  const v1::DescribeResponse described = Describe();
  EXPECT_EQ(described.version(), "1.2.3");
  EXPECT_EQ(described.cluster_uuid(), "uuid");
  ASSERT_EQ(described.shards_size(), 1);
  EXPECT_EQ(described.shards(0).state(), v1::ShardDescription::LOADING);
  EXPECT_EQ(described.shards(0).shard_id(), 1);
}

TEST_F(SlotServices, FillingAndEmptyingItTurnsCallsOnAndOff) {
  EXPECT_EQ(Upsert().code(), absl::StatusCode::kUnavailable);
  Fill();
  EXPECT_TRUE(Upsert().ok());
  Settle();
  EXPECT_TRUE(Search().ok());
  EXPECT_EQ(Describe().shards(0).state(), v1::ShardDescription::SERVING);
  slot_.Clear({absl::FailedPreconditionError("two shards claim id 0"), "", {}});
  Settle();
  EXPECT_EQ(Search().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SlotServices, RequestsOverTheBudgetAreRefusedUntilOthersEnd) {
  Fill();
  ASSERT_TRUE(Upsert().ok());
  Settle();
  cluster_->shard(0).Hold("Search");
  absl::Status first;
  std::thread held([&] { first = Search(); });
  WaitUntil([&] { return cluster_->shard(0).held() == 1; });
  EXPECT_GT(budget_->used(), 0);
  const absl::Status refused = Search();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("inflight_bytes"));
  cluster_->shard(0).Release();
  held.join();
  EXPECT_TRUE(first.ok()) << first;
  Settle();
  EXPECT_TRUE(Search().ok());
  EXPECT_EQ(budget_->refused(), 1);
}

}  // namespace
}  // namespace coterie
