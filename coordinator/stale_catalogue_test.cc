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

TEST(StaleCatalogue, PointsOfACollectionRemadeElsewhereAreNotMissed) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, 2).ok());
  std::vector<std::unique_ptr<Coordinator>> stale;
  for (int i = 0; i < 5; ++i) {
    auto other = Coordinator::Create(cluster.clients(), {});
    ASSERT_TRUE(other.ok());
    stale.push_back(*std::move(other));
  }
  ASSERT_TRUE(cluster.Drop("c").ok());
  // With other slots on other shards.
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, 16).ok());
  std::vector<Point> points;
  std::vector<PointId> ids;
  for (PointId id = 0; id < 40; ++id) {
    points.push_back(MakePoint(id, {static_cast<float>(id)}));
    ids.push_back(id);
  }
  ASSERT_TRUE(cluster.Upsert("c", points).ok());

  const auto got = Wait<GetReply>([&](Done<GetReply> done) {
    stale[0]->Get({"c", ids, true, {}}, {}, std::move(done));
  });
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->points.size(), 40U);
  const auto count = Wait<CountReply>([&](Done<CountReply> done) {
    stale[1]->Count({"c", {}}, {}, std::move(done));
  });
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->count, 40);
  const auto stream = stale[2]->Scan({"c"}, {});
  size_t scanned = 0;
  for (bool end = false; !end;) {
    const auto page = Wait<ScanPage>(
        [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
    ASSERT_TRUE(page.ok()) << page.status();
    scanned += page->points.size();
    end = page->end;
  }
  EXPECT_EQ(scanned, 40U);
  const auto dropped = Wait<WriteReply>([&](Done<WriteReply> done) {
    stale[3]->Delete("c", ids, {}, std::move(done));
  });
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  EXPECT_EQ(dropped->deleted, 40);
  // Points are given away with the first try; the caller has the second.
  for (const bool first : {true, false}) {
    const auto written = Wait<WriteReply>([&](Done<WriteReply> done) {
      WriteBatch batch;
      batch.collection = "c";
      batch.upserts = points;
      stale[4]->Upsert(std::move(batch), {}, std::move(done));
    });
    if (first) {
      EXPECT_EQ(written.status().code(), absl::StatusCode::kAborted)
          << written.status();
    } else {
      EXPECT_TRUE(written.ok()) << written.status();
    }
  }
  EXPECT_EQ(*cluster.Count("c"), 40);
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
