#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Point MakePoint(PointId id, std::vector<float> vector) {
  Point point;
  point.id = id;
  point.vector = std::move(vector);
  return point;
}

absl::StatusOr<GetReply> Get(FakeCluster& cluster, const std::string& name,
                             std::vector<PointId> ids) {
  GetRequest request;
  request.collection = name;
  request.ids = std::move(ids);
  request.with_vectors = true;
  return Wait<GetReply>([&](Done<GetReply> done) {
    cluster.coordinator->Get(request, {}, std::move(done));
  });
}

absl::StatusOr<int64_t> Count(FakeCluster& cluster, const std::string& name) {
  CountRequest request;
  request.collection = name;
  auto reply = Wait<CountReply>([&](Done<CountReply> done) {
    cluster.coordinator->Count(request, {}, std::move(done));
  });
  if (!reply.ok()) {
    return reply.status();
  }
  return reply->count;
}

absl::StatusOr<int64_t> Drop(FakeCluster& cluster, const std::string& name) {
  return Wait<int64_t>([&](Done<int64_t> done) {
    cluster.coordinator->DeleteCollection(name, {}, std::move(done));
  });
}

absl::StatusOr<WriteReply> Delete(FakeCluster& cluster, const std::string& name,
                                  std::vector<PointId> ids) {
  return Wait<WriteReply>([&](Done<WriteReply> done) {
    cluster.coordinator->Delete(name, std::move(ids), {}, std::move(done));
  });
}

absl::Status CreateWith(std::vector<std::shared_ptr<ShardClient>> shards) {
  return Coordinator::Create(std::move(shards), {}).status();
}

TEST(CoordinatorCreate, TakesShardsInAnyOrder) {
  auto a = std::make_shared<FakeShardClient>(0, 2);
  auto b = std::make_shared<FakeShardClient>(1, 2);
  EXPECT_TRUE(CreateWith({b, a}).ok());
}

TEST(CoordinatorCreate, RefusesGapsAndRepeatsAndNone) {
  auto a = std::make_shared<FakeShardClient>(0, 2);
  auto b = std::make_shared<FakeShardClient>(0, 2);
  auto c = std::make_shared<FakeShardClient>(2, 2);
  using Shards = std::vector<std::shared_ptr<ShardClient>>;
  for (const Shards& shards : {Shards{a, b}, Shards{a, c}, Shards{}}) {
    EXPECT_EQ(CreateWith(shards).code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(CoordinatorCreate, RefusesAForeignCluster) {
  FakeShardClient::Options foreign;
  foreign.cluster_uuid = "other";
  const absl::Status status =
      CreateWith({std::make_shared<FakeShardClient>(0, 2),
                  std::make_shared<FakeShardClient>(1, 2, foreign)});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ShardOf(status), 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"other\""));
}

TEST(CoordinatorCreate, RefusesAnotherNumberOfShards) {
  const absl::Status status =
      CreateWith({std::make_shared<FakeShardClient>(0, 2),
                  std::make_shared<FakeShardClient>(1, 3)});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("3 shards; 2"));
}

TEST(CoordinatorCreate, NamesTheShardThatDoesNotAnswer) {
  auto a = std::make_shared<FakeShardClient>(0, 2);
  auto b = std::make_shared<FakeShardClient>(1, 2);
  b->Fail("Describe", absl::DeadlineExceededError("late"));
  const absl::Status status = CreateWith({a, b});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 1);
}

TEST(CoordinatorCreate, BringsAStaleCopyUpToDate) {
  FakeCluster first(3);
  ASSERT_TRUE(first.Create("c", 2).ok());
  first.shard(1).SetCatalogue(Catalogue());
  ASSERT_TRUE(CreateWith(first.clients()).ok());
  EXPECT_EQ(first.shard(1).catalogue().version, 1);
  EXPECT_NE(first.shard(1).catalogue().Find("c"), nullptr);
}

TEST(CoordinatorCreate, RefusesACopyNewerThanShardZero) {
  auto a = std::make_shared<FakeShardClient>(0, 2);
  auto b = std::make_shared<FakeShardClient>(1, 2);
  Catalogue newer;
  newer.version = 3;
  b->SetCatalogue(newer);
  const absl::Status status = CreateWith({a, b});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ShardOf(status), 1);
}

TEST(Collections, AreNumberedPlacedAndListedByName) {
  FakeCluster cluster(3);
  auto b = cluster.Create("b", 2, Metric::kCosine, 7);
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->number, 1u);
  EXPECT_EQ(b->owner, EvenPlacement(7, 3));
  auto a = cluster.Create("a", 2);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->number, 2u);
  auto listed = Wait<std::vector<CollectionSpec>>(
      [&](Done<std::vector<CollectionSpec>> done) {
        cluster.coordinator->ListCollections({}, std::move(done));
      });
  ASSERT_TRUE(listed.ok());
  EXPECT_THAT(*listed, ElementsAre(*a, *b));
}

TEST(Collections, ANameIsTakenOnce) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 2).ok());
  const absl::Status again = cluster.Create("a", 2).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("\"a\""));
}

TEST(Collections, ARemadeCollectionHasANewNumberAndNoOldRows) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  ASSERT_TRUE(cluster.Upsert("a", {MakePoint(1, {1})}).ok());
  EXPECT_EQ(*Drop(cluster, "a"), 1);
  auto again = cluster.Create("a", 1);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->number, 2u);
  EXPECT_EQ(*Count(cluster, "a"), 0);
}

TEST(Collections, AHalfMadeOneIsFinishedByMakingItAgain) {
  FakeCluster cluster(3);
  cluster.shard(2).FailOnce("PutCatalogue", absl::UnavailableError("gone"));
  EXPECT_EQ(ShardOf(cluster.Create("a", 1).status()), 2);
  EXPECT_EQ(cluster.shard(2).catalogue().Find("a"), nullptr);
  EXPECT_EQ(cluster.Create("a", 1).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_NE(cluster.shard(2).catalogue().Find("a"), nullptr);
}

TEST(Collections, AHalfDroppedOneIsFinishedByDroppingItAgain) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).FailOnce("PutCatalogue", absl::UnavailableError("gone"));
  EXPECT_EQ(ShardOf(Drop(cluster, "a").status()), 1);
  EXPECT_NE(cluster.shard(1).catalogue().Find("a"), nullptr);
  EXPECT_EQ(Drop(cluster, "a").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.shard(1).catalogue().Find("a"), nullptr);
}

TEST(Collections, BadSchemasAreRefusedBeforeAnyShardHears) {
  FakeCluster cluster(2);
  EXPECT_EQ(cluster.Create("", 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cluster.Create("a", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cluster.Create("a", 1, Metric::kSquaredL2, 5000).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cluster.shard(0).calls("PutCatalogue"), 0);
}

TEST(Collections, TheLimitIsNamed) {
  CoordinatorOptions options;
  options.limits.collections = 2;
  FakeCluster cluster(2, {}, options);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  ASSERT_TRUE(cluster.Create("b", 1).ok());
  const absl::Status full = cluster.Create("c", 1).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("collections"));
}

TEST(Collections, NumbersAreNeverReusedNotEvenWhenTheyRunOut) {
  FakeCluster cluster(1);
  Catalogue last;
  last.version = 1;
  last.next_number = std::numeric_limits<uint32_t>::max();
  cluster.shard(0).SetCatalogue(last);
  EXPECT_EQ(cluster.Create("a", 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(Collections, DescriptionsCarryEveryShardsStatistics) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  std::mt19937_64 random(TestSeed());
  ASSERT_TRUE(cluster.Upsert("a", RandomPoints(30, 1, &random)).ok());
  auto described =
      Wait<CollectionDescription>([&](Done<CollectionDescription> done) {
        cluster.coordinator->GetCollection("a", {}, std::move(done));
      });
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->spec.name, "a");
  ASSERT_EQ(described->shards.size(), 3u);
  int64_t points = 0;
  for (int32_t i = 0; i < 3; ++i) {
    const auto& shard = described->shards[static_cast<size_t>(i)];
    EXPECT_EQ(shard.shard_id, i);
    points += shard.points;
  }
  EXPECT_EQ(points, 30);

  cluster.shard(1).Fail("CollectionStats", absl::UnavailableError("gone"));
  auto failed =
      Wait<CollectionDescription>([&](Done<CollectionDescription> done) {
        cluster.coordinator->GetCollection("a", {}, std::move(done));
      });
  EXPECT_EQ(ShardOf(failed.status()), 1);
}

TEST(Collections, AnotherCoordinatorsChangesAreSeen) {
  FakeCluster one(2);
  auto two = Coordinator::Create(one.clients(), {});
  ASSERT_TRUE(two.ok());
  ASSERT_TRUE(one.Create("a", 1).ok());
  WriteBatch batch;
  batch.collection = "a";
  batch.upserts = {MakePoint(1, {1})};
  auto written = Wait<WriteReply>([&](Done<WriteReply> done) {
    (*two)->Upsert(batch, {}, std::move(done));
  });
  EXPECT_TRUE(written.ok()) << written.status();
  // Dropped and made anew with another dimension: the other's cached schema
  // would refuse what is right now.
  ASSERT_TRUE(Drop(one, "a").ok());
  ASSERT_TRUE(one.Create("a", 2).ok());
  batch.upserts = {MakePoint(1, {1, 2})};
  written = Wait<WriteReply>([&](Done<WriteReply> done) {
    (*two)->Upsert(batch, {}, std::move(done));
  });
  EXPECT_TRUE(written.ok()) << written.status();
}

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
  EXPECT_EQ(*Count(cluster, "a"), 200);
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
  EXPECT_EQ(*Count(cluster, "a"), 4);
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
  auto deleted = Delete(cluster, "a", {1, 5, 1});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->deleted, 1);
  EXPECT_EQ(*Count(cluster, "a"), 1);
  EXPECT_EQ(Delete(cluster, "a", {1})->deleted, 0);
  EXPECT_EQ(Delete(cluster, "b", {1}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Reads, GetKeepsTheOrderAskedAndListsWhatIsMissing) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  ASSERT_TRUE(cluster
                  .Upsert("a", {MakePoint(1, {1}), MakePoint(2, {2}),
                                MakePoint(3, {3}), MakePoint(4, {4})})
                  .ok());
  auto got = Get(cluster, "a", {4, 9, 1, 3, 4, 8});
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
  ASSERT_EQ(Delete(cluster, "a", {big})->deleted, 1);
  auto got = Get(cluster, "a", {big, big + 1});
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
  EXPECT_EQ(ShardOf(Count(cluster, "a").status()), 1);
  EXPECT_TRUE(ShardOf(Get(cluster, "a", {1}).status()).has_value());
}

TEST(Reads, AStaleShardIsRepairedWithoutTheCallerNoticing) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).SetCatalogue(Catalogue());
  auto count = Count(cluster, "a");
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, 0);
  EXPECT_NE(cluster.shard(1).catalogue().Find("a"), nullptr);
}

TEST(Reads, AShardThatStaysStaleIsUnavailableNotNotFound) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  cluster.shard(1).SetCatalogue(Catalogue());
  cluster.shard(1).Fail("PutCatalogue", absl::InternalError("disk"));
  const absl::Status status = Count(cluster, "a").status();
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
  const absl::Status status = Count(cluster, "a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"a\""));
  EXPECT_EQ(ShardOf(status), std::nullopt);
}

TEST(Describe, ASilentShardIsUnreachableAndTheRestAreTold) {
  FakeCluster cluster(3);
  cluster.shard(1).Fail("Describe", absl::DeadlineExceededError("late"));
  auto described = Wait<std::vector<ShardDescription>>(
      [&](Done<std::vector<ShardDescription>> done) {
        cluster.coordinator->Describe({}, std::move(done));
      });
  ASSERT_TRUE(described.ok());
  ASSERT_EQ(described->size(), 3u);
  EXPECT_EQ((*described)[0].state, ShardDescription::State::kServing);
  EXPECT_EQ((*described)[1].state, ShardDescription::State::kUnreachable);
  EXPECT_EQ((*described)[1].shard_id, 1);
  EXPECT_EQ((*described)[1].address, "fake");
  EXPECT_EQ((*described)[1].reason, "DEADLINE_EXCEEDED: late");
  // A silent shard may not use up the caller's whole deadline.
  EXPECT_LT(cluster.shard(1).last_call("Describe").deadline,
            absl::InfiniteFuture());
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
        ASSERT_EQ(Delete(cluster, "a", {ids.begin(), ids.end()})->deleted,
                  stored);
      }
      ASSERT_EQ(*Count(cluster, "a"), static_cast<int64_t>(model.size()));
      const PointId probe = random() % 40;
      auto got = Get(cluster, "a", {probe});
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

TEST(Coordinator, ServesManyThreadsAtOnce) {
  FakeShardClient::Options options;
  options.own_thread = true;
  FakeCluster cluster(3, options);
  ASSERT_TRUE(cluster.Create("a", 1).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const PointId id = static_cast<PointId>(t * 1000 + i);
        EXPECT_TRUE(cluster.Upsert("a", {MakePoint(id, {1})}).ok());
        EXPECT_TRUE(cluster.Search(Nearest("a", {0}, 3)).ok());
        EXPECT_TRUE(Count(cluster, "a").ok());
        if (i % 10 == 0) {
          const std::string name = absl::StrCat("t", t, "-", i);
          EXPECT_TRUE(cluster.Create(name, 1).ok());
          EXPECT_TRUE(Drop(cluster, name).ok());
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(*Count(cluster, "a"), 100);
}

}  // namespace
}  // namespace coterie
