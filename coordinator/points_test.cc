// Writes and reads of points by id through the coordinator, over fake shards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "api/write_outcome.h"
#include "coordinator/coordinator.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Writes, PointsGoToTheOwnersOfTheirSlots) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  FakeCluster cluster(3);
  auto spec = cluster.Create("a", 2);
  ASSERT_TRUE(spec.ok());
  const std::vector<Point> points = RandomPoints(200, 2, &random);
  auto written = cluster.Upsert("a", points);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->upserted, 200);
  EXPECT_EQ(written->deleted, 0);
  std::map<int32_t, int64_t> expected;
  for (const Point& point : points) {
    ++expected[spec->owner[static_cast<size_t>(SlotOf(point.id, spec->slots))]];
  }
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster.shard(i).points("a"), expected[i]);
  }
  EXPECT_EQ(*cluster.Count("a"), 200);
}

TEST(Writes, BadPointsAreNamedAndNoShardHears) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("l2", 2).ok());
  ASSERT_TRUE(cluster.Create("cos", 2, Metric::kCosine).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  struct Case {
    std::string collection;
    Point bad;
    std::string field;
  };
  for (const Case& c :
       std::vector<Case>{{"l2", MakePoint(9, {1}), "points[1].vector"},
                         {"l2", MakePoint(9, {1, 2, 3}), "points[1].vector"},
                         {"l2", MakePoint(9, {}), "points[1].vector"},
                         {"l2", MakePoint(9, {nan, 1}), "points[1].vector"},
                         {"l2", MakePoint(9, {1, -inf}), "points[1].vector"},
                         {"cos", MakePoint(9, {0, 0}), "points[1].vector"},
                         {"l2", MakePoint(1, {1, 2}), "points[1].id"}}) {
    const absl::Status status =
        cluster.Upsert(c.collection, {MakePoint(1, {1, 2}), c.bad}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), c.field) << status;
  }
  EXPECT_EQ(cluster.shard(0).calls("Write"), 0);
  EXPECT_EQ(cluster.shard(1).calls("Write"), 0);
}

TEST(Writes, BothPlacesOfARepeatedIdAreNamed) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  const absl::Status status =
      cluster
          .Upsert("a",
                  {MakePoint(7, {0}), MakePoint(8, {0}), MakePoint(7, {9})})
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("points[2].id"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("points[0]"));
}

TEST(Writes, TheBatchLimitIsNamed) {
  CoordinatorOptions options;
  options.limits.points_per_upsert = 2;
  FakeCluster cluster(1, {}, options);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  EXPECT_EQ(cluster.Upsert("a", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(cluster.Upsert("a", {MakePoint(1, {0}), MakePoint(2, {0})}).ok());
  const absl::Status over =
      cluster
          .Upsert("a",
                  {MakePoint(1, {0}), MakePoint(2, {0}), MakePoint(3, {0})})
          .status();
  EXPECT_EQ(over.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(over.message()), HasSubstr("points_per_upsert"));
}

TEST(Writes, AFailureSaysWhatWasApplied) {
  CoordinatorOptions options;
  options.placement = [](int32_t slots, int32_t) {
    return PlacementOf({{1, 0}, {2, 1}, {3, 1}, {4, 2}}, slots);
  };
  FakeCluster cluster(3, {}, options);
  ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, 1024).ok());
  cluster.shard(1).Fail("Write",
                        Overloaded("queue full", absl::Milliseconds(30)));
  const absl::Status status =
      cluster
          .Upsert("a", {MakePoint(1, {0}), MakePoint(2, {0}), MakePoint(3, {0}),
                        MakePoint(4, {0})})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ShardOf(status), 1);
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(30));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("shard 1: queue full; of 4 items applied: 1 on shard 0, 1 on "
                "shard 2; not acknowledged: 2 on shard 1"));
  EXPECT_EQ(cluster.shard(0).points("a"), 1);
  // The same request again completes it.
  cluster.shard(1).Fail("Write", absl::OkStatus());
  EXPECT_TRUE(cluster
                  .Upsert("a", {MakePoint(1, {0}), MakePoint(2, {0}),
                                MakePoint(3, {0}), MakePoint(4, {0})})
                  .ok());
  EXPECT_EQ(*cluster.Count("a"), 4);
}

TEST(Writes, AShardWithAnOldCatalogueIsRepairedAndTheCallerToldToRepeat) {
  FakeCluster cluster(1 + 1);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).SetCatalogue(Catalogue());
  std::mt19937_64 random(TestSeed());
  const std::vector<Point> points = RandomPoints(50, 1, &random);
  const absl::Status status = cluster.Upsert("a", points).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(ShardOf(status), 1);
  EXPECT_TRUE(cluster.Upsert("a", points).ok());
}

TEST(Writes, DeletesCountWhatWasStored) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  ASSERT_TRUE(cluster.Upsert("a", {MakePoint(1, {0}), MakePoint(2, {0})}).ok());
  auto deleted = cluster.Delete("a", {1, 5, 1});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->deleted, 1);
  EXPECT_EQ(*cluster.Count("a"), 1);
  EXPECT_EQ(cluster.Delete("a", {1})->deleted, 0);
  EXPECT_EQ(cluster.Delete("b", {1}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Writes, DeletesByFilterReachEveryShardAndCount) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  std::vector<Point> points;
  for (PointId id = 0; id < 60; ++id) {
    points.push_back(MakePoint(id, {1}));
    points.back().attributes["odd"] = id % 2 == 1;
  }
  ASSERT_TRUE(cluster.Upsert("a", points).ok());
  WriteBatch batch;
  batch.collection = "a";
  batch.delete_where.must.push_back(MatchCondition{"odd", {true}});
  const auto deleted = cluster.Write(batch);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->deleted, 30);
  EXPECT_EQ(*cluster.Count("a"), 30);
  cluster.shard(2).Fail("Write", absl::UnavailableError("down"));
  const absl::Status status = cluster.Write(batch).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  const auto outcome = OutcomeOf(status);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_EQ(outcome->parts.size(), 3U);
  size_t slots = 0;
  for (const WriteOutcome::Part& part : outcome->parts) {
    slots += part.slots.size();
  }
  EXPECT_EQ(slots, 64U) << "any slot may have had such points";
}

TEST(Reads, GetKeepsTheOrderAskedAndListsWhatIsMissing) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  ASSERT_TRUE(cluster
                  .Upsert("a", {MakePoint(1, {1}), MakePoint(2, {2}),
                                MakePoint(3, {3}), MakePoint(4, {4})})
                  .ok());
  auto got = cluster.Get("a", {4, 9, 1, 3, 4, 8});
  ASSERT_TRUE(got.ok()) << got.status();
  std::vector<PointId> ids;
  for (const Point& point : got->points) {
    ids.push_back(point.id);
    EXPECT_THAT(point.vector, ElementsAre(static_cast<float>(point.id)));
  }
  EXPECT_THAT(ids, ElementsAre(4, 1, 3, 4));
  EXPECT_THAT(got->missing, ElementsAre(9, 8));
}

TEST(Reads, IdsBeyondTwoTo53StayApart) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  const PointId big = 9007199254740992u;
  ASSERT_TRUE(
      cluster.Upsert("a", {MakePoint(big, {0}), MakePoint(big + 1, {1})}).ok());
  ASSERT_EQ(cluster.Delete("a", {big})->deleted, 1);
  auto got = cluster.Get("a", {big, big + 1});
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->points.size(), 1u);
  EXPECT_EQ(got->points[0].id, big + 1);
  EXPECT_THAT(got->missing, ElementsAre(big));
}

TEST(Reads, AFailingShardIsNamed) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).Fail("Count", absl::UnavailableError("gone"));
  cluster.shard(0).Fail("Get", absl::UnavailableError("gone"));
  cluster.shard(1).Fail("Get", absl::UnavailableError("gone"));
  EXPECT_EQ(ShardOf(cluster.Count("a").status()), 1);
  EXPECT_TRUE(ShardOf(cluster.Get("a", {1}).status()).has_value());
}

TEST(Reads, AStaleShardIsRepairedWithoutTheCallerNoticing) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).SetCatalogue(Catalogue());
  auto count = cluster.Count("a");
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, 0);
  EXPECT_NE(cluster.shard(1).catalogue().Find("a"), nullptr);
}

TEST(Reads, AShardThatStaysStaleIsUnavailableNotNotFound) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).SetCatalogue(Catalogue());
  cluster.shard(1).Fail("PutCatalogue", absl::InternalError("disk"));
  const absl::Status status = cluster.Count("a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(ShardOf(status), 1);
}

TEST(Reads, ACollectionDroppedElsewhereIsNotFound) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  auto other = Coordinator::Create(cluster.clients(), {});
  ASSERT_TRUE(other.ok());
  auto dropped = Wait<int64_t>([&](Done<int64_t> done) {
    (*other)->DeleteCollection("a", {}, std::move(done));
  });
  ASSERT_TRUE(dropped.ok());
  const absl::Status status = cluster.Count("a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"a\""));
  EXPECT_EQ(ShardOf(status), std::nullopt);
}

// Random upserts, deletes and reads against a map.
TEST(Points, BehaveAsAMap) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int32_t shards : {1, 2, 5}) {
    FakeCluster cluster(shards);
    ASSERT_TRUE(cluster.Create("a", 1, Metric::kSquaredL2, 8).ok());
    std::map<PointId, float> model;
    for (int step = 0; step < 150; ++step) {
      std::set<PointId> ids;
      for (uint64_t n = 1 + random() % 6; n > 0; --n) {
        ids.insert(random() % 40);
      }
      if (random() % 3 != 0) {
        std::vector<Point> points;
        for (PointId id : ids) {
          model[id] = static_cast<float>(step);
          points.push_back(MakePoint(id, {model[id]}));
        }
        ASSERT_EQ(cluster.Upsert("a", points)->upserted,
                  static_cast<int64_t>(ids.size()));
      } else {
        int64_t stored = 0;
        for (PointId id : ids) {
          stored += static_cast<int64_t>(model.erase(id));
        }
        ASSERT_EQ(cluster.Delete("a", {ids.begin(), ids.end()})->deleted,
                  stored);
      }
      ASSERT_EQ(*cluster.Count("a"), static_cast<int64_t>(model.size()));
      const PointId probe = random() % 40;
      auto got = cluster.Get("a", {probe});
      ASSERT_TRUE(got.ok());
      if (model.count(probe) == 1) {
        ASSERT_EQ(got->points.at(0).vector[0], model[probe]);
        ASSERT_THAT(got->missing, IsEmpty());
      } else {
        ASSERT_THAT(got->missing, ElementsAre(probe));
      }
    }
  }
}

TEST(Deadlines, ShardsHaveLessTimeThanTheCaller) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  CallContext call;
  call.deadline = absl::Now() + absl::Minutes(1);
  std::vector<Point> points;
  std::vector<PointId> ids;
  for (PointId id = 0; id < 20; ++id) {
    points.push_back(MakePoint(id, {static_cast<float>(id)}));
    ids.push_back(id);
  }
  ASSERT_TRUE(cluster.Upsert("c", points, call).ok());
  ASSERT_TRUE(
      Wait<GetReply>([&](Done<GetReply> done) {
        cluster.coordinator->Get({"c", ids, false, {}}, call, std::move(done));
      }).ok());
  ASSERT_TRUE(Wait<CountReply>([&](Done<CountReply> done) {
                cluster.coordinator->Count({"c", {}}, call, std::move(done));
              }).ok());
  ASSERT_TRUE(
      Wait<CollectionDescription>([&](Done<CollectionDescription> done) {
        cluster.coordinator->GetCollection("c", call, std::move(done));
      }).ok());
  ASSERT_TRUE(cluster.Search(Nearest("c", {0}, 1), call).ok());
  for (const char* method :
       {"Write", "Get", "Count", "CollectionStats", "Search"}) {
    const absl::Time given = cluster.shard(0).last_call(method).deadline;
    EXPECT_EQ(given, call.deadline - absl::Milliseconds(5)) << method;
  }
}

}  // namespace
}  // namespace coterie
