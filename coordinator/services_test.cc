#include "coordinator/services.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "api/grpc_status.h"
#include "api/status_details.h"
#include "api/v1/cluster.pb.h"
#include "api/v1/collections.pb.h"
#include "api/v1/points.pb.h"
#include "api/v1/search.pb.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/test_server.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

class ServicesTest : public ::testing::Test {
 protected:
  explicit ServicesTest(Limits limits = {})
      : limits_(limits),
        cluster_(2, {}, OptionsOf(limits)),
        server_(cluster_.coordinator.get(), limits) {
    EXPECT_TRUE(cluster_.Create("c", 2).ok());
  }

  static CoordinatorOptions OptionsOf(const Limits& limits) {
    CoordinatorOptions options;
    options.limits = limits;
    return options;
  }

  absl::Status Upsert(const v1::UpsertRequest& request) {
    grpc::ClientContext context;
    v1::UpsertResponse response;
    return FromGrpcStatus(server_.points->Upsert(&context, request, &response));
  }

  absl::Status Search(const v1::SearchRequest& request,
                      v1::SearchResponse* response) {
    grpc::ClientContext context;
    return FromGrpcStatus(server_.search->Search(&context, request, response));
  }

  absl::Status Search(const v1::SearchRequest& request) {
    v1::SearchResponse response;
    return Search(request, &response);
  }

  // Ids of all pages.
  absl::Status Scan(const v1::ScanRequest& request, std::vector<PointId>* ids,
                    int64_t* pages) {
    grpc::ClientContext context;
    auto reader = server_.points->Scan(&context, request);
    v1::ScanResponse page;
    while (reader->Read(&page)) {
      ++*pages;
      for (const v1::Point& point : page.points()) {
        ids->push_back(point.id());
      }
    }
    return FromGrpcStatus(reader->Finish());
  }

  Limits limits_;
  FakeCluster cluster_;
  TestServer server_;
};

TEST_F(ServicesTest, PointsGoInAndComeBackBySearchGetAndCount) {
  ASSERT_TRUE(Upsert(UpsertOf("c", {{0, 0}, {1, 0}, {5, 0}})).ok());

  v1::SearchRequest request = SearchOf("c", {0.9f, 0}, 2);
  v1::SearchResponse found;
  ASSERT_TRUE(Search(request, &found).ok());
  ASSERT_EQ(found.results_size(), 1);
  ASSERT_EQ(found.results(0).hits_size(), 2);
  EXPECT_EQ(found.results(0).hits(0).id(), 2u);
  EXPECT_EQ(found.results(0).hits(1).id(), 1u);
  EXPECT_TRUE(found.results(0).exact());
  EXPECT_EQ(found.coverage().shards_ok(), 2);
  EXPECT_FALSE(found.has_certificate());
  request.set_profile(true);
  ASSERT_TRUE(Search(request, &found).ok());
  EXPECT_EQ(found.certificate().shards_size(), 2);
  EXPECT_EQ(found.cost().messages(), 4);
  EXPECT_GT(found.profile().total_seconds(), 0);

  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("c");
  get.add_ids(3);
  get.add_ids(9);
  v1::GetResponse got;
  ASSERT_TRUE(server_.points->Get(&get_context, get, &got).ok());
  ASSERT_EQ(got.points_size(), 1);
  EXPECT_EQ(got.points(0).id(), 3u);
  EXPECT_EQ(got.missing(0), 9u);

  grpc::ClientContext delete_context;
  v1::DeleteRequest remove;
  remove.set_collection("c");
  remove.add_ids(3);
  v1::DeleteResponse removed;
  ASSERT_TRUE(server_.points->Delete(&delete_context, remove, &removed).ok());
  EXPECT_EQ(removed.deleted(), 1);

  grpc::ClientContext count_context;
  v1::CountRequest count;
  count.set_collection("c");
  v1::CountResponse counted;
  ASSERT_TRUE(server_.points->Count(&count_context, count, &counted).ok());
  EXPECT_EQ(counted.count(), 2);
}

TEST_F(ServicesTest, CollectionsAreMadeDescribedListedAndDropped) {
  grpc::ClientContext create_context;
  v1::CreateCollectionRequest create;
  create.mutable_collection()->set_name("made");
  create.mutable_collection()->set_dimension(3);
  create.mutable_collection()->set_metric(v1::COSINE);
  v1::CreateCollectionResponse created;
  ASSERT_TRUE(
      server_.collections->CreateCollection(&create_context, create, &created)
          .ok());
  EXPECT_EQ(created.collection().slots(), kDefaultSlots);

  grpc::ClientContext again_context;
  EXPECT_EQ(
      server_.collections->CreateCollection(&again_context, create, &created)
          .error_code(),
      grpc::StatusCode::ALREADY_EXISTS);

  ASSERT_TRUE(Upsert(UpsertOf("made", {{1, 0, 0}, {0, 1, 0}})).ok());
  grpc::ClientContext get_context;
  v1::GetCollectionRequest get;
  get.set_name("made");
  v1::GetCollectionResponse got;
  ASSERT_TRUE(server_.collections->GetCollection(&get_context, get, &got).ok());
  EXPECT_EQ(got.collection().dimension(), 3);
  EXPECT_EQ(got.stats().points(), 2);
  EXPECT_EQ(got.stats().shards_size(), 2);

  grpc::ClientContext list_context;
  v1::ListCollectionsResponse listed;
  ASSERT_TRUE(
      server_.collections->ListCollections(&list_context, {}, &listed).ok());
  ASSERT_EQ(listed.collections_size(), 2);
  EXPECT_EQ(listed.collections(0).name(), "c");
  EXPECT_EQ(listed.collections(1).name(), "made");

  grpc::ClientContext drop_context;
  v1::DeleteCollectionRequest drop;
  drop.set_name("made");
  v1::DeleteCollectionResponse dropped;
  ASSERT_TRUE(
      server_.collections->DeleteCollection(&drop_context, drop, &dropped)
          .ok());
  EXPECT_EQ(dropped.points_deleted(), 2);
  grpc::ClientContext gone_context;
  EXPECT_EQ(
      server_.collections->GetCollection(&gone_context, get, &got).error_code(),
      grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServicesTest, DescribeTellsOfShardsLimitsAndTheProcess) {
  cluster_.shard(1).Fail("Describe", absl::UnavailableError("gone"));
  grpc::ClientContext context;
  v1::DescribeResponse response;
  ASSERT_TRUE(server_.cluster->Describe(&context, {}, &response).ok());
  EXPECT_EQ(response.version(), "1.2.3");
  EXPECT_EQ(response.cluster_uuid(), "0f1e2d3c");
  EXPECT_EQ(response.map_version(), 1);
  EXPECT_NE(response.simd(), "");
  EXPECT_GT(response.uptime_seconds(), 0);
  EXPECT_EQ(static_cast<size_t>(response.limits_size()),
            limits_.Table().size());
  ASSERT_EQ(response.shards_size(), 2);
  EXPECT_EQ(response.shards(0).state(), v1::ShardDescription::SERVING);
  EXPECT_EQ(response.shards(1).state(), v1::ShardDescription::UNREACHABLE);
  EXPECT_THAT(response.shards(1).reason(), HasSubstr("gone"));
}

TEST_F(ServicesTest, BadInputIsNamedInTheDetails) {
  // Found by decoding.
  EXPECT_EQ(FieldOf(Search(SearchOf("c", {1, 2}, 0))), "k");
  EXPECT_EQ(FieldOf(Search(SearchOf("c", {1, NAN}, 1))),
            "queries[0].vector.values[1]")
      << Search(SearchOf("c", {1, NAN}, 1));
  // Found by the coordinator, which knows the dimension.
  absl::Status status = Search(SearchOf("c", {1, 2, 3}, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "queries[0].vector");
  status = Upsert(UpsertOf("c", {{1, 2}, {1, 2, 3}}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "points[1].vector");
  EXPECT_EQ(cluster_.shard(0).points("c") + cluster_.shard(1).points("c"), 0);
  // Unknown names.
  status = Search(SearchOf("nope", {1}, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"nope\""));
  grpc::ClientContext context;
  v1::CreateCollectionResponse created;
  EXPECT_EQ(server_.collections->CreateCollection(&context, {}, &created)
                .error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServicesTest, AFailingShardIsNamedInTheDetails) {
  cluster_.shard(1).Fail("Search",
                         Overloaded("queue full", absl::Milliseconds(40)));
  const absl::Status status = Search(SearchOf("c", {1, 2}, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ShardOf(status), 1);
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(40));

  v1::SearchRequest partial = SearchOf("c", {1, 2}, 1);
  partial.mutable_partial_policy()->mutable_allow();
  v1::SearchResponse response;
  ASSERT_TRUE(Search(partial, &response).ok());
  EXPECT_EQ(response.coverage().shards_ok(), 1);
  EXPECT_EQ(response.coverage().missing(0).shard_id(), 1);
  EXPECT_FALSE(response.results(0).exact());
}

TEST_F(ServicesTest, CallersWithoutADeadlineGetTheMethods) {
  const absl::Time before = absl::Now();
  ASSERT_TRUE(Search(SearchOf("c", {1, 2}, 1)).ok());
  ASSERT_TRUE(Upsert(UpsertOf("c", {{1, 2}})).ok());
  const absl::Time after = absl::Now();
  const absl::Duration slack = absl::Seconds(1);
  std::optional<absl::Time> write;
  for (int32_t i = 0; i < 2; ++i) {
    const absl::Time search = cluster_.shard(i).last_call("Search").deadline;
    EXPECT_GE(search, before + kSearchDeadline - slack);
    EXPECT_LE(search, after + kSearchDeadline);
    if (cluster_.shard(i).calls("Write") > 0) {
      write = cluster_.shard(i).last_call("Write").deadline;
    }
  }
  ASSERT_TRUE(write.has_value());
  EXPECT_GE(*write, before + kWriteDeadline - slack);
  EXPECT_LE(*write, after + kWriteDeadline);
}

TEST_F(ServicesTest, ACallersDeadlineReachesTheShards) {
  grpc::ClientContext context;
  const auto deadline =
      std::chrono::system_clock::now() + std::chrono::seconds(20);
  context.set_deadline(deadline);
  v1::SearchResponse response;
  ASSERT_TRUE(
      server_.search->Search(&context, SearchOf("c", {1, 2}, 1), &response)
          .ok());
  const absl::Time given = cluster_.shard(0).last_call("Search").deadline;
  // The header that carries it has three digits.
  EXPECT_LE(given, absl::FromChrono(deadline) + absl::Seconds(1));
  EXPECT_GE(given, absl::FromChrono(deadline) - absl::Seconds(1));
}

TEST_F(ServicesTest, ACancelledSearchStopsItsShardsAndIsForgotten) {
  cluster_.shard(0).Hold("Search");
  grpc::ClientContext context;
  grpc::Status status;
  std::thread caller([&] {
    v1::SearchResponse response;
    status =
        server_.search->Search(&context, SearchOf("c", {1, 2}, 1), &response);
  });
  WaitUntil([&] { return cluster_.shard(0).held() == 1; });
  context.TryCancel();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  const CallContext seen = cluster_.shard(0).last_call("Search");
  WaitUntil([&] { return seen.ShouldStop(); });
  WaitUntil([&] {
    return server_.records.Count("SearchService/Search",
                                 absl::StatusCode::kCancelled) == 1;
  });
  // The late reply finds nobody.
  cluster_.shard(0).Release();
  EXPECT_TRUE(Search(SearchOf("c", {1, 2}, 1)).ok());
}

TEST_F(ServicesTest, AShardThatNeverAnswersDoesNotHoldUpShutdown) {
  cluster_.shard(0).Hold("Search");
  cluster_.shard(1).Hold("Next");
  std::thread caller([&] {
    EXPECT_FALSE(Search(SearchOf("c", {1, 2}, 1)).ok());
  });
  std::thread scanner([&] {
    v1::ScanRequest request;
    request.set_collection("c");
    std::vector<PointId> ids;
    int64_t pages = 0;
    EXPECT_FALSE(Scan(request, &ids, &pages).ok());
  });
  WaitUntil([&] {
    return cluster_.shard(0).held() == 1 && cluster_.shard(1).held() == 1;
  });
  server_.Shutdown();
  caller.join();
  scanner.join();
  cluster_.shard(0).Release();
  cluster_.shard(1).Release();
}

TEST_F(ServicesTest, CancellationsAndRepliesRacingEndEveryCallOnce) {
  FakeShardClient::Options options;
  options.own_thread = true;
  FakeCluster threaded(2, options);
  ASSERT_TRUE(threaded.Create("c", 2).ok());
  TestServer server(threaded.coordinator.get(), {});
  constexpr int kCalls = 100;
  std::atomic<int> ended{0};
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    std::thread caller([&] {
      v1::SearchResponse response;
      const grpc::Status status =
          server.search->Search(&context, SearchOf("c", {1, 2}, 1), &response);
      EXPECT_TRUE(status.ok() ||
                  status.error_code() == grpc::StatusCode::CANCELLED);
      ++ended;
    });
    if (i % 2 == 0) {
      WaitUntil([&] { return threaded.shard(0).calls("Search") > i / 2; });
    }
    context.TryCancel();
    caller.join();
  }
  EXPECT_EQ(ended, kCalls);
}

TEST_F(ServicesTest, EveryRpcIsRecordedAsItEnds) {
  ASSERT_TRUE(Upsert(UpsertOf("c", {{1, 2}})).ok());
  ASSERT_FALSE(Upsert(UpsertOf("c", {{1, 2, 3}})).ok());
  ASSERT_FALSE(Search(SearchOf("nope", {1}, 1)).ok());
  std::vector<PointId> ids;
  int64_t pages = 0;
  v1::ScanRequest scan;
  scan.set_collection("c");
  ASSERT_TRUE(Scan(scan, &ids, &pages).ok());
  Records& records = server_.records;
  EXPECT_EQ(records.Count("PointService/Upsert", absl::StatusCode::kOk), 1);
  EXPECT_EQ(
      records.Count("PointService/Upsert", absl::StatusCode::kInvalidArgument),
      1);
  EXPECT_EQ(records.Count("SearchService/Search", absl::StatusCode::kNotFound),
            1);
  EXPECT_EQ(records.Count("PointService/Scan", absl::StatusCode::kOk), 1);
}

TEST_F(ServicesTest, ScanStreamsEverything) {
  std::vector<std::vector<float>> vectors(25, {1, 2});
  ASSERT_TRUE(Upsert(UpsertOf("c", vectors)).ok());
  v1::ScanRequest request;
  request.set_collection("c");
  std::vector<PointId> ids;
  int64_t pages = 0;
  ASSERT_TRUE(Scan(request, &ids, &pages).ok());
  std::sort(ids.begin(), ids.end());
  ASSERT_EQ(ids.size(), 25u);
  EXPECT_EQ(ids.front(), 1u);
  EXPECT_EQ(ids.back(), 25u);
  EXPECT_GT(pages, 2);
}

TEST_F(ServicesTest, ScanOfNothingIsOkWithoutPages) {
  v1::ScanRequest request;
  request.set_collection("c");
  std::vector<PointId> ids;
  int64_t pages = 0;
  EXPECT_TRUE(Scan(request, &ids, &pages).ok());
  EXPECT_EQ(pages, 0);
}

TEST_F(ServicesTest, ScanErrorsAreStatuses) {
  std::vector<PointId> ids;
  int64_t pages = 0;
  v1::ScanRequest request;
  request.set_collection("nope");
  EXPECT_EQ(Scan(request, &ids, &pages).code(), absl::StatusCode::kNotFound);
  request.set_collection("c");
  request.set_slice(-1);
  EXPECT_EQ(Scan(request, &ids, &pages).code(),
            absl::StatusCode::kInvalidArgument);
  request.set_slice(0);
  cluster_.shard(1).Fail("Next", absl::DataLossError("checksum"));
  const absl::Status status = Scan(request, &ids, &pages);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ShardOf(status), 1);
}

// Small messages, so that replies outgrow the limit.
class SmallMessagesTest : public ServicesTest {
 protected:
  SmallMessagesTest() : ServicesTest(Small()) {}
  static Limits Small() {
    Limits limits;
    limits.message_bytes = 300;
    return limits;
  }
};

TEST_F(SmallMessagesTest, AReplyOverTheLimitIsRefusedNamingIt) {
  std::vector<std::vector<float>> vectors(50, {1, 2});
  ASSERT_TRUE(Upsert(UpsertOf("c", vectors)).ok());
  EXPECT_TRUE(Search(SearchOf("c", {1, 2}, 5)).ok());
  absl::Status status = Search(SearchOf("c", {1, 2}, 50));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("over the limit message_bytes of 300"));

  grpc::ClientContext context;
  v1::GetRequest get;
  get.set_collection("c");
  get.set_with_vectors(true);
  for (PointId id = 1; id <= 50; ++id) {
    get.add_ids(id);
  }
  v1::GetResponse got;
  status = FromGrpcStatus(server_.points->Get(&context, get, &got));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("message_bytes"));
}

TEST_F(SmallMessagesTest, AScanPageOverTheLimitIsRefusedNamingIt) {
  ASSERT_TRUE(cluster_.Create("wide", 100).ok());
  ASSERT_TRUE(Upsert(UpsertOf("wide", {std::vector<float>(100, 1.0f)})).ok());
  v1::ScanRequest request;
  request.set_collection("wide");
  request.set_with_vectors(true);
  std::vector<PointId> ids;
  int64_t pages = 0;
  const absl::Status status = Scan(request, &ids, &pages);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("message_bytes"));
}

}  // namespace
}  // namespace coterie
