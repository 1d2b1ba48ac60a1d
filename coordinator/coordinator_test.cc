#include "coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

// --- Stores -----------------------------------------------------------------

std::shared_ptr<FakeShardClient> OnStore(int32_t id, const std::string& store) {
  FakeShardClient::Options options;
  options.store_id = store;
  return std::make_shared<FakeShardClient>(id, 2, options);
}

absl::Status Accepting(std::vector<std::shared_ptr<ShardClient>> shards,
                       std::map<int32_t, std::string> stores) {
  CoordinatorOptions options;
  options.accepted_stores = std::move(stores);
  return Coordinator::Create(std::move(shards), options).status();
}

// Two shards on stores "a" and "b", with a collection unless told otherwise.
struct TwoStores {
  explicit TwoStores(bool with_collection = true) {
    if (!with_collection) {
      return;
    }
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = 1;
    auto coordinator = *Coordinator::Create({a, b}, {});
    EXPECT_TRUE(Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
                  coordinator->CreateCollection(spec, {}, std::move(done));
                }).ok());
  }
  std::shared_ptr<FakeShardClient> a = OnStore(0, "a");
  std::shared_ptr<FakeShardClient> b = OnStore(1, "b");
};

TEST(Stores, AreRecordedWithTheFirstCollection) {
  const TwoStores cluster;
  EXPECT_EQ(cluster.a->catalogue().version, 1);
  EXPECT_THAT(cluster.a->catalogue().stores, ElementsAre("a", "b"));
  EXPECT_THAT(cluster.b->catalogue().stores, ElementsAre("a", "b"));
}

TEST(Stores, AreRecordedForCollectionsThatAreThere) {
  const TwoStores cluster;
  for (const auto& shard : {cluster.a, cluster.b}) {
    Catalogue nameless = shard->catalogue();
    nameless.stores.clear();
    shard->SetCatalogue(nameless);
  }
  EXPECT_TRUE(CreateWith({cluster.a, cluster.b}).ok());
  EXPECT_EQ(cluster.b->catalogue().version, 2);
  EXPECT_THAT(cluster.b->catalogue().stores, ElementsAre("a", "b"));
  EXPECT_TRUE(CreateWith({cluster.a, cluster.b}).ok());
  EXPECT_EQ(cluster.b->catalogue().version, 2);
}

TEST(Stores, AnEmptyOneDoesNotJoinInTheOldOnesPlace) {
  const TwoStores cluster;
  const auto empty = OnStore(1, "new");
  const absl::Status status = CreateWith({cluster.a, empty});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ShardOf(status), 1);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("runs on store new, which has 0 points, but the "
                        "cluster knows it by store b"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--accept_stores=1=new"));
  EXPECT_EQ(empty->calls("PutCatalogue"), 0);
  // Another shard's, or another store, does not help.
  EXPECT_FALSE(Accepting({cluster.a, empty}, {{0, "new"}}).ok());
  EXPECT_FALSE(Accepting({cluster.a, empty}, {{1, "b"}}).ok());
  EXPECT_TRUE(CreateWith({cluster.a, cluster.b}).ok());
}

TEST(Stores, AnAcceptedOneTakesTheOldOnesPlace) {
  const TwoStores cluster;
  const auto empty = OnStore(1, "new");
  EXPECT_TRUE(Accepting({cluster.a, empty}, {{1, "new"}}).ok());
  EXPECT_EQ(empty->catalogue().version, 2);
  EXPECT_THAT(empty->catalogue().stores, ElementsAre("a", "new"));
  EXPECT_TRUE(CreateWith({cluster.a, empty}).ok());
  // The old one does not come back by itself.
  EXPECT_THAT(std::string(CreateWith({cluster.a, cluster.b}).message()),
              HasSubstr("--accept_stores=1=b"));
}

TEST(Stores, ShardZeroGetsTheCatalogueBackFromACopy) {
  const TwoStores cluster;
  const auto empty = OnStore(0, "new");
  const absl::Status refused = CreateWith({empty, cluster.b});
  EXPECT_EQ(ShardOf(refused), 0) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("--accept_stores=0=new"));
  EXPECT_TRUE(Accepting({empty, cluster.b}, {{0, "new"}}).ok());
  for (const auto& shard : {empty, cluster.b}) {
    EXPECT_EQ(shard->catalogue().version, 2);
    EXPECT_NE(shard->catalogue().Find("c"), nullptr);
    EXPECT_THAT(shard->catalogue().stores, ElementsAre("new", "b"));
  }
}

TEST(Stores, WithoutCollectionsNothingIsLost) {
  const TwoStores cluster(/*with_collection=*/false);
  EXPECT_TRUE(CreateWith({cluster.a, cluster.b}).ok());
  EXPECT_TRUE(CreateWith({cluster.a, OnStore(1, "new")}).ok());
}

// --- Partial ----------------------------------------------------------------

TEST(PartialCoordinator, ServesWhatAnswersAndNamesWhatDoesNot) {
  for (const int32_t missing : {0, 1}) {
    FakeCluster cluster(2);
    ASSERT_TRUE(cluster.Create("c", 1).ok());
    std::vector<Point> points;
    for (PointId id = 0; id < 20; ++id) {
      points.push_back(MakePoint(id, {static_cast<float>(id)}));
    }
    ASSERT_TRUE(cluster.Upsert("c", points).ok());
    const absl::Status down = absl::UnavailableError("down");
    for (const char* method : {"Describe", "ReadCatalogue", "PutCatalogue",
                               "Search", "Get", "Count", "Write"}) {
      cluster.shard(missing).Fail(method, down);
    }
    EXPECT_FALSE(CreateWith(cluster.clients()).ok());
    CoordinatorOptions options;
    options.partial = true;
    auto partial = Coordinator::Create(cluster.clients(), options);
    ASSERT_TRUE(partial.ok()) << partial.status();
    cluster.coordinator = *std::move(partial);
    SearchRequest request = Nearest("c", {0}, 20);
    EXPECT_EQ(ShardOf(cluster.Search(request).status()), missing);
    request.partial_policy.kind = PartialPolicy::Kind::kAllow;
    const auto reply = cluster.Search(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->coverage.shards_ok, 1);
    EXPECT_GT(IdsOf(*reply).size(), 0U);
    EXPECT_LT(IdsOf(*reply).size(), 20U);
  }
}

TEST(PartialCoordinator, NeedsOneThatAnswers) {
  FakeCluster cluster(2);
  cluster.shard(0).Fail("Describe", absl::UnavailableError("down"));
  cluster.shard(1).Fail("Describe", absl::UnavailableError("down"));
  CoordinatorOptions options;
  options.partial = true;
  EXPECT_EQ(Coordinator::Create(cluster.clients(), options).status().code(),
            absl::StatusCode::kUnavailable);
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
  EXPECT_EQ(*cluster.Drop("a"), 1);
  auto again = cluster.Create("a", 1);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->number, 2u);
  EXPECT_EQ(*cluster.Count("a"), 0);
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
  EXPECT_EQ(ShardOf(cluster.Drop("a").status()), 1);
  EXPECT_NE(cluster.shard(1).catalogue().Find("a"), nullptr);
  EXPECT_EQ(cluster.Drop("a").status().code(), absl::StatusCode::kNotFound);
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
  ASSERT_TRUE(one.Drop("a").ok());
  ASSERT_TRUE(one.Create("a", 2).ok());
  batch.upserts = {MakePoint(1, {1, 2})};
  written = Wait<WriteReply>([&](Done<WriteReply> done) {
    (*two)->Upsert(batch, {}, std::move(done));
  });
  EXPECT_TRUE(written.ok()) << written.status();
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
        EXPECT_TRUE(cluster.Count("a").ok());
        if (i % 10 == 0) {
          const std::string name = absl::StrCat("t", t, "-", i);
          EXPECT_TRUE(cluster.Create(name, 1).ok());
          EXPECT_TRUE(cluster.Drop(name).ok());
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(*cluster.Count("a"), 100);
}

// A shard that miscounts, seen from the outside.
struct Miscount {
  std::function<void(ShardSearchReply*)> tell;
  const char* withheld;
};

TEST(Coordinator, WithholdsExactFromAShardThatMiscounts) {
  const std::vector<Miscount> miscounts = {
      {[](ShardSearchReply* r) { --r->accounts[0].evaluated; },
       "query 0: shard 1 accounts for 1 of 2 live rows"},
      {[](ShardSearchReply* r) { ++r->accounts[0].ruled_out; },
       "query 0: shard 1 accounts for 3 of 2 live rows"},
      {[](ShardSearchReply* r) { --r->catalogue_version; },
       "shard 1 answered at catalogue version "},
      {[](ShardSearchReply* r) { ++r->catalogue_version; },
       "shard 1 answered at catalogue version "},
      {[](ShardSearchReply* r) { r->slots.push_back(r->slots[0]); },
       "and again by shard 1"},
      {[](ShardSearchReply* r) {
         --r->rows_live;
         --r->accounts[0].evaluated;
       },
       "shard 1 reports 1 live rows but its slots hold 2"},
      {[](ShardSearchReply* r) { r->slots.pop_back(); },
       "is reported by no shard"}};
  FakeCluster cluster(2);
  const auto spec = cluster.Create("c", 1);
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::map<int32_t, int> placed;
  std::vector<Point> points;
  for (PointId id = 0; points.size() < 4; ++id) {
    const int32_t slot = SlotOf(id, spec->slots);
    // The last slot of all stays empty, to be left out.
    if (slot < spec->slots - 2 &&
        ++placed[spec->owner[static_cast<size_t>(slot)]] <= 2) {
      points.push_back(MakePoint(id, {static_cast<float>(id)}));
    }
  }
  ASSERT_TRUE(cluster.Upsert("c", points).ok());
  const auto honest = cluster.Search(Nearest("c", {0}, 4));
  ASSERT_TRUE(honest.ok()) << honest.status();
  EXPECT_TRUE(honest->results[0].exact) << honest->certificate.withheld;
  for (const Miscount& miscount : miscounts) {
    SCOPED_TRACE(miscount.withheld);
    cluster.shard(1).EditSearches(miscount.tell);
    const auto reply = cluster.Search(Nearest("c", {0}, 4));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_FALSE(reply->results[0].exact);
    EXPECT_THAT(reply->certificate.withheld, HasSubstr(miscount.withheld));
    EXPECT_EQ(IdsOf(*reply), IdsOf(*honest)) << "the hits are told anyway";
  }
}

}  // namespace
}  // namespace coterie
