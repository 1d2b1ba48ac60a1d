// Search through the coordinator, shards being fakes: equality with one shard,
// and the faults that others' coordinators were reported for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"
#include "coordinator/model_distance.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Each id on its shard.
CoordinatorOptions Placed(std::vector<std::pair<PointId, int32_t>> wishes) {
  CoordinatorOptions options;
  options.placement = [wishes = std::move(wishes)](int32_t slots, int32_t) {
    return PlacementOf(wishes, slots);
  };
  return options;
}

constexpr int32_t kManySlots = 1024;

TEST(Search, EqualsOneShardForEveryMetricAndNumberOfShards) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (Metric metric :
       {Metric::kSquaredL2, Metric::kInnerProduct, Metric::kCosine}) {
    for (int round = 0; round < 6; ++round) {
      const std::vector<Point> points =
          RandomPoints(static_cast<int64_t>(random() % 120), 3, &random);
      SearchRequest request;
      request.collection = "c";
      request.k = 1 + static_cast<int64_t>(random() % 40);
      request.offset =
          static_cast<int64_t>(random() % static_cast<uint64_t>(request.k));
      request.with_vectors = true;
      request.with_attributes.all = true;
      for (int q = 0; q < 4; ++q) {
        request.queries.emplace_back(RandomPoints(1, 3, &random)[0].vector);
      }
      for (int32_t shards : {1, 2, 3, 8}) {
        FakeCluster cluster(shards);
        ASSERT_TRUE(cluster.Create("c", 3, metric).ok());
        if (!points.empty()) {
          ASSERT_TRUE(cluster.Upsert("c", points).ok());
        }
        auto reply = cluster.Search(request);
        ASSERT_TRUE(reply.ok()) << reply.status();
        for (size_t q = 0; q < 4; ++q) {
          const auto& query = std::get<std::vector<float>>(request.queries[q]);
          const std::vector<Neighbor> expected =
              ModelNearest(metric, points, query, request.k - request.offset,
                           request.offset);
          std::vector<Neighbor> got;
          for (const Hit& hit : reply->results[q].hits) {
            got.push_back(hit.neighbor);
            EXPECT_EQ(ModelDistance(metric, query, hit.vector),
                      hit.neighbor.distance);
            EXPECT_EQ(std::get<int64_t>(hit.attributes.at("parity")),
                      static_cast<int64_t>(hit.neighbor.id % 2));
          }
          ASSERT_EQ(got, expected) << shards << " shards";
          EXPECT_TRUE(reply->results[q].exact) << reply->certificate.withheld;
        }
        EXPECT_EQ(reply->coverage.rows_total,
                  static_cast<int64_t>(points.size()));
      }
    }
  }
}

TEST(Search, CountsMessagesAndTimes) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  ASSERT_TRUE(cluster.Upsert("c", {MakePoint(1, {0})}).ok());
  cluster.shard(1).EditSearches([](ShardSearchReply* reply) {
    reply->times.queue_seconds = 100;
    reply->times.scan_seconds = 900;
  });
  SearchRequest request = Nearest("c", {0}, 1);
  request.queries.emplace_back(PointId{1});
  auto reply = cluster.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->cost.messages, 2 * 3 + 2);  // three searches, one get
  EXPECT_EQ(reply->cost.bytes_sent, 0);
  EXPECT_EQ(reply->cost.compute_seconds, 1000);
  EXPECT_EQ(reply->cost.measured_seconds, 0);
  EXPECT_GT(reply->total_seconds, 0);
  EXPECT_GE(reply->total_seconds, reply->merge_seconds);
  ASSERT_EQ(reply->shard_times.size(), 3u);
  EXPECT_EQ(reply->shard_times[2].first, 2);
  EXPECT_EQ(reply->shard_times[2].second.plan, "model");
}

// Ascending order is right for one metric and wrong for another.
TEST(Search, InnerProductKeepsTheLargestProductsOfAllShards) {
  FakeCluster cluster(2, {}, Placed({{1, 0}, {2, 0}, {3, 1}, {4, 1}}));
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kInnerProduct, kManySlots).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(1, {5}), MakePoint(2, {1}),
                                MakePoint(3, {9}), MakePoint(4, {7})})
                  .ok());
  auto reply = cluster.Search(Nearest("c", {1}, 2));
  ASSERT_TRUE(reply.ok());
  EXPECT_THAT(IdsOf(*reply), ElementsAre(3, 4));
  EXPECT_EQ(reply->results[0].hits[0].neighbor.distance, -9);
}

// De-duplication that looks at neighbours only lets an id through twice.
TEST(Search, AnIdOnTwoShardsIsReportedOnceAndAlarms) {
  FakeCluster cluster(2, {}, Placed({{7, 0}, {8, 1}}));
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, kManySlots).ok());
  ASSERT_TRUE(cluster.Upsert("c", {MakePoint(7, {1}), MakePoint(8, {2})}).ok());
  EXPECT_EQ(cluster.coordinator->duplicate_ids_met(), 0);
  cluster.shard(1).Plant("c", MakePoint(7, {3}));
  auto reply = cluster.Search(Nearest("c", {0}, 3));
  ASSERT_TRUE(reply.ok());
  ASSERT_THAT(IdsOf(*reply), ElementsAre(7, 8));
  EXPECT_EQ(reply->results[0].hits[0].neighbor.distance, 1);
  EXPECT_FALSE(reply->results[0].exact);
  EXPECT_NE(reply->certificate.withheld, "");
  EXPECT_EQ(cluster.coordinator->duplicate_ids_met(), 1);
}

// Arbitrary order among equals makes pages overlap.
TEST(Search, PagesOfTiesDoNotOverlap) {
  FakeShardClient::Options options;
  options.own_thread = true;  // replies come in any order
  FakeCluster cluster(3, options);
  ASSERT_TRUE(cluster.Create("c", 2).ok());
  std::vector<Point> points;
  for (PointId id = 1; id <= 10; ++id) {
    points.push_back(MakePoint(id, {1, 1}));
  }
  ASSERT_TRUE(cluster.Upsert("c", points).ok());
  for (int round = 0; round < 100; ++round) {
    auto first = cluster.Search(Nearest("c", {1, 1}, 5));
    SearchRequest next = Nearest("c", {1, 1}, 10);
    next.offset = 5;
    auto second = cluster.Search(next);
    ASSERT_THAT(IdsOf(*first), ElementsAre(1, 2, 3, 4, 5));
    ASSERT_THAT(IdsOf(*second), ElementsAre(6, 7, 8, 9, 10));
  }
}

// A target applied on each shard gives shards x k hits.
TEST(Search, KIsGlobalNotPerShard) {
  FakeCluster cluster(5);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  std::vector<Point> points;
  for (PointId id = 0; id < 200; ++id) {
    points.push_back(MakePoint(id, {static_cast<float>(id)}));
  }
  ASSERT_TRUE(cluster.Upsert("c", points).ok());
  EXPECT_THAT(IdsOf(*cluster.Search(Nearest("c", {0}, 7))),
              ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(IdsOf(*cluster.Search(Nearest("c", {0}, 1))), ElementsAre(0));
}

// Shard-local positions instead of ids.
TEST(Search, IdsAreThoseStored) {
  FakeCluster cluster(2, {}, Placed({{100, 0}, {101, 0}, {200, 1}, {201, 1}}));
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, kManySlots).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(100, {0}), MakePoint(101, {1}),
                                MakePoint(200, {2}), MakePoint(201, {3})})
                  .ok());
  EXPECT_THAT(IdsOf(*cluster.Search(Nearest("c", {2}, 2))),
              ElementsAre(200, 101));
}

TEST(Search, MoreThanThereIsGivesAShortList) {
  FakeCluster cluster(3, {}, Placed({{10, 0}, {20, 1}, {30, 2}}));
  ASSERT_TRUE(cluster.Create("c", 2, Metric::kSquaredL2, kManySlots).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(10, {1, 0}), MakePoint(20, {2, 0}),
                                MakePoint(30, {3, 0})})
                  .ok());
  auto reply = cluster.Search(Nearest("c", {0, 0}, 10));
  ASSERT_TRUE(reply.ok());
  EXPECT_THAT(IdsOf(*reply), ElementsAre(10, 20, 30));
}

TEST(Search, NothingStoredIsAnEmptyListForEveryBatchSize) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 3).ok());
  for (size_t batch : {1u, 19u, 20u, 21u, 64u}) {
    for (int64_t k : {1, 2}) {
      SearchRequest request = Nearest("c", {0, 0, 0}, k);
      request.queries.resize(batch, request.queries[0]);
      auto reply = cluster.Search(request);
      ASSERT_TRUE(reply.ok());
      ASSERT_EQ(reply->results.size(), batch);
      for (const auto& result : reply->results) {
        EXPECT_THAT(result.hits, IsEmpty());
        EXPECT_TRUE(result.exact);
      }
    }
  }
}

TEST(Search, RadiusIsInclusiveAndItsLimitIsNamed) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  std::vector<Point> points;
  for (PointId id = 0; id < 10; ++id) {
    points.push_back(MakePoint(id, {static_cast<float>(id)}));
  }
  ASSERT_TRUE(cluster.Upsert("c", points).ok());
  SearchRequest request = Nearest("c", {0}, 6);  // five are allowed
  request.radius = 16;
  EXPECT_THAT(IdsOf(*cluster.Search(request)), ElementsAre(0, 1, 2, 3, 4));
  request.radius = 25;
  const absl::Status over = cluster.Search(request).status();
  EXPECT_EQ(over.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(over.message()), HasSubstr("limit k"));
}

TEST(Search, TooManyWithinARadiusOnOneShardIsNoPartialAnswer) {
  FakeCluster cluster(2, {}, Placed({{1, 0}, {2, 0}, {3, 0}}));
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, kManySlots).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(1, {1}), MakePoint(2, {2}),
                                MakePoint(3, {3})})
                  .ok());
  SearchRequest request = Nearest("c", {0}, 3);  // two are allowed
  request.radius = 100;
  request.partial_policy.kind = PartialPolicy::Kind::kAllow;
  EXPECT_EQ(cluster.Search(request).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// A shard that remembers what it was asked.
class ListeningShard final : public FakeShardClient {
 public:
  using FakeShardClient::FakeShardClient;
  void Search(std::shared_ptr<const SearchRequest> request, CallContext call,
              Done<ShardSearchReply> done) override {
    asked = request;
    FakeShardClient::Search(std::move(request), std::move(call),
                            std::move(done));
  }
  std::shared_ptr<const SearchRequest> asked;
};

// So many of them, with an empty collection "c".
struct ListeningShards {
  explicit ListeningShards(int32_t count) {
    std::vector<std::shared_ptr<ShardClient>> clients;
    for (int32_t i = 0; i < count; ++i) {
      shards.push_back(std::make_shared<ListeningShard>(i, count));
      clients.push_back(shards.back());
    }
    coordinator = *Coordinator::Create(std::move(clients), {});
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = 1;
    EXPECT_TRUE(Wait<CollectionSpec>([&](Done<CollectionSpec> done) {
                  coordinator->CreateCollection(spec, {}, std::move(done));
                }).ok());
  }
  // What shard `i` hears of the search.
  SearchRequest Asked(size_t i, const SearchRequest& request) {
    EXPECT_TRUE(Wait<SearchReply>([&](Done<SearchReply> done) {
                  coordinator->Search(request, {}, std::move(done));
                }).ok());
    return *shards[i]->asked;
  }
  std::vector<std::shared_ptr<ListeningShard>> shards;
  std::shared_ptr<Coordinator> coordinator;
};

TEST(Search, ShardsAreToldTheNumberAllowedWithinARadius) {
  ListeningShards shards(1);
  SearchRequest request = Nearest("c", {0}, 10001);
  request.radius = 1;
  EXPECT_EQ(shards.Asked(0, request).k, 10000);
  EXPECT_EQ(shards.Asked(0, Nearest("c", {0}, 10000)).k, 10000);
}

TEST(Search, ThresholdsAreSharedOnlyWhereEveryShardMustAnswerInOneRound) {
  ListeningShards shards(2);
  SearchRequest request = Nearest("c", {0}, 10);
  const auto first = shards.Asked(0, request).thresholds;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->size(), 1u);
  EXPECT_EQ(shards.shards[1]->asked->thresholds, first);
  EXPECT_NE(shards.Asked(0, request).thresholds, first);  // one search's own
  // A first round asks for fewer than k.
  EXPECT_EQ(shards.Asked(0, Nearest("c", {0}, 1000)).thresholds, nullptr);
  for (const auto kind :
       {PartialPolicy::Kind::kAllow, PartialPolicy::Kind::kRequire}) {
    SearchRequest partial = request;
    partial.partial_policy.kind = kind;
    EXPECT_EQ(shards.Asked(0, partial).thresholds, nullptr);
  }
  request.radius = 1;
  EXPECT_EQ(shards.Asked(0, request).thresholds, nullptr);
}

TEST(Search, LimitsAreNamedBeforeAnyShardHears) {
  CoordinatorOptions options;
  options.limits.k = 10;
  options.limits.queries = 4;
  options.limits.queries_times_k = 20;
  FakeCluster cluster(1, {}, options);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  auto refusal = [&](size_t queries, int64_t k, bool radius) {
    SearchRequest request = Nearest("c", {0}, k);
    request.queries.resize(queries, request.queries[0]);
    if (radius) {
      request.radius = 1;
    }
    const absl::Status status = cluster.Search(request).status();
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(2, 10, false), "");
  EXPECT_EQ(refusal(2, 11, true), "");
  EXPECT_THAT(refusal(1, 11, false), HasSubstr("limit k of 10"));
  EXPECT_THAT(refusal(1, 12, true), HasSubstr("limit k of 10"));
  EXPECT_THAT(refusal(5, 1, false), HasSubstr("limit queries of 4"));
  EXPECT_THAT(refusal(3, 7, false), HasSubstr("limit queries_times_k of 20"));
  EXPECT_THAT(refusal(3, 8, true), HasSubstr("limit queries_times_k of 20"));
  EXPECT_EQ(cluster.shard(0).calls("Search"), 2);
}

TEST(Search, QueriesByIdUseTheStoredVector) {
  FakeCluster cluster(3);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(1, {1}), MakePoint(2, {5}),
                                MakePoint(3, {6})})
                  .ok());
  SearchRequest request;
  request.collection = "c";
  request.k = 2;
  request.queries = {PointId{2}, std::vector<float>{0}, PointId{2}};
  auto reply = cluster.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(IdsOf(*reply, 0), ElementsAre(2, 3));
  EXPECT_THAT(IdsOf(*reply, 1), ElementsAre(1, 2));
  EXPECT_THAT(IdsOf(*reply, 2), ElementsAre(2, 3));
  EXPECT_EQ(reply->results[0].hits[0].neighbor.distance, 0);
}

TEST(Search, AQueryByAnUnknownIdIsNotFoundNamingIt) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  ASSERT_TRUE(cluster.Upsert("c", {MakePoint(1, {1})}).ok());
  SearchRequest request = Nearest("c", {0}, 1);
  request.queries.emplace_back(PointId{1});
  request.queries.emplace_back(PointId{77});
  const absl::Status status = cluster.Search(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FieldOf(status), "queries[2].id");
  EXPECT_THAT(std::string(status.message()), HasSubstr("77"));
  EXPECT_EQ(cluster.shard(0).calls("Search"), 0);
}

TEST(Search, BadRequestsAreNamedAndNoShardHears) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 2).ok());
  ASSERT_TRUE(cluster.Create("cos", 2, Metric::kCosine).ok());
  auto field = [&](SearchRequest request) {
    const absl::Status status = cluster.Search(std::move(request)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return FieldOf(status).value_or("");
  };
  SearchRequest second = Nearest("c", {1, 2}, 1);
  second.queries.emplace_back(std::vector<float>{1, 2, 3});
  EXPECT_EQ(field(second), "queries[1].vector");
  EXPECT_EQ(field(Nearest("cos", {0, 0}, 1)), "queries[0].vector");
  EXPECT_EQ(field(Nearest("c", {NAN, 0}, 1)), "queries[0].vector");
  EXPECT_EQ(field(Nearest("c", {1, 2}, 0)), "k");
  SearchRequest none = Nearest("c", {1, 2}, 1);
  none.queries.clear();
  EXPECT_EQ(field(none), "queries");
  SearchRequest offset = Nearest("c", {1, 2}, 3);
  offset.offset = 3;
  EXPECT_EQ(field(offset), "offset");
  SearchRequest radius = Nearest("c", {1, 2}, 3);
  radius.radius = NAN;
  EXPECT_EQ(field(radius), "radius");
  EXPECT_EQ(cluster.shard(0).calls("Search"), 0);
}

TEST(Search, AnUnknownCollectionIsNamed) {
  FakeCluster cluster(2);
  const absl::Status status = cluster.Search(Nearest("nope", {1}, 1)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"nope\""));
}

TEST(Search, ADeadlinePassedIsSaidBeforeAnyShardHears) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  CallContext late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(cluster.Search(Nearest("c", {0}, 1), late).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cluster.shard(0).calls("Search"), 0);
}

// An empty reply where every shard timed out.
TEST(Search, AllShardsLateIsDeadlineExceededUnderEveryPolicy) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  for (int32_t i = 0; i < 2; ++i) {
    cluster.shard(i).Fail("Search", absl::DeadlineExceededError("late"));
  }
  for (PartialPolicy::Kind kind :
       {PartialPolicy::Kind::kFail, PartialPolicy::Kind::kAllow,
        PartialPolicy::Kind::kRequire}) {
    SearchRequest request = Nearest("c", {0}, 1);
    request.partial_policy = {kind, 0.01};
    EXPECT_EQ(cluster.Search(request).status().code(),
              absl::StatusCode::kDeadlineExceeded);
  }
}

// Failed shards that are collected and dropped.
TEST(Search, OneShardDownFailsOrIsReportedAsThePolicySays) {
  FakeCluster cluster(3, {}, Placed({{1, 0}, {2, 1}, {3, 2}}));
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, kManySlots).ok());
  ASSERT_TRUE(cluster
                  .Upsert("c", {MakePoint(1, {1}), MakePoint(2, {2}),
                                MakePoint(3, {3})})
                  .ok());
  for (const absl::Status& down :
       {absl::UnavailableError("gone"), absl::DeadlineExceededError("late"),
        Overloaded("full", absl::Milliseconds(1))}) {
    cluster.shard(0).Fail("Search", down);
    SearchRequest request = Nearest("c", {0}, 3);
    const absl::Status failed = cluster.Search(request).status();
    EXPECT_EQ(failed.code(), down.code());
    EXPECT_EQ(ShardOf(failed), 0);

    request.partial_policy.kind = PartialPolicy::Kind::kAllow;
    auto partial = cluster.Search(request);
    ASSERT_TRUE(partial.ok()) << partial.status();
    EXPECT_THAT(IdsOf(*partial), ElementsAre(2, 3));
    EXPECT_EQ(partial->coverage.shards_ok, 2);
    EXPECT_EQ(partial->coverage.shards_total, 3);
    EXPECT_EQ(partial->coverage.rows_covered, 2);
    EXPECT_TRUE(partial->coverage.estimated);
    EXPECT_FALSE(partial->results[0].exact);
  }
}

TEST(Search, RepliesEndedByCancellationAreCancelled) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  auto token = std::make_shared<CancelToken>();
  CallContext call;
  call.cancel = token;
  cluster.shard(1).Hold("Search");
  Outcome<SearchReply> outcome;
  cluster.coordinator->Search(Nearest("c", {0}, 1), call, outcome.done());
  EXPECT_EQ(outcome.times(), 0);
  token->Cancel();
  cluster.shard(1).Fail("Search", absl::OkStatus());
  cluster.shard(1).Release();
  EXPECT_EQ(outcome.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(outcome.times(), 1);
}

TEST(Search, TheCoordinatorMayGoBeforeItsCallsEnd) {
  FakeCluster cluster(2);
  ASSERT_TRUE(cluster.Create("c", 1).ok());
  cluster.shard(1).Hold("Search");
  Outcome<SearchReply> outcome;
  cluster.coordinator->Search(Nearest("c", {0}, 1), {}, outcome.done());
  cluster.coordinator.reset();
  cluster.shard(1).Release();
  EXPECT_TRUE(outcome.Wait().ok());
}

}  // namespace
}  // namespace coterie
