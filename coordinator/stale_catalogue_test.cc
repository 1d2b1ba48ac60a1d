// Searches while coordinator and shards hold different catalogues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "api/status_details.h"
#include "coordinator/coordinator.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

TEST(StaleCatalogue, AStaleShardIsRepairedAndTheSearchRepeated) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(1, {1}), MakePoint(2, {2}),
                                MakePoint(3, {3})})
                  .ok());
  cluster.shard(1).SetCatalogue(Catalogue());
  auto reply = cluster.Search(Nearest("c", {0}, 3));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  EXPECT_EQ(cluster.shard(0).calls("Search"), 2);
}

TEST(StaleCatalogue, AnAnswerAtAnOldVersionIsUncertifiedAndTheShardRepaired) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  const Catalogue old = cluster.shard(1).catalogue();
  ASSERT_TRUE(cluster.Create("d", 1).ok());
  cluster.shard(1).SetCatalogue(old);
  auto reply = cluster.Search(Nearest("c", {0}, 3));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->results[0].exact);
  EXPECT_THAT(reply->certificate.withheld,
              HasSubstr("shard 1 answered at catalogue version 1"));
  EXPECT_EQ(cluster.shard(1).catalogue().version, 2);
  reply = cluster.Search(Nearest("c", {0}, 3));
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
}

TEST(StaleCatalogue, ANewerCatalogueElsewhereIsFetchedAndCertified) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  auto other = Coordinator::Create(cluster.clients(), {});
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(cluster.Create("d", 1).ok());
  auto reply = Wait<SearchReply>([&](Done<SearchReply> done) {
    (*other)->Search(Nearest("c", {0}, 3), {}, std::move(done));
  });
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  EXPECT_EQ(reply->certificate.map_version, 2);
  EXPECT_EQ((*other)->catalogue()->version, 2);
}

TEST(StaleCatalogue, ACollectionRemadeElsewhereIsSearchedAnew) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, 4).ok());
  auto other = Coordinator::Create(cluster.clients(), {});
  ASSERT_TRUE(other.ok());
  auto dropped = Wait<int64_t>([&](Done<int64_t> done) {
    cluster.coordinator->DeleteCollection("c", {}, std::move(done));
  });
  ASSERT_TRUE(dropped.ok());
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, 8).ok());
  auto reply = Wait<SearchReply>([&](Done<SearchReply> done) {
    (*other)->Search(Nearest("c", {0}, 3), {}, std::move(done));
  });
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
}

TEST(StaleCatalogue, AnIdOfACollectionRemadeMeanwhileIsNotFound) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  ASSERT_TRUE(cluster.Upsert("c", {MakePoint(1, {1})}).ok());
  auto other = Coordinator::Create(cluster.clients(), {});
  ASSERT_TRUE(other.ok());
  SearchRequest request = Nearest("c", {0}, 1);
  request.queries = {PointId{1}};
  cluster.shard(0).Hold("Search");
  cluster.shard(1).Hold("Search");
  Outcome<SearchReply> outcome;
  (*other)->Search(request, {}, outcome.done());
  ASSERT_TRUE(cluster.Drop("c").ok());
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  cluster.shard(0).Release();
  cluster.shard(1).Release();
  const absl::Status status = outcome.Wait().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_EQ(FieldOf(status), "queries[0].id");
}

}  // namespace
}  // namespace coterie
