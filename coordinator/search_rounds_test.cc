#include "coordinator/search_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"
#include "index/top_k.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// 64 slots dealt to the shards in turn.
CollectionSpec Spec(int32_t shards) {
  CollectionSpec spec;
  spec.name = "c";
  spec.dimension = 1;
  for (int32_t slot = 0; slot < spec.slots; ++slot) {
    spec.owner.push_back(slot % shards);
  }
  return spec;
}

// The answer of one query by a shard that was asked for so many.
ShardSearchReply Reply(std::vector<Neighbor> rows, int64_t asked) {
  ShardSearchReply reply;
  reply.rows_live = static_cast<int64_t>(rows.size());
  reply.asked = asked;
  std::vector<Hit>& hits = reply.results.emplace_back();
  for (const Neighbor& neighbor : rows) {
    if (static_cast<int64_t>(hits.size()) < asked) {
      hits.emplace_back().neighbor = neighbor;
    }
  }
  return reply;
}

std::vector<Neighbor> ListOf(const ShardSearchReply& reply) {
  std::vector<Neighbor> list;
  for (const Hit& hit : reply.results[0]) {
    list.push_back(hit.neighbor);
  }
  return list;
}

TEST(FirstAsk, IsAShareWithRoomAndNeverMoreThanK) {
  EXPECT_EQ(FirstAsk(Nearest("c", {0}, 1000), Spec(8)), 173);
  SearchRequest many = Nearest("c", {0}, 1000);
  many.queries.resize(1000, many.queries[0]);
  EXPECT_GT(FirstAsk(many, Spec(8)), 173) << "a thousand chances to be short";
  for (const int64_t k : {64, 65, 100, 10000}) {
    for (const int32_t shards : {2, 3, 8, 64}) {
      const int64_t asked = FirstAsk(Nearest("c", {0}, k), Spec(shards));
      EXPECT_LE(asked, k);
      EXPECT_GT(asked, k / shards);
    }
  }
}

TEST(FirstAsk, GoesByTheShardWithMostSlots) {
  CollectionSpec skewed = Spec(2);
  std::fill(skewed.owner.begin(), skewed.owner.begin() + 60, 0);
  const int64_t asked = FirstAsk(Nearest("c", {0}, 10000), skewed);
  EXPECT_GT(asked, 10000 * 62 / 64);
  EXPECT_LT(asked, 10000);
}

TEST(FirstAsk, IsAllAtOnceWhereThereIsNothingToSave) {
  EXPECT_EQ(FirstAsk(Nearest("c", {0}, 63), Spec(8)), 63);
  EXPECT_EQ(FirstAsk(Nearest("c", {0}, 5000), Spec(1)), 5000);
  CollectionSpec view = Spec(2);
  std::replace(view.owner.begin(), view.owner.end(), 1, -1);
  EXPECT_EQ(FirstAsk(Nearest("c", {0}, 5000), view), 5000);
  SearchRequest radius = Nearest("c", {0}, 5001);
  radius.radius = 1;
  EXPECT_EQ(FirstAsk(radius, Spec(8)), 5000);
}

TEST(CutShort, RarelyForIdsPlacedByTheirHash) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  int second_rounds = 0;
  for (int search = 0; search < 2000; ++search) {
    const int32_t shards = 2 + static_cast<int32_t>(random() % 7);
    const CollectionSpec spec = Spec(shards);
    const SearchRequest request =
        Nearest("c", {0}, 64 + static_cast<int64_t>(random() % 200));
    std::vector<std::vector<Neighbor>> rows(static_cast<size_t>(shards));
    for (int64_t i = 0; i < 2 * request.k; ++i) {
      const PointId id = random();
      const int32_t slot = SlotOf(id, spec.slots);
      rows[static_cast<size_t>(spec.owner[static_cast<size_t>(slot)])]
          .push_back({id, static_cast<double>(i)});
    }
    ShardReplies replies;
    for (const auto& own : rows) {
      replies.push_back(Reply(own, FirstAsk(request, spec)));
    }
    second_rounds += CutShort(request, replies).empty() ? 0 : 1;
  }
  EXPECT_LE(second_rounds, 10) << "two are allowed for";
}

TEST(CutShort, TiesAtTheKthAreDecidedById) {
  const SearchRequest request = Nearest("c", {0}, 3);
  // (3, 1.0) may hide behind (2, 1.0), and is nearer than (5, 1.0).
  ShardReplies replies;
  replies.push_back(Reply({{1, 0.0}, {2, 1.0}, {3, 1.0}}, 2));
  replies.push_back(Reply({{5, 1.0}}, 2));
  EXPECT_THAT(CutShort(request, replies), ElementsAre(0));
  // Whatever hides behind (2, 1.0) comes after it, the third.
  replies[1] = Reply({{0, 1.0}}, 2);
  EXPECT_THAT(CutShort(request, replies), IsEmpty());
}

TEST(CutShort, IsNoListThatWasShortOrAskedInFull) {
  const SearchRequest request = Nearest("c", {0}, 3);
  ShardReplies replies;
  replies.push_back(Reply({{1, 0.0}}, 2));
  replies.push_back(absl::UnavailableError("gone"));
  EXPECT_THAT(CutShort(request, replies), IsEmpty());
  replies[0] = Reply({{1, 0.0}, {2, 1.0}, {3, 2.0}, {4, 3.0}}, 3);
  EXPECT_THAT(CutShort(request, replies), IsEmpty());
  replies[0] = Reply({{1, 0.0}, {2, 1.0}, {3, 2.0}}, 2);
  EXPECT_THAT(CutShort(request, replies), ElementsAre(0));
  SearchRequest radius = request;
  radius.radius = 9;
  EXPECT_THAT(CutShort(radius, replies), IsEmpty());
}

// Few distances and few ids: ties, and ids on several shards.
TEST(CutShort, ListsNotCutShortMergeAsIfWhole) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  int enough = 0;
  for (int round = 0; round < 20000; ++round) {
    const size_t shards = 1 + random() % 4;
    const int64_t k = 1 + static_cast<int64_t>(random() % 12);
    std::vector<std::vector<Neighbor>> whole(shards);
    std::vector<std::vector<Neighbor>> lists(shards);
    ShardReplies replies;
    for (size_t i = 0; i < shards; ++i) {
      std::map<PointId, double> rows;
      for (uint64_t n = random() % 12; n > 0; --n) {
        rows[random() % 40] = static_cast<double>(random() % 5);
      }
      for (const auto& [id, distance] : rows) {
        whole[i].push_back({id, distance});
      }
      std::sort(whole[i].begin(), whole[i].end(), NeighborLess);
      const int64_t asked =
          std::min<int64_t>(k, 1 + static_cast<int64_t>(random() % 8));
      replies.push_back(Reply(whole[i], asked));
      lists[i] = ListOf(*replies[i]);
    }
    const SearchRequest request = Nearest("c", {0}, k);
    const std::vector<int32_t> cut = CutShort(request, replies);
    for (const int32_t i : cut) {
      EXPECT_LT(replies[static_cast<size_t>(i)]->asked, k);
    }
    if (cut.empty()) {
      ++enough;
      ASSERT_EQ(MergeTopK(lists, k).neighbors, MergeTopK(whole, k).neighbors)
          << "round " << round;
    }
  }
  EXPECT_GT(enough, 1000);
}

TEST(BytesNotSent, CountsHitsThatOtherProcessesKept) {
  SearchRequest request = Nearest("c", {0}, 100);
  std::vector<Neighbor> rows;
  for (PointId id = 0; id < 90; ++id) {
    rows.push_back({id, 1.0});
  }
  ShardReplies replies;
  replies.push_back(Reply(rows, 60));
  replies.push_back(Reply(rows, 100));
  replies.push_back(absl::UnavailableError("gone"));
  EXPECT_EQ(BytesNotSent(request, Spec(3), replies), 0) << "in one process";
  replies[0]->link.bytes_received = 1000;
  replies[1]->link.bytes_received = 1600;
  EXPECT_EQ(BytesNotSent(request, Spec(3), replies), 30 * 16);
  request.with_vectors = true;
  EXPECT_EQ(BytesNotSent(request, Spec(3), replies), 30 * (16 + 4));
  request.radius = 9;
  EXPECT_EQ(BytesNotSent(request, Spec(3), replies), 0);
}

std::vector<Neighbor> NeighborsOf(const SearchReply& reply, size_t query) {
  std::vector<Neighbor> neighbors;
  for (const Hit& hit : reply.results[query].hits) {
    neighbors.push_back(hit.neighbor);
  }
  return neighbors;
}

// Slots anywhere, even all on one shard.
CoordinatorOptions AnyPlacement(uint64_t seed) {
  CoordinatorOptions options;
  options.placement = [seed](int32_t slots, int32_t shards) {
    std::mt19937_64 random(seed);
    const uint64_t some = 1 + random() % static_cast<uint64_t>(shards);
    std::vector<int32_t> owner;
    for (int32_t slot = 0; slot < slots; ++slot) {
      owner.push_back(static_cast<int32_t>(random() % some));
    }
    return owner;
  };
  return options;
}

// A request for many neighbours of four points.
SearchRequest AnyRequest(std::mt19937_64* random) {
  SearchRequest request;
  request.collection = "c";
  request.k = 64 + static_cast<int64_t>((*random)() % 200);
  request.offset = static_cast<int64_t>((*random)() % 2 * ((*random)() % 64));
  request.with_vectors = true;
  request.with_attributes.all = true;
  for (int q = 0; q < 4; ++q) {
    request.queries.emplace_back(RandomPoints(1, 3, random)[0].vector);
  }
  return request;
}

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};

TEST(SearchInRounds, EqualsTheModelForAnyPlacement) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 24; ++round) {
    FakeShardClient::Options fakes;
    fakes.own_thread = round % 2 == 1;
    FakeCluster cluster(1 + static_cast<int32_t>(random() % 8), fakes,
                        AnyPlacement(random()));
    const auto metric = kMetrics[round % 3];
    ASSERT_TRUE(cluster.Create("c", 3, metric).ok());
    const std::vector<Point> points =
        RandomPoints(1 + static_cast<int64_t>(random() % 500), 3, &random);
    ASSERT_TRUE(cluster.Upsert("c", points).ok());
    const SearchRequest request = AnyRequest(&random);
    const auto reply = cluster.Search(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    for (size_t q = 0; q < request.queries.size(); ++q) {
      const auto& query = std::get<std::vector<float>>(request.queries[q]);
      ASSERT_EQ(NeighborsOf(*reply, q),
                ModelNearest(metric, points, query, request.k - request.offset,
                             request.offset));
      EXPECT_TRUE(reply->results[q].exact) << reply->certificate.withheld;
      for (const Hit& hit : reply->results[q].hits) {
        EXPECT_EQ(hit.vector.size(), 3u);
        EXPECT_EQ(std::get<int64_t>(hit.attributes.at("parity")),
                  static_cast<int64_t>(hit.neighbor.id % 2));
      }
    }
    EXPECT_GE(reply->rounds, 1);
  }
}

// Two shards of 300 points, all on shard 0 nearer to 0 than any on shard 1, and
// a search for the 64 nearest that has asked shard 1 but not heard from it.
class NearOnShard0 : public ::testing::Test {
 protected:
  static constexpr int64_t kK = 64;
  static constexpr size_t kEach = 300;

  NearOnShard0() : cluster_(2) {
    const auto spec = cluster_.Create("c", 1);
    EXPECT_TRUE(spec.ok()) << spec.status();
    for (PointId id = 0; points_[0].size() < kEach || points_[1].size() < kEach;
         ++id) {
      const int32_t slot = SlotOf(id, spec->slots);
      const int32_t owner = spec->owner[static_cast<size_t>(slot)];
      std::vector<Point>& own = points_[owner];
      if (own.size() < kEach) {
        const auto rank = static_cast<float>(own.size());
        own.push_back(MakePoint(id, {rank + (owner == 0 ? 0.0f : 1000.0f)}));
      }
    }
    for (const auto& own : points_) {
      EXPECT_TRUE(cluster_.Upsert("c", own).ok());
    }
    for (int32_t i = 0; i < 2; ++i) {
      cluster_.shard(i).EditSearches([](ShardSearchReply* reply) {
        reply->link.bytes_sent = 100;
        reply->link.bytes_received = 1000;
        reply->times.scan_seconds = 1;
      });
    }
    asked_ = FirstAsk(Nearest("c", {0}, kK), *spec);
    EXPECT_LT(asked_, kK);
  }

  Outcome<SearchReply> Begin(PartialPolicy::Kind kind) {
    cluster_.shard(1).Hold("Search");
    SearchRequest request = Nearest("c", {0}, kK);
    request.partial_policy.kind = kind;
    Outcome<SearchReply> outcome;
    cluster_.coordinator->Search(request, call_, outcome.done());
    EXPECT_EQ(cluster_.shard(0).calls("Search"), 1);
    return outcome;
  }

  // The nearest of all points there are, or of one shard's.
  static std::vector<Neighbor> Model(const std::vector<Point>& points) {
    return ModelNearest(Metric::kSquaredL2, points, std::vector<float>{0}, kK);
  }
  std::vector<Point> All() const {
    std::vector<Point> all = points_[0];
    all.insert(all.end(), points_[1].begin(), points_[1].end());
    return all;
  }

  FakeCluster cluster_;
  std::vector<Point> points_[2];
  int64_t asked_ = 0;
  CallContext call_;
};

TEST_F(NearOnShard0, AsksOnlyTheShardCutShortAgainWithinTheSameDeadline) {
  call_.deadline = absl::Now() + absl::Hours(1);
  Outcome<SearchReply> outcome = Begin(PartialPolicy::Kind::kFail);
  cluster_.shard(1).Release();
  const auto reply = outcome.Wait();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(NeighborsOf(*reply, 0), Model(All()));
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  EXPECT_EQ(reply->rounds, 2);
  EXPECT_EQ(cluster_.shard(0).calls("Search"), 2);
  EXPECT_EQ(cluster_.shard(1).calls("Search"), 1);
  EXPECT_EQ(cluster_.shard(0).last_call("Search").deadline,
            cluster_.shard(1).last_call("Search").deadline);
  // Work and messages of both rounds; what the second replaced was in vain.
  EXPECT_EQ(reply->cost.messages, 6);
  EXPECT_EQ(reply->cost.bytes_received, 3000);
  EXPECT_EQ(reply->cost.bytes_saved, (kK - asked_) * 16 - 1100);
  EXPECT_EQ(reply->cost.compute_seconds, 2);
  EXPECT_EQ(reply->shard_times[0].second.scan_seconds, 2);
  EXPECT_EQ(reply->shard_times[0].second.rows_scanned, 600);
  EXPECT_EQ(reply->shard_times[1].second.scan_seconds, 1);
}

TEST_F(NearOnShard0, DeletesBetweenRoundsBringTheOtherListUpShort) {
  Outcome<SearchReply> outcome = Begin(PartialPolicy::Kind::kFail);
  std::vector<PointId> gone;
  while (points_[0].size() > 5) {
    gone.push_back(points_[0].back().id);
    points_[0].pop_back();
  }
  ASSERT_TRUE(cluster_.Delete("c", gone).ok());
  cluster_.shard(1).Release();
  const auto reply = outcome.Wait();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(NeighborsOf(*reply, 0), Model(All()));
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  EXPECT_EQ(reply->rounds, 3);
  EXPECT_EQ(cluster_.shard(1).calls("Search"), 2);
  EXPECT_EQ(reply->certificate.shards[0].rows_live, 5) << "the second answer's";
}

TEST_F(NearOnShard0, AShardLostBetweenRoundsIsMissing) {
  Outcome<SearchReply> outcome = Begin(PartialPolicy::Kind::kAllow);
  cluster_.shard(0).FailOnce("Search", absl::UnavailableError("gone"));
  cluster_.shard(1).Release();
  const auto reply = outcome.Wait();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(NeighborsOf(*reply, 0), Model(points_[1]));
  EXPECT_FALSE(reply->results[0].exact);
  EXPECT_EQ(reply->coverage.shards_ok, 1);
  ASSERT_EQ(reply->coverage.missing.size(), 1u);
  EXPECT_EQ(reply->coverage.missing[0].shard_id, 0);
  EXPECT_EQ(reply->rounds, 3);
}

TEST_F(NearOnShard0, AShardLostBetweenRoundsFailsTheSearchByDefault) {
  Outcome<SearchReply> outcome = Begin(PartialPolicy::Kind::kFail);
  cluster_.shard(0).FailOnce("Search", absl::UnavailableError("gone"));
  cluster_.shard(1).Release();
  const absl::Status status = outcome.Wait().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 0);
}

TEST_F(NearOnShard0, CancellationBetweenRoundsIsHeard) {
  auto token = std::make_shared<CancelToken>();
  call_.cancel = token;
  Outcome<SearchReply> outcome = Begin(PartialPolicy::Kind::kAllow);
  token->Cancel();
  cluster_.shard(1).Release();
  EXPECT_EQ(outcome.Wait().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cluster_.shard(0).calls("Search"), 1);
}

TEST_F(NearOnShard0, TheCertificateIsOfTheAnswersThatAreUsed) {
  // Shard 0 miscounts in its first answer, then in its second.
  for (const int lie : {1, 2}) {
    int answer = 0;
    cluster_.shard(0).EditSearches([&answer, lie](ShardSearchReply* reply) {
      reply->accounts[0].evaluated -= ++answer == lie ? 1 : 0;
    });
    const auto reply = cluster_.Search(Nearest("c", {0}, kK));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(answer, 2);
    EXPECT_EQ(reply->results[0].exact, lie == 1);
  }
}

TEST_F(NearOnShard0, AnIdOnTwoShardsIsReportedOnceAndWithholds) {
  // The nearest point again, a little farther on the other shard.
  const PointId id = points_[0][0].id;
  cluster_.shard(1).Plant("c", MakePoint(id, {0.5f}));
  const auto reply = cluster_.Search(Nearest("c", {0}, kK));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(NeighborsOf(*reply, 0), Model(All()));
  EXPECT_FALSE(reply->results[0].exact);
  EXPECT_EQ(cluster_.coordinator->duplicate_ids_met(), 1);
}

TEST_F(NearOnShard0, ARadiusIsAskedOnce) {
  SearchRequest request = Nearest("c", {0}, kK + 1);
  request.radius = (kK - 1) * (kK - 1);  // inclusive: kK points
  const auto reply = cluster_.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(NeighborsOf(*reply, 0), Model(All()));
  EXPECT_TRUE(reply->results[0].exact) << reply->certificate.withheld;
  EXPECT_EQ(reply->rounds, 1);
  EXPECT_EQ(reply->cost.bytes_saved, 0);
}

TEST_F(NearOnShard0, MoreHitsThanTheFirstAskAreMalformed) {
  cluster_.shard(1).EditSearches([](ShardSearchReply* reply) {
    Hit extra = reply->results[0].back();
    ++extra.neighbor.distance;
    ++extra.neighbor.id;
    reply->results[0].push_back(extra);
  });
  const auto reply = cluster_.Search(Nearest("c", {0}, kK));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_FALSE(reply->results[0].exact);
  EXPECT_THAT(reply->certificate.withheld,
              HasSubstr("shard 1 answered query 0 with more hits than asked"));
}

}  // namespace
}  // namespace coterie
