// A whole server in this process, called over gRPC as a stranger would.

#include <grpcpp/grpcpp.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/grpc_status.h"
#include "api/status_details.h"
#include "api/v1/cluster.grpc.pb.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/server.h"
#include "tests/health_client.h"
#include "tests/model.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AllInOne : public testing::Test {
 protected:
  void SetUp() override {
    options_.listen = "127.0.0.1:0";
    options_.http = "";
    options_.data_dir =
        testing::TempDir() + "/" +
        testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.data_dir);
    Start();
  }

  void Start() {
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->AwaitServing().ok());
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(16 << 20);
    channel_ = grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), arguments);
    collections_ = v1::CollectionService::NewStub(channel_);
    points_ = v1::PointService::NewStub(channel_);
    search_ = v1::SearchService::NewStub(channel_);
    cluster_ = v1::ClusterService::NewStub(channel_);
  }

  absl::Status Create(const std::string& name, int dimension,
                      v1::Metric metric) {
    v1::CreateCollectionRequest request;
    request.mutable_collection()->set_name(name);
    request.mutable_collection()->set_dimension(dimension);
    request.mutable_collection()->set_metric(metric);
    v1::CreateCollectionResponse reply;
    grpc::ClientContext context;
    return FromGrpcStatus(
        collections_->CreateCollection(&context, request, &reply));
  }

  absl::Status Upsert(
      const std::string& name,
      const std::vector<std::pair<PointId, std::vector<float>>>& rows) {
    v1::UpsertRequest request;
    request.set_collection(name);
    for (const auto& [id, row] : rows) {
      v1::Point* point = request.add_points();
      point->set_id(id);
      point->mutable_vector()->mutable_values()->mutable_values()->Add(
          row.begin(), row.end());
    }
    v1::UpsertResponse reply;
    grpc::ClientContext context;
    return FromGrpcStatus(points_->Upsert(&context, request, &reply));
  }

  static v1::SearchRequest Query(const std::string& name,
                                 const std::vector<float>& query, int k) {
    v1::SearchRequest request;
    request.set_collection(name);
    request.add_queries()
        ->mutable_vector()
        ->mutable_values()
        ->mutable_values()
        ->Add(query.begin(), query.end());
    request.set_k(k);
    return request;
  }

  absl::StatusOr<v1::SearchResponse> Search(const v1::SearchRequest& request) {
    v1::SearchResponse reply;
    grpc::ClientContext context;
    const absl::Status status =
        FromGrpcStatus(search_->Search(&context, request, &reply));
    if (!status.ok()) return status;
    return reply;
  }

  std::vector<PointId> Ids(const std::string& name,
                           const std::vector<float>& query, int k) {
    auto reply = Search(Query(name, query, k));
    EXPECT_TRUE(reply.ok()) << reply.status();
    std::vector<PointId> ids;
    if (reply.ok()) {
      for (const v1::Hit& hit : reply->results(0).hits()) {
        ids.push_back(hit.id());
      }
    }
    return ids;
  }

  int64_t Count(const std::string& name) {
    v1::CountRequest request;
    request.set_collection(name);
    v1::CountResponse reply;
    grpc::ClientContext context;
    const grpc::Status status = points_->Count(&context, request, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.count();
  }

  // Refused with INVALID_ARGUMENT that mentions `what`, and still SERVING.
  void ExpectInvalid(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  }

  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::CollectionService::Stub> collections_;
  std::unique_ptr<v1::PointService::Stub> points_;
  std::unique_ptr<v1::SearchService::Stub> search_;
  std::unique_ptr<v1::ClusterService::Stub> cluster_;
};

TEST_F(AllInOne, AnswersAndRemembersAcrossARestart) {
  ASSERT_TRUE(Create("c", 2, v1::SQUARED_L2).ok());
  ASSERT_TRUE(
      Upsert("c", {{100, {0, 0}}, {101, {1, 0}}, {200, {2, 0}}, {201, {3, 0}}})
          .ok());
  // Tied at distance 1: ascending id (faiss#2370 returned positions).
  EXPECT_THAT(Ids("c", {2, 0}, 2), ElementsAre(200, 101));
  server_.reset();
  Start();
  EXPECT_THAT(Ids("c", {2, 0}, 2), ElementsAre(200, 101));
  EXPECT_EQ(Count("c"), 4);
}

TEST_F(AllInOne, ShortListsWhenFewerPointsThanK) {
  // faiss#2657, chroma#301: no filler ids, no error.
  ASSERT_TRUE(Create("c", 2, v1::SQUARED_L2).ok());
  ASSERT_TRUE(Upsert("c", {{10, {1, 0}}, {20, {2, 0}}, {30, {3, 0}}}).ok());
  for (const int k : {3, 4, 10, 10000}) {
    EXPECT_THAT(Ids("c", {0, 0}, k), ElementsAre(10, 20, 30));
  }
  ExpectInvalid(Search(Query("c", {0, 0}, 0)).status(), "k");
  ExpectInvalid(Search(Query("c", {0, 0}, -5)).status(), "k");
  ExpectInvalid(Search(Query("c", {0, 0}, 10001)).status(), "10000");
  ExpectInvalid(
      Search(Query("c", {0, 0}, std::numeric_limits<int>::max())).status(),
      "10000");
}

TEST_F(AllInOne, NearestPerNodeIsCutOnceGlobally) {
  // vespa#33878: k hits leave, not k per shard.
  ASSERT_TRUE(Create("c", 1, v1::SQUARED_L2).ok());
  std::vector<std::pair<PointId, std::vector<float>>> rows;
  for (PointId id = 0; id < 200; ++id) {
    rows.push_back({id, {static_cast<float>(id)}});
  }
  ASSERT_TRUE(Upsert("c", rows).ok());
  EXPECT_THAT(Ids("c", {0}, 7), ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Ids("c", {0}, 1), ElementsAre(0));
}

TEST_F(AllInOne, InnerProductRanksByLargestProduct) {
  // serenedb#1037 and milvus#1806: negative scores count, order is global.
  ASSERT_TRUE(Create("c", 2, v1::INNER_PRODUCT).ok());
  ASSERT_TRUE(Upsert("c", {{1, {-1, 0}}, {2, {-3, 0}}, {3, {0, 1}}}).ok());
  EXPECT_THAT(Ids("c", {1, 0}, 2), ElementsAre(3, 1));
  EXPECT_THAT(Ids("c", {1, 0}, 3), ElementsAre(3, 1, 2));
  const auto reply = Search(Query("c", {1, 0}, 3));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->results(0).hits(0).distance(), 0.0);
  EXPECT_FALSE(std::signbit(reply->results(0).hits(0).distance()));
  EXPECT_EQ(reply->results(0).hits(2).distance(), 3.0);
}

TEST_F(AllInOne, CloseFloatsKeepTheirOrderAndDistance) {
  // faiss#297 and scikit-learn#9354: no cancellation.
  ASSERT_TRUE(Create("a", 2, v1::SQUARED_L2).ok());
  ASSERT_TRUE(Upsert("a", {{1, {881.5f, 742.8f}}}).ok());
  v1::SearchRequest request = Query("a", {881.6f, 742.8f}, 1);
  while (request.queries_size() < 32) {
    *request.add_queries() = request.queries(0);
  }
  const auto reply = Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  for (const auto& result : reply->results()) {
    EXPECT_NEAR(result.hits(0).distance(), 0.0099951, 0.0099951e-4);
  }
  ASSERT_TRUE(Create("b", 1, v1::SQUARED_L2).ok());
  ASSERT_TRUE(Upsert("b", {{1, {2000.55f}}, {2, {1999.35f}}}).ok());
  EXPECT_THAT(Ids("b", {2000}, 1), ElementsAre(1));
}

TEST_F(AllInOne, HugeFiniteValuesHaveANearestPoint) {
  // matrixone#28881: float32 would overflow to infinity for both.
  ASSERT_TRUE(Create("c", 1, v1::SQUARED_L2).ok());
  ASSERT_TRUE(Upsert("c", {{7, {-2e19f}}, {8, {-3e19f}}}).ok());
  EXPECT_THAT(Ids("c", {2e19f}, 1), ElementsAre(7));
  const auto reply = Search(Query("c", {2e19f}, 2));
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(std::isfinite(reply->results(0).hits(1).distance()));
}

TEST_F(AllInOne, IdsKeepAll64Bits) {
  // qdrant#5071: two neighbours above 2^53, and both ends.
  const PointId a = 9007199254740993;
  const PointId b = 9007199254740992;
  const PointId last = ~PointId{0};
  ASSERT_TRUE(Create("c", 1, v1::SQUARED_L2).ok());
  ASSERT_TRUE(Upsert("c", {{a, {1}}, {b, {2}}, {0, {3}}, {last, {4}}}).ok());
  EXPECT_THAT(Ids("c", {1}, 4), ElementsAre(a, b, 0, last));
  EXPECT_THAT(Ids("c", {2}, 1), ElementsAre(b));
  v1::GetRequest get;
  get.set_collection("c");
  get.set_with_vectors(true);
  get.add_ids(b);
  get.add_ids(a);
  v1::GetResponse got;
  grpc::ClientContext getting;
  ASSERT_TRUE(points_->Get(&getting, get, &got).ok());
  ASSERT_EQ(got.points_size(), 2);
  EXPECT_EQ(got.points(0).id(), b);
  EXPECT_EQ(got.points(1).id(), a);
  EXPECT_NE(got.points(0).vector().packed().data(),
            got.points(1).vector().packed().data());
  std::vector<PointId> left = {a, b, 0, last};
  for (const PointId id : {a, b}) {
    v1::DeleteRequest request;
    request.set_collection("c");
    request.add_ids(id);
    v1::DeleteResponse deleted;
    grpc::ClientContext context;
    ASSERT_TRUE(points_->Delete(&context, request, &deleted).ok());
    EXPECT_EQ(deleted.deleted(), 1);
    left.erase(left.begin());
    EXPECT_EQ(Ids("c", {1}, 4), left);
  }
}

TEST_F(AllInOne, ReAddedPointsAppearWithTheirNewVectorOnly) {
  // hnswlib#309.
  ASSERT_TRUE(Create("c", 2, v1::SQUARED_L2).ok());
  ASSERT_TRUE(Upsert("c", {{3, {1, 1}}}).ok());
  v1::DeleteRequest request;
  request.set_collection("c");
  request.add_ids(3);
  v1::DeleteResponse deleted;
  grpc::ClientContext context;
  ASSERT_TRUE(points_->Delete(&context, request, &deleted).ok());
  EXPECT_THAT(Ids("c", {1, 1}, 5), IsEmpty());
  ASSERT_TRUE(Upsert("c", {{3, {2, 2}}}).ok());
  const auto reply = Search(Query("c", {2, 2}, 5));
  ASSERT_TRUE(reply.ok());
  ASSERT_EQ(reply->results(0).hits_size(), 1);
  EXPECT_EQ(reply->results(0).hits(0).distance(), 0);
  EXPECT_EQ(Count("c"), 1);
}

TEST_F(AllInOne, BadVectorsAreRefusedWholeAndNamed) {
  // milvus#22737: nothing of the batch is stored.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(Create("c", 2, v1::SQUARED_L2).ok());
  ExpectInvalid(Upsert("c", {{1, {1, 2}}, {2, {nan, 1}}, {3, {inf, 0}}}),
                "points[1]");
  ExpectInvalid(Upsert("c", {{1, {1, 2}}, {2, {0, -inf}}}), "points[1]");
  ExpectInvalid(Upsert("c", {{1, {1, 2}}, {2, {1, 2, 3}}}), "points[1]");
  ExpectInvalid(Upsert("c", {{70, {0, 0}}, {8, {1, 1}}, {70, {9, 9}}}), "70");
  ExpectInvalid(Upsert("c", {}), "points");
  EXPECT_EQ(Count("c"), 0);
  EXPECT_THAT(Ids("c", {1, 2}, 5), IsEmpty());
  ExpectInvalid(Search(Query("c", {nan, 0}, 1)).status(), "queries[0]");
  ExpectInvalid(Search(Query("c", {inf, 0}, 1)).status(), "queries[0]");
  ExpectInvalid(Search(Query("c", {1}, 1)).status(), "queries[0]");
}

TEST_F(AllInOne, ZeroVectorsUnderCosineAreRefusedEverywhere) {
  // qdrant#4654.
  ASSERT_TRUE(Create("c", 3, v1::COSINE).ok());
  ExpectInvalid(Upsert("c", {{2, {1, 0, 0}}, {1, {0, 0, 0}}}), "points[1]");
  ExpectInvalid(Upsert("c", {{1, {0, -0.f, 0}}}), "points[0]");
  ASSERT_TRUE(Upsert("c", {{2, {1, 0, 0}}, {3, {0, 1, 0}}}).ok());
  EXPECT_THAT(Ids("c", {1, 0, 0}, 3), ElementsAre(2, 3));
  ExpectInvalid(Search(Query("c", {0, 0, 0}, 3)).status(), "queries[0]");
}

TEST_F(AllInOne, UnspecifiedMetricOddNamesAndUnknownCollections) {
  ExpectInvalid(Create("c", 2, v1::METRIC_UNSPECIFIED), "metric");
  ExpectInvalid(Create("", 2, v1::COSINE), "name");
  ExpectInvalid(Create("../up", 2, v1::COSINE), "name");
  ExpectInvalid(Create(std::string(129, 'x'), 2, v1::COSINE), "name");
  ExpectInvalid(Create("c", 0, v1::COSINE), "dimension");
  ExpectInvalid(Create("c", 16385, v1::COSINE), "16384");
  ASSERT_TRUE(Create("c", 2, v1::COSINE).ok());
  EXPECT_EQ(Create("c", 2, v1::COSINE).code(),
            absl::StatusCode::kAlreadyExists);
  const absl::Status missing = Search(Query("nope", {1, 0}, 1)).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nope"));
  EXPECT_EQ(Upsert("nope", {{1, {1, 0}}}).code(), absl::StatusCode::kNotFound);
}

TEST_F(AllInOne, FieldViolationsTravelInTheDetails) {
  const absl::Status status = Create("c", -3, v1::COSINE);
  ASSERT_TRUE(FieldOf(status).has_value());
  EXPECT_THAT(*FieldOf(status), HasSubstr("dimension"));
}

TEST_F(AllInOne, OneQueryAnswersAlikeInEveryBatchSize) {
  // faiss#563: the same bytes in batches of 1, 5, 20, 32, 256.
  std::mt19937_64 random(11);
  std::uniform_real_distribution<float> uniform(1000, 1001);
  ASSERT_TRUE(Create("c", 64, v1::SQUARED_L2).ok());
  std::vector<std::pair<PointId, std::vector<float>>> rows;
  for (PointId id = 0; id < 1000; ++id) {
    std::vector<float> row(64);
    for (float& x : row) x = uniform(random);
    rows.push_back({id, row});
  }
  ASSERT_TRUE(Upsert("c", rows).ok());
  std::string first;
  for (const int batch : {1, 5, 20, 32, 256}) {
    v1::SearchRequest request = Query("c", rows[0].second, 10);
    for (int i = 1; i < batch; ++i) {
      *request.add_queries() =
          Query("c", rows[static_cast<size_t>(i)].second, 1).queries(0);
    }
    const auto reply = Search(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    const std::string bytes = reply->results(0).SerializeAsString();
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes, first) << "batch " << batch;
  }
}

TEST_F(AllInOne, PackedAndWrittenVectorsMeanTheSame) {
  ASSERT_TRUE(Create("c", 3, v1::SQUARED_L2).ok());
  v1::UpsertRequest request;
  request.set_collection("c");
  const std::vector<float> row = {1.5f, -2.25f, 3e-5f};
  v1::Point* point = request.add_points();
  point->set_id(5);
  point->mutable_vector()->mutable_packed()->set_dtype(v1::F32);
  point->mutable_vector()->mutable_packed()->set_data(
      reinterpret_cast<const char*>(row.data()), 12);
  v1::UpsertResponse upserted;
  grpc::ClientContext context;
  ASSERT_TRUE(points_->Upsert(&context, request, &upserted).ok());
  v1::SearchRequest search = Query("c", row, 1);
  search.set_with_vectors(true);
  const auto reply = Search(search);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->results(0).hits(0).distance(), 0);
  EXPECT_EQ(reply->results(0).hits(0).vector().packed().data(),
            request.points(0).vector().packed().data());
}

TEST_F(AllInOne, HealthFollowsTheServiceAndUnknownNamesAreNotFound) {
  // grpc#27839.
  EXPECT_EQ(CheckHealth(channel_, ""), "SERVING");
  for (const char* service :
       {"CollectionService", "PointService", "SearchService"}) {
    EXPECT_EQ(CheckHealth(channel_, absl::StrCat("coterie.v1.", service)),
              "SERVING");
  }
  EXPECT_EQ(CheckHealth(channel_, "shard/3"), "SERVING");
  EXPECT_EQ(CheckHealth(channel_, "shard/4"), "NOT_FOUND");
  EXPECT_EQ(CheckHealth(channel_, "nope"), "NOT_FOUND");
}

TEST_F(AllInOne, DescribeNamesShardsAndLimits) {
  v1::DescribeResponse reply;
  grpc::ClientContext context;
  ASSERT_TRUE(cluster_->Describe(&context, {}, &reply).ok());
  EXPECT_EQ(reply.shards_size(), 4);
  EXPECT_EQ(reply.cluster_uuid().size(), 36u);
  EXPECT_FALSE(reply.simd().empty());
  EXPECT_GT(reply.limits_size(), 10);
  for (const auto& shard : reply.shards()) {
    EXPECT_EQ(shard.state(), v1::ShardDescription::SERVING);
    EXPECT_EQ(shard.incarnation(), 1);
  }
}

TEST_F(AllInOne, OneMessageLimitHoldsBothWaysAndNamesItself) {
  // qdrant-client#171: over 4 MiB passes, over 16 MiB says so at once.
  ASSERT_TRUE(Create("c", 512, v1::SQUARED_L2).ok());
  std::vector<std::pair<PointId, std::vector<float>>> rows;
  for (PointId id = 0; id < 2100; ++id) {
    rows.push_back({id, std::vector<float>(512, static_cast<float>(id))});
  }
  ASSERT_TRUE(Upsert("c", rows).ok());
  v1::SearchRequest request = Query("c", rows[0].second, 2100);
  request.set_with_vectors(true);
  const auto reply = Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->results(0).hits_size(), 2100);
  for (int i = 0; i < 4; ++i) *request.add_queries() = request.queries(0);
  const absl::Status over = Search(request).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted) << over;
  EXPECT_THAT(std::string(over.message()), HasSubstr("16777216"));
  EXPECT_THAT(Ids("c", rows[3].second, 1), ElementsAre(3));
}

TEST_F(AllInOne, SecondServerOnTheSameAddressOrFolderIsRefused) {
  ServerOptions other = options_;
  EXPECT_EQ(Server::Start(other).status().code(), absl::StatusCode::kAborted);
  other.data_dir += "-other";
  other.listen = server_->address();
  const auto second = Server::Start(other);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr(server_->address()));
}

TEST_F(AllInOne, ShutdownIsBoundedWithCallsOpen) {
  // grpc#39114: a stream whose reader has stopped does not hold the server.
  options_.drain = absl::Seconds(1);
  server_.reset();
  Start();
  ASSERT_TRUE(Create("c", 1024, v1::SQUARED_L2).ok());
  // 96 MiB: more than gRPC buffers on the way to a reader who waits.
  for (PointId first = 0; first < 24576; first += 3072) {
    std::vector<std::pair<PointId, std::vector<float>>> rows;
    for (PointId id = first; id < first + 3072; ++id) {
      rows.push_back({id, std::vector<float>(1024, static_cast<float>(id))});
    }
    ASSERT_TRUE(Upsert("c", rows).ok());
  }
  grpc::ClientContext context;
  v1::ScanRequest scan;
  scan.set_collection("c");
  scan.set_with_vectors(true);
  auto reader = points_->Scan(&context, scan);
  v1::ScanResponse page;
  ASSERT_TRUE(reader->Read(&page));
  const absl::Time begin = absl::Now();
  server_->Shutdown();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(20));
  while (reader->Read(&page)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

TEST_F(AllInOne, IndexesAndStrategiesAreOfferedOverTheWire) {
  v1::CreateCollectionRequest request;
  v1::Collection* const collection = request.mutable_collection();
  collection->set_name("i");
  collection->set_dimension(2);
  collection->set_metric(v1::SQUARED_L2);
  collection->add_indexes()->mutable_tree();
  grpc::ClientContext context;
  v1::CreateCollectionResponse made;
  EXPECT_TRUE(collections_->CreateCollection(&context, request, &made).ok());
  ASSERT_TRUE(Upsert("i", {{1, {0, 0}}, {2, {3, 0}}}).ok());
  auto search = Query("i", {1, 0}, 2);
  search.set_profile(true);
  search.set_measure_recall(true);
  search.mutable_tree()->set_target_recall(0.5);
  auto reply = Search(search);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->results(0).recall(), 1);
  EXPECT_THAT(reply->profile().shards(0).plan(), HasSubstr("has a tree yet"));
  search.mutable_auto_();
  reply = Search(search);
  EXPECT_THAT(reply->profile().shards(0).plan(), HasSubstr("auto, predicted"));
  search.mutable_lsh();
  EXPECT_TRUE(absl::IsFailedPrecondition(Search(search).status()));
}

}  // namespace
}  // namespace coterie
