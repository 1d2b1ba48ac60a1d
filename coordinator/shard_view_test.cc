// A coordinator over one shard of a larger cluster: reads of its rows, nothing
// else, under the shard's own name.

#include "coordinator/shard_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kShard = 2;

// Ids 1 and 2 on shard 2; 3 on shard 0; 4 on shard 1.
class ShardViewTest : public testing::Test {
 protected:
  ShardViewTest() : cluster_(3, {}, Placed()) {
    EXPECT_TRUE(cluster_.Create("c", 1, Metric::kSquaredL2, 1024).ok());
    EXPECT_TRUE(cluster_
                    .Upsert("c", {MakePoint(1, {1}), MakePoint(2, {2}),
                                  MakePoint(3, {3}), MakePoint(4, {4})})
                    .ok());
    CoordinatorOptions options;
    options.shard_view = true;
    auto view = Coordinator::Create({cluster_.clients()[kShard]}, options);
    EXPECT_TRUE(view.ok()) << view.status();
    view_ = *std::move(view);
  }

  static CoordinatorOptions Placed() {
    CoordinatorOptions options;
    options.placement = [](int32_t slots, int32_t) {
      return PlacementOf({{1, 2}, {2, 2}, {3, 0}, {4, 1}}, slots);
    };
    return options;
  }

  absl::StatusOr<SearchReply> Search(SearchRequest request) {
    return Wait<SearchReply>([&](Done<SearchReply> done) {
      view_->Search(std::move(request), {}, std::move(done));
    });
  }
  absl::StatusOr<GetReply> Get(std::vector<PointId> ids) {
    GetRequest request;
    request.collection = "c";
    request.ids = std::move(ids);
    return Wait<GetReply>([&](Done<GetReply> done) {
      view_->Get(std::move(request), {}, std::move(done));
    });
  }

  FakeCluster cluster_;
  std::unique_ptr<Coordinator> view_;
};

TEST_F(ShardViewTest, SearchesItsRowsAndCertifiesThem) {
  const auto reply = Search(Nearest("c", {3}, 10));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(IdsOf(*reply), ElementsAre(2, 1));
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  ASSERT_EQ(reply->certificate.shards.size(), 1u);
  EXPECT_EQ(reply->certificate.shards[0].shard_id, kShard);
  EXPECT_EQ(reply->shard_times[0].first, kShard);
}

TEST_F(ShardViewTest, ASlotOfItsOwnThatItDoesNotReportWithholdsTheCertificate) {
  cluster_.shard(kShard).EditSearches([](ShardSearchReply* reply) {
    ASSERT_FALSE(reply->slots.empty());
    reply->rows_live -= reply->slots.back().rows;
    reply->slots.pop_back();
  });
  const auto reply = Search(Nearest("c", {3}, 10));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->results[0].exact);
}

TEST_F(ShardViewTest, AnIdThatLivesElsewhereIsNotCalledMissing) {
  const auto here = Get({2, 1});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_EQ(here->points.size(), 2u);
  const auto elsewhere = Get({1, 3});
  EXPECT_EQ(elsewhere.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(elsewhere.status().message()), HasSubstr("id 3"));
  SearchRequest by_id = Nearest("c", {0}, 1);
  by_id.queries = {PointId{4}};
  EXPECT_EQ(Search(by_id).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ShardViewTest, WritesAndSchemaChangesAreForACoordinator) {
  WriteBatch batch;
  batch.collection = "c";
  batch.upserts = {MakePoint(1, {9})};
  CollectionSpec spec;
  spec.name = "new";
  spec.dimension = 1;
  const std::vector<absl::Status> refused = {
      Wait<WriteReply>([&](Done<WriteReply> done) {
        view_->Upsert(batch, {}, std::move(done));
      }).status(),
      Wait<WriteReply>([&](Done<WriteReply> done) {
        view_->Delete("c", {1}, {}, std::move(done));
      }).status(),
      Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
        view_->CreateCollection(spec, {}, std::move(done));
      }).status(),
      Wait<int64_t>([&](Done<int64_t> done) {
        view_->DeleteCollection("c", {}, std::move(done));
      }).status()};
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard 2"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("coordinator"));
  }
  EXPECT_EQ(cluster_.shard(kShard).catalogue().collections.size(), 1u);
  EXPECT_EQ(cluster_.shard(kShard).points("c"), 2);
}

TEST_F(ShardViewTest, CollectionsMadeLaterAppear) {
  ASSERT_TRUE(cluster_.Create("later", 1, Metric::kSquaredL2, 1024).ok());
  ASSERT_TRUE(cluster_.Upsert("later", {MakePoint(1, {1})}).ok());
  const auto reply = Search(Nearest("later", {3}, 10));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(IdsOf(*reply), ElementsAre(1));
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  EXPECT_EQ(Search(Nearest("never", {3}, 1)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ShardViewTest, FailuresNameTheShardAsItIsCalled) {
  for (const absl::Status& fault :
       {absl::UnavailableError("disk"), absl::AbortedError("moved"),
        absl::NotFoundError("gone"), absl::FailedPreconditionError("odd")}) {
    cluster_.shard(kShard).Fail("Search", fault);
    const absl::Status status = Search(Nearest("c", {3}, 1)).status();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(ShardOf(status), kShard) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("shard 2"));
  }
}

TEST_F(ShardViewTest, DescribesItselfAsItIs) {
  const auto told = Wait<std::vector<ShardDescription>>(
      [&](Done<std::vector<ShardDescription>> done) {
        view_->Describe({}, std::move(done));
      });
  ASSERT_TRUE(told.ok());
  ASSERT_EQ(told->size(), 1u);
  EXPECT_EQ((*told)[0].shard_id, kShard);
  EXPECT_EQ((*told)[0].shards_total, 3);
}

}  // namespace
}  // namespace coterie
