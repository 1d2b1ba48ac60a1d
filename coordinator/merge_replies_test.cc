#include "coordinator/merge_replies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "api/placement.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kVersion = 7;

// Two shards of two slots each.
CollectionSpec Spec() {
  CollectionSpec spec;
  spec.name = "c";
  spec.dimension = 1;
  spec.slots = 4;
  spec.owner = {0, 0, 1, 1};
  return spec;
}

SearchRequest Request(int64_t k, size_t queries = 1) {
  SearchRequest request = Nearest("c", {0}, k);
  request.queries.resize(queries, request.queries[0]);
  return request;
}

Hit MakeHit(PointId id, double distance) {
  Hit hit;
  hit.neighbor = {id, distance};
  hit.vector = {static_cast<float>(id)};
  hit.attributes["id"] = static_cast<int64_t>(id);
  return hit;
}

// A sound reply of a shard of Spec() whose rows are exactly the hits.
ShardSearchReply Reply(int32_t shard, std::vector<Hit> hits,
                       size_t queries = 1) {
  ShardSearchReply reply;
  reply.shard_id = shard;
  reply.catalogue_version = kVersion;
  reply.sequence = 10 + shard;
  reply.rows_live = static_cast<int64_t>(hits.size());
  reply.slots = {{2 * shard, 1, reply.rows_live, 0}, {2 * shard + 1, 0, 0, 0}};
  QueryAccount account;
  account.evaluated = reply.rows_live;
  reply.accounts.assign(queries, account);
  reply.results.assign(queries, hits);
  return reply;
}

ShardReplies TwoShards() {
  ShardReplies replies;
  replies.push_back(Reply(0, {MakeHit(1, 1.0), MakeHit(4, 4.0)}));
  replies.push_back(Reply(1, {MakeHit(2, 2.0), MakeHit(3, 3.0)}));
  return replies;
}

absl::StatusOr<MergedSearch> Merge(const SearchRequest& request,
                                   ShardReplies replies) {
  for (auto& reply : replies) {
    if (reply.ok()) {
      reply->asked = request.k;
    }
  }
  return MergeReplies(request, Spec(), kVersion, std::move(replies));
}

TEST(MergeReplies, InterleavesShardsAndKeepsPayloadsWithTheirHit) {
  auto merged = Merge(Request(3), TwoShards());
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(IdsOf(merged->reply), ElementsAre(1, 2, 3));
  for (const Hit& hit : merged->reply.results[0].hits) {
    EXPECT_THAT(hit.vector, ElementsAre(static_cast<float>(hit.neighbor.id)));
    EXPECT_EQ(std::get<int64_t>(hit.attributes.at("id")),
              static_cast<int64_t>(hit.neighbor.id));
  }
  EXPECT_TRUE(merged->reply.results[0].exact);
  EXPECT_EQ(merged->reply.certificate.withheld, "");
  EXPECT_EQ(merged->reply.certificate.map_version, kVersion);
  ASSERT_EQ(merged->reply.certificate.shards.size(), 2u);
  EXPECT_EQ(merged->reply.certificate.shards[1].sequence, 11);
  EXPECT_EQ(merged->reply.certificate.shards[1].rows_live, 2);
  EXPECT_EQ(merged->reply.certificate.shards[1].slots.size(), 2u);
  EXPECT_EQ(merged->reply.certificate.shards[1].accounts.size(), 1u);
  EXPECT_EQ(merged->reply.coverage.rows_total, 4);
  EXPECT_EQ(merged->reply.coverage.rows_covered, 4);
  EXPECT_FALSE(merged->reply.coverage.estimated);
}

TEST(MergeReplies, SkipsTheOffsetAfterTheMerge) {
  SearchRequest request = Request(4);
  request.offset = 2;
  auto merged = Merge(request, TwoShards());
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(IdsOf(merged->reply), ElementsAre(3, 4));
}

TEST(MergeReplies, OffsetBeyondTheHitsIsAnEmptyPage) {
  SearchRequest request = Request(9);
  request.offset = 6;
  auto merged = Merge(request, TwoShards());
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(IdsOf(merged->reply), IsEmpty());
}

TEST(MergeReplies, EmptyShardsGiveAnEmptyExactResult) {
  ShardReplies replies;
  replies.push_back(Reply(0, {}));
  replies.push_back(Reply(1, {}));
  auto merged = Merge(Request(3), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(IdsOf(merged->reply), IsEmpty());
  EXPECT_TRUE(merged->reply.results[0].exact);
}

TEST(MergeReplies, AnIdOnTwoShardsIsReportedOnceAtItsLeastDistance) {
  ShardReplies replies;
  replies.push_back(Reply(0, {MakeHit(7, 0.10)}));
  replies.push_back(Reply(1, {MakeHit(8, 0.11), MakeHit(7, 0.12)}));
  auto merged = Merge(Request(3), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  ASSERT_THAT(IdsOf(merged->reply), ElementsAre(7, 8));
  EXPECT_EQ(merged->reply.results[0].hits[0].neighbor.distance, 0.10);
  EXPECT_EQ(merged->duplicate_ids, 1);
  EXPECT_FALSE(merged->reply.results[0].exact);
  EXPECT_THAT(merged->reply.certificate.withheld,
              HasSubstr("more than one shard"));
}

TEST(MergeReplies, ADuplicateInOneQueryWithholdsAll) {
  ShardReplies replies;
  replies.push_back(Reply(0, {MakeHit(7, 1.0)}, 2));
  replies.push_back(Reply(1, {MakeHit(8, 2.0)}, 2));
  replies[1]->results[1][0].neighbor.id = 7;
  auto merged = Merge(Request(2, 2), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_FALSE(merged->reply.results[0].exact);
  EXPECT_FALSE(merged->reply.results[1].exact);
}

struct Lie {
  const char* name;
  std::function<void(ShardReplies*)> tell;
  const char* withheld;
};

class EveryLie : public ::testing::TestWithParam<Lie> {};

TEST_P(EveryLie, WithholdsTheCertificate) {
  ShardReplies replies = TwoShards();
  GetParam().tell(&replies);
  auto merged = Merge(Request(3), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_FALSE(merged->reply.results[0].exact);
  EXPECT_THAT(merged->reply.certificate.withheld,
              HasSubstr(GetParam().withheld));
  EXPECT_THAT(IdsOf(merged->reply), ElementsAre(1, 2, 3));
}

INSTANTIATE_TEST_SUITE_P(
    MergeReplies, EveryLie,
    ::testing::Values(
        Lie{"OldVersion",
            [](ShardReplies* r) { (*r)[1]->catalogue_version = kVersion - 1; },
            "shard 1 answered at catalogue version 6, expected 7"},
        Lie{"NewVersion",
            [](ShardReplies* r) { (*r)[0]->catalogue_version = kVersion + 1; },
            "shard 0 answered at catalogue version 8"},
        Lie{"SlotMissing", [](ShardReplies* r) { (*r)[1]->slots.pop_back(); },
            "slot 3 is reported by no shard"},
        Lie{"SlotTwiceOnOneShard",
            [](ShardReplies* r) {
              (*r)[0]->slots.push_back({1, 0, 0, 0});
            },
            "slot 1 is reported by shard 0 and again by shard 0"},
        Lie{"SlotOnTwoShards",
            [](ShardReplies* r) {
              (*r)[1]->slots.push_back({0, 0, 0, 0});
            },
            "slot 0 is reported by shard 0 and again by shard 1"},
        Lie{"SlotOfAnother",
            [](ShardReplies* r) {
              (*r)[0]->slots.push_back({2, 0, 0, 0});
              (*r)[1]->slots[0].slot = 1;
            },
            "slot 2 belongs to shard 1 but shard 0 reports it"},
        Lie{"SlotBeyond",
            [](ShardReplies* r) {
              (*r)[0]->slots.push_back({4, 0, 0, 0});
            },
            "shard 0 reports slot 4 of 4"},
        Lie{"SlotNegative",
            [](ShardReplies* r) {
              (*r)[0]->slots.push_back({-1, 0, 0, 0});
            },
            "shard 0 reports slot -1 of 4"},
        Lie{"RowsOfSlotsDiffer",
            [](ShardReplies* r) { (*r)[0]->slots[0].rows = 3; },
            "shard 0 reports 2 live rows but its slots hold 3"},
        Lie{"RowUnaccounted",
            [](ShardReplies* r) { (*r)[1]->accounts[0].evaluated = 1; },
            "query 0: shard 1 accounts for 1 of 2 live rows"},
        Lie{"RowCountedTwice",
            [](ShardReplies* r) { (*r)[1]->accounts[0].filtered = 1; },
            "query 0: shard 1 accounts for 3 of 2 live rows"},
        Lie{"NegativeCount",
            [](ShardReplies* r) {
              (*r)[1]->accounts[0].evaluated = 3;
              (*r)[1]->accounts[0].ruled_out = -1;
            },
            "query 0: shard 1 accounts"},
        Lie{"NotANumber",
            [](ShardReplies* r) {
              (*r)[0]->results[0].push_back(
                  MakeHit(9, std::numeric_limits<double>::quiet_NaN()));
            },
            "shard 0 answered query 0 with distances not finite"},
        Lie{"Infinite",
            [](ShardReplies* r) {
              (*r)[0]->results[0].push_back(
                  MakeHit(9, std::numeric_limits<double>::infinity()));
            },
            "shard 0 answered query 0 with distances not finite"},
        Lie{"Unordered",
            [](ShardReplies* r) {
              std::swap((*r)[1]->results[0][0], (*r)[1]->results[0][1]);
            },
            "shard 1 answered query 0 out of order"},
        Lie{"TooMany",
            [](ShardReplies* r) {
              (*r)[0]->results[0].push_back(MakeHit(9, 9.0));
              (*r)[0]->results[0].push_back(MakeHit(10, 10.0));
            },
            "shard 0 answered query 0 with more hits than asked"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(MergeReplies, AnAccountGapConcernsItsQueryAlone) {
  ShardReplies replies;
  replies.push_back(Reply(0, {MakeHit(1, 1.0)}, 3));
  replies.push_back(Reply(1, {MakeHit(2, 2.0)}, 3));
  replies[0]->accounts[1].evaluated = 0;
  auto merged = Merge(Request(2, 3), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(merged->reply.results[0].exact);
  EXPECT_FALSE(merged->reply.results[1].exact);
  EXPECT_TRUE(merged->reply.results[2].exact);
  EXPECT_THAT(merged->reply.certificate.withheld, HasSubstr("query 1"));
}

TEST(MergeReplies, UnseenRowsWithholdTheirQueryAlone) {
  ShardReplies replies;
  replies.push_back(Reply(0, {MakeHit(1, 1.0)}, 2));
  replies.push_back(Reply(1, {MakeHit(2, 2.0)}, 2));
  QueryAccount& account = replies[1]->accounts[1];
  account.unseen = account.evaluated;
  account.evaluated = 0;
  auto merged = Merge(Request(2, 2), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(merged->reply.results[0].exact);
  EXPECT_FALSE(merged->reply.results[1].exact);
  EXPECT_THAT(merged->reply.certificate.withheld,
              HasSubstr("query 1: shard 1 left 1 of 1 live rows unseen"));
  EXPECT_EQ(merged->reply.results[1].hits.size(), 2U);
}

TEST(MergeReplies, RuledOutAndFilteredRowsAreAccountedFor) {
  ShardReplies replies = TwoShards();
  replies[0]->accounts[0] = {0, 1, 1, 0};
  auto merged = Merge(Request(3), std::move(replies));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(merged->reply.results[0].exact);
}

TEST(MergeReplies, AReplyThatDoesNotFitIsThatShardsInternalError) {
  const std::vector<std::function<void(ShardSearchReply*)>> misfits = {
      [](ShardSearchReply* r) { r->results.clear(); },
      [](ShardSearchReply* r) { r->accounts.emplace_back(); },
      [](ShardSearchReply* r) { r->shard_id = 0; },
  };
  for (const auto& misfit : misfits) {
    ShardReplies replies = TwoShards();
    misfit(&*replies[1]);
    auto merged = Merge(Request(3), std::move(replies));
    EXPECT_EQ(merged.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(ShardOf(merged.status()), 1);
  }
}

TEST(MergeReplies, RadiusAtTheLimitPassesAndOneMoreIsRefused) {
  SearchRequest request = Request(4);  // three are allowed
  request.radius = 9.0;
  ShardReplies three = TwoShards();
  three[0]->results[0].pop_back();
  auto merged = Merge(request, std::move(three));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(IdsOf(merged->reply), ElementsAre(1, 2, 3));

  auto refused = Merge(request, TwoShards());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("queries[0]: more than 3 points lie within radius 9, "
                        "over the limit k"));
}

ShardReplies OneDown(absl::Status why) {
  ShardReplies replies = TwoShards();
  replies[0] = std::move(why);
  return replies;
}

TEST(MergeReplies, AllowSpeaksForTheShardsThatAnswered) {
  SearchRequest request = Request(3);
  request.partial_policy.kind = PartialPolicy::Kind::kAllow;
  auto merged = Merge(request, OneDown(absl::UnavailableError("gone")));
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(IdsOf(merged->reply), ElementsAre(2, 3));
  const Coverage& coverage = merged->reply.coverage;
  EXPECT_EQ(coverage.shards_total, 2);
  EXPECT_EQ(coverage.shards_ok, 1);
  EXPECT_TRUE(coverage.estimated);
  EXPECT_EQ(coverage.rows_covered, 2);
  EXPECT_EQ(coverage.rows_total, 4);  // 2 rows in 2 of 4 slots
  ASSERT_EQ(coverage.missing.size(), 1u);
  EXPECT_EQ(coverage.missing[0].shard_id, 0);
  EXPECT_EQ(coverage.missing[0].reason, "UNAVAILABLE: gone");
  EXPECT_FALSE(merged->reply.results[0].exact);
  EXPECT_THAT(merged->reply.certificate.withheld,
              HasSubstr("shard 0 did not answer"));
  ASSERT_EQ(merged->reply.certificate.shards.size(), 1u);
  EXPECT_EQ(merged->reply.certificate.shards[0].shard_id, 1);
}

TEST(MergeReplies, NobodyAnsweringIsNeverAnEmptyOk) {
  for (PartialPolicy::Kind kind :
       {PartialPolicy::Kind::kFail, PartialPolicy::Kind::kAllow,
        PartialPolicy::Kind::kRequire}) {
    SearchRequest request = Request(3);
    request.partial_policy = {kind, 0.1};
    ShardReplies replies;
    replies.push_back(absl::DeadlineExceededError("late"));
    replies.push_back(absl::UnavailableError("gone"));
    auto merged = Merge(request, std::move(replies));
    EXPECT_EQ(merged.status().code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_EQ(ShardOf(merged.status()), 0);
  }
}

TEST(MergeReplies, RequireComparesTheRatioInclusively) {
  SearchRequest request = Request(3);
  request.partial_policy = {PartialPolicy::Kind::kRequire, 0.5};
  EXPECT_TRUE(Merge(request, OneDown(absl::UnavailableError("gone"))).ok());
  request.partial_policy.min_ratio = 0.51;
  auto merged = Merge(request, OneDown(absl::UnavailableError("gone")));
  EXPECT_EQ(merged.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(merged.status()), 0);
  EXPECT_THAT(std::string(merged.status().message()),
              HasSubstr("2 of 4 slots answered, a ratio of 0.5 below "
                        "min_ratio 0.51"));
}

TEST(MergeReplies, FaultsOfTheRequestFailWhateverThePolicy) {
  SearchRequest request = Request(3);
  request.partial_policy.kind = PartialPolicy::Kind::kAllow;
  for (const absl::Status& fault :
       {absl::InvalidArgumentError("x"), absl::NotFoundError("x"),
        absl::FailedPreconditionError("x"), absl::CancelledError("x"),
        absl::ResourceExhaustedError("too much asked")}) {
    auto merged = Merge(request, OneDown(fault));
    EXPECT_EQ(merged.status().code(), fault.code());
  }
  EXPECT_TRUE(
      Merge(request, OneDown(Overloaded("full", absl::Seconds(1)))).ok());
}

TEST(MergeReplies, NansInAnyOrderNeverDisplaceRealDistances) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<Hit> hits = {MakeHit(1, nan), MakeHit(2, 0.1), MakeHit(3, 0.2),
                           MakeHit(4, nan)};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    ShardReplies replies;
    std::vector<Hit> shuffled;
    for (int i : order) {
      shuffled.push_back(hits[static_cast<size_t>(i)]);
    }
    replies.push_back(Reply(0, shuffled));
    replies.push_back(Reply(1, {}));
    auto merged = Merge(Request(2), std::move(replies));
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_THAT(IdsOf(merged->reply), ElementsAre(2, 3));
  } while (std::next_permutation(order.begin(), order.end()));
}

// Against sorting everything, with ties, repeated distances and offsets.
TEST(MergeReplies, EqualsSortingAllHits) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    const int64_t k = 1 + static_cast<int64_t>(random() % 12);
    SearchRequest request = Request(k);
    request.offset = static_cast<int64_t>(random() % static_cast<uint64_t>(k));
    std::vector<Hit> all;
    ShardReplies replies;
    for (int32_t shard = 0; shard < 2; ++shard) {
      std::vector<Hit> hits;
      for (uint64_t n = random() % 10; n > 0; --n) {
        hits.push_back(MakeHit(
            2 * (16 * (random() % 1000) + n) + static_cast<uint64_t>(shard),
            static_cast<double>(random() % 4)));
      }
      std::sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) {
        return NeighborLess(a.neighbor, b.neighbor);
      });
      all.insert(all.end(), hits.begin(), hits.end());
      replies.push_back(Reply(shard, std::move(hits)));
    }
    std::sort(all.begin(), all.end(), [](const Hit& a, const Hit& b) {
      return NeighborLess(a.neighbor, b.neighbor);
    });
    std::vector<PointId> expected;
    for (int64_t i = request.offset;
         i < std::min(k, static_cast<int64_t>(all.size())); ++i) {
      expected.push_back(all[static_cast<size_t>(i)].neighbor.id);
    }
    auto merged = Merge(request, std::move(replies));
    ASSERT_TRUE(merged.ok()) << merged.status();
    ASSERT_EQ(IdsOf(merged->reply), expected) << "round " << round;
    for (const Hit& hit : merged->reply.results[0].hits) {
      ASSERT_EQ(std::get<int64_t>(hit.attributes.at("id")),
                static_cast<int64_t>(hit.neighbor.id));
    }
  }
}

}  // namespace
}  // namespace coterie
