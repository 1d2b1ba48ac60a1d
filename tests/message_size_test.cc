// Requests and replies on either side of gRPC's own limit of 4 MiB, and over
// ours, through a coordinator and two shards that are processes: all within the
// limit pass every hop, and what is over it is refused at once, naming it.

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/grpc_status.h"
#include "api/v1/collections.grpc.pb.h"
#include "api/v1/points.grpc.pb.h"
#include "api/v1/search.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server_process.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

// As the documentation has clients set it.
constexpr int kMessageBytes = 16 << 20;

class MessageSize : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const std::vector<std::string>& flags) {
    const std::string folder = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::string shards;
    for (int i = 0; i < 2; ++i) {
      shards_[i] = std::make_unique<ServerProcess>(
          absl::StrCat(folder, "-", i),
          With(flags, {"--role=shard", absl::StrCat("--shard_id=", i),
                       "--shards_total=2", "--cluster=test"}));
      ASSERT_FALSE(shards_[i]->address().empty());
      absl::StrAppend(&shards, i == 0 ? "" : ",", shards_[i]->address());
    }
    coordinator_ = std::make_unique<ServerProcess>(
        folder, With(flags, {"--role=coordinator", "--shards=" + shards}));
    ASSERT_FALSE(coordinator_->address().empty());
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMessageBytes);
    const auto channel = grpc::CreateCustomChannel(
        coordinator_->address(), grpc::InsecureChannelCredentials(), arguments);
    collections_ = v1::CollectionService::NewStub(channel);
    points_ = v1::PointService::NewStub(channel);
    search_ = v1::SearchService::NewStub(channel);
  }

  static std::vector<std::string> With(std::vector<std::string> flags,
                                       const std::vector<std::string>& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }

  void Create(int dimension) {
    v1::CreateCollectionRequest request;
    request.mutable_collection()->set_name("c");
    request.mutable_collection()->set_dimension(dimension);
    request.mutable_collection()->set_metric(v1::SQUARED_L2);
    v1::CreateCollectionResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(
        collections_->CreateCollection(&context, request, &response).ok());
  }

  // Points first, first + 1, ...; point i is (i, i, ...).
  absl::Status Upsert(int64_t first, int64_t count, int dimension) {
    v1::UpsertRequest request;
    request.set_collection("c");
    for (int64_t id = first; id < first + count; ++id) {
      v1::Point* point = request.add_points();
      point->set_id(static_cast<uint64_t>(id));
      point->mutable_vector()->mutable_values()->mutable_values()->Resize(
          dimension, static_cast<float>(id));
    }
    v1::UpsertResponse response;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
    return FromGrpcStatus(points_->Upsert(&context, request, &response));
  }

  int64_t Count() {
    v1::CountRequest request;
    request.set_collection("c");
    v1::CountResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(points_->Count(&context, request, &response).ok());
    return response.count();
  }

  // Query i is (i, i, ...), so point i is the nearest.
  absl::Status Search(int queries, int k, int dimension, bool with_vectors,
                      v1::SearchResponse* response) {
    v1::SearchRequest request;
    request.set_collection("c");
    request.set_k(k);
    request.set_with_vectors(with_vectors);
    for (int i = 0; i < queries; ++i) {
      request.add_queries()
          ->mutable_vector()
          ->mutable_values()
          ->mutable_values()
          ->Resize(dimension, static_cast<float>(i));
    }
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
    return FromGrpcStatus(search_->Search(&context, request, response));
  }

  static constexpr absl::Duration kDeadline = absl::Seconds(20);

  std::unique_ptr<ServerProcess> shards_[2];
  std::unique_ptr<ServerProcess> coordinator_;
  std::unique_ptr<v1::CollectionService::Stub> collections_;
  std::unique_ptr<v1::PointService::Stub> points_;
  std::unique_ptr<v1::SearchService::Stub> search_;
};

TEST_F(MessageSize, OfUpsertsIsStoredOrRefusedAtOnce) {
  constexpr int kDimension = 1536;
  Create(kDimension);
  int64_t stored = 0;
  // 670 points are under 4 MiB, 683 over.
  for (const int64_t count : {500, 670, 683, 2000}) {
    const absl::Status status = Upsert(stored, count, kDimension);
    ASSERT_TRUE(status.ok()) << count << ": " << status;
    stored += count;
    EXPECT_EQ(Count(), stored);
  }
  for (const int64_t count : {2731, 10000}) {
    const absl::Time begin = absl::Now();
    const absl::Status status = Upsert(stored, count, kDimension);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << count << ": " << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(kMessageBytes)));
    EXPECT_LT(absl::Now() - begin, kDeadline / 2);
    EXPECT_EQ(Count(), stored);
  }
  EXPECT_TRUE(Upsert(stored, 1, kDimension).ok());
  EXPECT_EQ(Count(), stored + 1);
}

TEST_F(MessageSize, OfSearchesAndRepliesMayPassFourMebibytes) {
  constexpr int kDimension = 512;
  constexpr int kPoints = 4200;
  Create(kDimension);
  ASSERT_TRUE(Upsert(0, kPoints / 2, kDimension).ok());
  ASSERT_TRUE(Upsert(kPoints / 2, kPoints / 2, kDimension).ok());
  v1::SearchResponse response;
  // 2,000 queries are under 4 MiB, 2,100 over.
  for (const int queries : {2000, 2100}) {
    const absl::Status status =
        Search(queries, 1, kDimension, /*with_vectors=*/false, &response);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(response.results_size(), queries);
    EXPECT_EQ(response.results(queries - 1).hits(0).id(),
              static_cast<uint64_t>(queries - 1));
  }
  // Over 4 MiB from each shard, and together.
  const absl::Status status =
      Search(1, kPoints, kDimension, /*with_vectors=*/true, &response);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(response.results(0).hits_size(), kPoints);
  EXPECT_GT(response.ByteSizeLong(), size_t{8} << 20);
  const absl::Status over =
      Search(2, kPoints, kDimension, /*with_vectors=*/true, &response);
  EXPECT_TRUE(absl::IsResourceExhausted(over)) << over;
  EXPECT_THAT(std::string(over.message()),
              HasSubstr(absl::StrCat(kMessageBytes)));
}

// The largest that can be set: no hop adds to it and wraps.
class LargestMessageSize : public MessageSize {
 protected:
  void SetUp() override { Start({"--max_message_bytes=2147483647"}); }
};

TEST_F(LargestMessageSize, TakesSmallCallsAndLargeOnes) {
  Create(1536);
  EXPECT_TRUE(Upsert(0, 1, 1536).ok());
  EXPECT_TRUE(Upsert(1, 4096, 1536).ok());
  EXPECT_EQ(Count(), 4097);
  v1::SearchResponse response;
  const absl::Status status =
      Search(1, 1, 1536, /*with_vectors=*/true, &response);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace coterie
