#include "coordinator/recall_meter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

TEST(RecallOf, CountsHitsAsNearAsTheFarthestOfTheExact) {
  const std::vector<Neighbor> exact = {{1, 0}, {2, 1}, {3, 2}, {4, 2}};
  EXPECT_EQ(RecallOf(exact, exact), 1);
  EXPECT_EQ(RecallOf({}, exact), 0);
  EXPECT_EQ(RecallOf({{1, 0}, {3, 2}, {9, 7}}, exact), 0.5);
  // Another point at the last distance is as good.
  EXPECT_EQ(RecallOf({{1, 0}, {2, 1}, {3, 2}, {5, 2}}, exact), 1);
  EXPECT_EQ(RecallOf({{5, 1}}, {}), 1) << "nothing was to be found";
}

TEST(RecallMeter, SamplesOneOfManyAndOneAtATime) {
  RecallMeter meter(3);
  EXPECT_TRUE(meter.Sample());
  EXPECT_FALSE(meter.Sample());
  EXPECT_FALSE(meter.Sample());
  EXPECT_FALSE(meter.Sample()) << "one is under way";
  meter.Done();
  EXPECT_FALSE(meter.Sample());
  EXPECT_FALSE(meter.Sample());
  EXPECT_TRUE(meter.Sample());
  RecallMeter none(0);
  EXPECT_FALSE(none.Sample());
}

TEST(RecallMeter, AveragesByCollectionAndForgets) {
  RecallMeter meter(1);
  EXPECT_TRUE(meter.averages().empty());
  meter.Record("a", 1);
  meter.Record("b", 0.5);
  EXPECT_EQ(meter.averages().at("b"), 0.5);
  for (int i = 0; i < 500; ++i) meter.Record("a", 0);
  EXPECT_LT(meter.averages().at("a"), 0.001);
  for (int i = 0; i < 2000; ++i) meter.Record(std::to_string(i), 1);
  EXPECT_LE(meter.averages().size(), 1024U);
}

// Collection "c" of four points on a line, with a tree.
void MakeIndexed(FakeCluster* cluster) {
  CollectionSpec spec;
  spec.name = "c";
  spec.dimension = 1;
  spec.slots = 8;
  spec.indexes = {{IndexKind::kTree}};
  ASSERT_TRUE(Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
                cluster->coordinator->CreateCollection(spec, {},
                                                       std::move(done));
              }).ok());
  ASSERT_TRUE(cluster
                  ->Upsert("c", {MakePoint(1, {1}), MakePoint(2, {2}),
                                 MakePoint(3, {3}), MakePoint(4, {4})})
                  .ok());
}

// The next search reply of the one shard lacks the nearest hit.
void LoseOneHit(FakeCluster* cluster) {
  cluster->shard(0).EditSearches(
      [first = true](ShardSearchReply* reply) mutable {
        if (first) reply->results[0].erase(reply->results[0].begin());
        first = false;
      });
}

SearchRequest ByTree(int64_t k) {
  SearchRequest request = Nearest("c", {0}, k);
  request.strategy = TreeStrategy{0, 0, 0.9};
  return request;
}

TEST(MeasureRecall, SaysWhatPartWasFound) {
  FakeCluster cluster(1);
  ASSERT_NO_FATAL_FAILURE(MakeIndexed(&cluster));
  SearchRequest request = ByTree(2);
  request.measure_recall = true;
  auto reply = cluster.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->results[0].recall, 1);
  LoseOneHit(&cluster);
  reply = cluster.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->results[0].recall, 0.5);
  EXPECT_EQ(reply->results[0].hits.size(), 1U);
  const double average = cluster.coordinator->recalls().at("c");
  EXPECT_LT(average, 1);
  EXPECT_GT(average, 0.5);
}

TEST(MeasureRecall, SomeSearchesAreSampledAfterTheirReply) {
  CoordinatorOptions options;
  options.recall_interval = 3;
  FakeCluster cluster(1, {}, options);
  ASSERT_NO_FATAL_FAILURE(MakeIndexed(&cluster));
  LoseOneHit(&cluster);
  for (int i = 0; i < 6; ++i) {
    const auto reply = cluster.Search(ByTree(2));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_FALSE(reply->results[0].recall.has_value());
  }
  // Six, and two of them again.
  EXPECT_EQ(cluster.shard(0).calls("Search"), 8);
  EXPECT_LT(cluster.coordinator->recalls().at("c"), 1);
  // What is exact anyway is never sampled.
  for (int i = 0; i < 6; ++i) {
    SearchRequest exact = Nearest("c", {0}, 2);
    if (i % 2 == 0) exact.strategy = TreeStrategy();
    ASSERT_TRUE(cluster.Search(exact).ok());
  }
  EXPECT_EQ(cluster.shard(0).calls("Search"), 14);
}

TEST(Search, AStrategyNeedsItsIndex) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  const auto reply = cluster.Search(ByTree(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
  EXPECT_EQ(cluster.shard(0).calls("Search"), 0);
}

}  // namespace
}  // namespace coterie
