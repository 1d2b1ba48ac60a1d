// Writes as PointService serves them, over two fake shards.

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "api/grpc_status.h"
#include "api/status_details.h"
#include "api/v1/points.pb.h"
#include "api/write_outcome.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/test_server.h"

namespace coterie {
namespace {

class WriteServiceTest : public ::testing::Test {
 protected:
  WriteServiceTest() : cluster_(2), server_(cluster_.coordinator.get(), {}) {
    EXPECT_TRUE(cluster_.Create("c", 2).ok());
  }

  absl::Status Upsert(const v1::UpsertRequest& request,
                      v1::UpsertResponse* response) {
    grpc::ClientContext context;
    return FromGrpcStatus(server_.points->Upsert(&context, request, response));
  }

  absl::Status SetAttributes(const v1::SetAttributesRequest& request,
                             v1::SetAttributesResponse* response) {
    grpc::ClientContext context;
    return FromGrpcStatus(
        server_.points->SetAttributes(&context, request, response));
  }

  v1::GetResponse Get(PointId id) {
    grpc::ClientContext context;
    v1::GetRequest request;
    request.set_collection("c");
    request.add_ids(id);
    request.mutable_with_attributes()->set_all(true);
    v1::GetResponse response;
    EXPECT_TRUE(server_.points->Get(&context, request, &response).ok());
    return response;
  }

  // 40 points, so that both shards own some.
  static v1::UpsertRequest Forty(int64_t sequence) {
    v1::UpsertRequest request =
        UpsertOf("c", std::vector<std::vector<float>>(40, {1, 2}));
    request.mutable_request_id()->set_client_id("me");
    request.mutable_request_id()->set_sequence(sequence);
    return request;
  }

  FakeCluster cluster_;
  TestServer server_;
};

TEST_F(WriteServiceTest, AttributesAreMergedReplacedAndUnknownIdsListed) {
  v1::UpsertResponse upserted;
  ASSERT_TRUE(Upsert(Forty(1), &upserted).ok());
  v1::SetAttributesRequest request;
  request.set_collection("c");
  request.set_mode(v1::SetAttributesRequest::MERGE);
  for (PointId id : {70, 7, 50}) {
    v1::AttributeUpdate* update = request.add_updates();
    update->set_id(id);
    (*update->mutable_attributes())["a"].set_int_value(1);
  }
  v1::SetAttributesResponse response;
  absl::Status status = SetAttributes(request, &response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(response.updated(), 1);
  ASSERT_EQ(response.missing_size(), 2);
  EXPECT_EQ(response.missing(0), 70u);
  EXPECT_EQ(response.missing(1), 50u);

  request.clear_updates();
  v1::AttributeUpdate* update = request.add_updates();
  update->set_id(7);
  (*update->mutable_attributes())["b"].set_bool_value(true);
  ASSERT_TRUE(SetAttributes(request, &response).ok());
  EXPECT_EQ(Get(7).points(0).attributes_size(), 2);
  request.set_mode(v1::SetAttributesRequest::REPLACE);
  ASSERT_TRUE(SetAttributes(request, &response).ok());
  EXPECT_EQ(Get(7).points(0).attributes_size(), 1);

  request.clear_mode();
  EXPECT_EQ(FieldOf(SetAttributes(request, &response)), "mode");
}

TEST_F(WriteServiceTest, ADryRunOfADeleteOnlyCounts) {
  v1::UpsertResponse upserted;
  ASSERT_TRUE(Upsert(Forty(1), &upserted).ok());
  v1::DeleteRequest request;
  request.set_collection("c");
  auto* ids = request.mutable_filter()->add_must()->mutable_ids();
  for (PointId id = 1; id <= 10; ++id) ids->add_ids(id);
  request.set_dry_run(true);
  for (const bool dry_run : {true, true, false, false}) {
    request.set_dry_run(dry_run);
    grpc::ClientContext context;
    v1::DeleteResponse response;
    const absl::Status status =
        FromGrpcStatus(server_.points->Delete(&context, request, &response));
    ASSERT_TRUE(status.ok()) << status;
    const bool gone =
        cluster_.shard(0).points("c") + cluster_.shard(1).points("c") == 30;
    if (dry_run) {
      EXPECT_EQ(response.deleted(), 10);
    }
    EXPECT_EQ(gone, !dry_run);
  }
}

TEST_F(WriteServiceTest, APartialFailureSaysWhatWasAppliedAndCanBeRepeated) {
  cluster_.shard(1).FailOnce("Write", absl::UnavailableError("gone"));
  v1::UpsertResponse response;
  const absl::Status status = Upsert(Forty(1), &response);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 1);
  const auto outcome = OutcomeOf(status);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->parts.size(), 2u);
  EXPECT_EQ(outcome->parts[0].code, absl::StatusCode::kOk);
  EXPECT_EQ(outcome->parts[0].items, cluster_.shard(0).points("c"));
  EXPECT_FALSE(outcome->parts[0].slots.empty());
  EXPECT_EQ(outcome->parts[1].code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(outcome->parts[0].items + outcome->parts[1].items, 40);

  ASSERT_TRUE(Upsert(Forty(1), &response).ok());
  EXPECT_EQ(response.upserted(), outcome->parts[1].items);
  EXPECT_EQ(response.duplicates(), outcome->parts[0].items);
}

TEST_F(WriteServiceTest, ALateRepeatOfADeleteDeletesNothing) {
  v1::UpsertResponse upserted;
  ASSERT_TRUE(Upsert(Forty(1), &upserted).ok());
  v1::DeleteRequest request;
  request.set_collection("c");
  request.add_ids(3);
  request.mutable_request_id()->set_client_id("other");
  request.mutable_request_id()->set_sequence(1);
  v1::DeleteResponse response;
  grpc::ClientContext first;
  ASSERT_TRUE(server_.points->Delete(&first, request, &response).ok());
  EXPECT_EQ(response.deleted(), 1);
  ASSERT_TRUE(Upsert(Forty(2), &upserted).ok());
  grpc::ClientContext again;
  ASSERT_TRUE(server_.points->Delete(&again, request, &response).ok());
  EXPECT_EQ(response.deleted(), 0);
  EXPECT_EQ(response.duplicates(), 1);
  EXPECT_EQ(Get(3).points_size(), 1);
}

}  // namespace
}  // namespace coterie
