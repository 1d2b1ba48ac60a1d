#include "coordinator/scatter_gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

class ScatterTest : public ::testing::Test {
 protected:
  ScatterTest() : cluster_(3), shards_(MakeSet(cluster_)) {
    EXPECT_TRUE(cluster_.Create("c", 1).ok());
  }

  static ShardSet MakeSet(const FakeCluster& cluster) {
    return std::make_shared<const std::vector<std::shared_ptr<ShardClient>>>(
        cluster.clients());
  }

  // The same request to each of n shards.
  static std::vector<std::shared_ptr<const SearchRequest>> ToAll(
      size_t n, PartialPolicy::Kind kind) {
    auto request = std::make_shared<SearchRequest>(Nearest("c", {0}, 1));
    request->partial_policy.kind = kind;
    return {n, request};
  }

  Outcome<ShardReplies> Scatter(PartialPolicy::Kind kind,
                                CallContext call = {}) {
    Outcome<ShardReplies> outcome;
    ScatterSearch(shards_, ToAll(3, kind), call, absl::Milliseconds(5),
                  outcome.done());
    return outcome;
  }

  FakeCluster cluster_;
  ShardSet shards_;
};

TEST_F(ScatterTest, CollectsEveryReplyInOrderOfShards) {
  cluster_.shard(0).Hold("Search");
  Outcome<ShardReplies> outcome = Scatter(PartialPolicy::Kind::kFail);
  EXPECT_EQ(outcome.times(), 0);
  cluster_.shard(0).Release();
  ASSERT_EQ(outcome.times(), 1);
  const auto replies = outcome.Wait();
  ASSERT_TRUE(replies.ok());
  ASSERT_EQ(replies->size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    const auto& reply = (*replies)[static_cast<size_t>(i)];
    EXPECT_EQ(reply->shard_id, i);
    EXPECT_GE(reply->times.round_trip_seconds, 0);
  }
  EXPECT_GT((*replies)[0]->times.round_trip_seconds, 0);
}

TEST_F(ScatterTest, AsksOnlyWhoHasARequest) {
  for (PartialPolicy::Kind kind :
       {PartialPolicy::Kind::kFail, PartialPolicy::Kind::kAllow}) {
    auto requests = ToAll(3, kind);
    requests[0] = nullptr;
    auto more = std::make_shared<SearchRequest>(*requests[2]);
    more->k = 7;
    requests[2] = more;
    Outcome<ShardReplies> outcome;
    ScatterSearch(shards_, requests, {}, absl::ZeroDuration(), outcome.done());
    ASSERT_EQ(outcome.times(), 1);
    const auto replies = outcome.Wait();
    ASSERT_TRUE(replies.ok()) << replies.status();
    ASSERT_EQ(replies->size(), 3u);
    EXPECT_TRUE(absl::IsUnknown((*replies)[0].status()));
    EXPECT_EQ((*replies)[1]->asked, 1);
    EXPECT_EQ((*replies)[2]->asked, 7);
  }
  EXPECT_EQ(cluster_.shard(0).calls("Search"), 0);
}

TEST_F(ScatterTest, TheFirstFailureDecidesAndStopsTheOthers) {
  cluster_.shard(0).Hold("Search");
  cluster_.shard(1).Hold("Search");
  cluster_.shard(2).Fail("Search", absl::UnavailableError("gone"));
  Outcome<ShardReplies> outcome = Scatter(PartialPolicy::Kind::kFail);
  ASSERT_EQ(outcome.times(), 1);
  const absl::Status status = outcome.Wait().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ShardOf(status), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 2: gone"));
  EXPECT_TRUE(cluster_.shard(0).last_call("Search").cancel->cancelled());
  EXPECT_TRUE(cluster_.shard(1).last_call("Search").cancel->cancelled());
  // What comes later changes nothing.
  cluster_.shard(0).Release();
  cluster_.shard(1).Release();
  EXPECT_EQ(outcome.times(), 1);
}

TEST_F(ScatterTest, AFailureAtOnceSparesShardsNotYetAsked) {
  cluster_.shard(0).Fail("Search", absl::ResourceExhaustedError("full"));
  Outcome<ShardReplies> outcome = Scatter(PartialPolicy::Kind::kFail);
  EXPECT_EQ(ShardOf(outcome.Wait().status()), 0);
  EXPECT_EQ(cluster_.shard(2).calls("Search"), 0);
}

TEST_F(ScatterTest, PartialPoliciesWaitForEveryShard) {
  for (PartialPolicy::Kind kind :
       {PartialPolicy::Kind::kAllow, PartialPolicy::Kind::kRequire}) {
    cluster_.shard(1).Fail("Search", absl::DeadlineExceededError("late"));
    cluster_.shard(2).Hold("Search");
    Outcome<ShardReplies> outcome = Scatter(kind);
    EXPECT_EQ(outcome.times(), 0);
    EXPECT_FALSE(cluster_.shard(2).last_call("Search").cancel->cancelled());
    cluster_.shard(2).Release();
    const auto replies = outcome.Wait();
    ASSERT_TRUE(replies.ok());
    EXPECT_TRUE((*replies)[0].ok());
    EXPECT_EQ((*replies)[1].status().code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_TRUE((*replies)[2].ok());
  }
}

TEST_F(ScatterTest, ShardsGetTheDeadlineLessTheReserve) {
  CallContext call;
  call.deadline = absl::Now() + absl::Seconds(100);
  Scatter(PartialPolicy::Kind::kFail, call);
  EXPECT_EQ(cluster_.shard(0).last_call("Search").deadline,
            call.deadline - absl::Milliseconds(5));
}

TEST_F(ScatterTest, AShortDeadlineKeepsHalfForTheShards) {
  CallContext call;
  const absl::Time before = absl::Now();
  call.deadline = before + absl::Milliseconds(4);
  Scatter(PartialPolicy::Kind::kAllow, call);
  const absl::Time given = cluster_.shard(0).last_call("Search").deadline;
  EXPECT_GE(given, before + absl::Milliseconds(2));
  EXPECT_LE(given, call.deadline);
}

TEST_F(ScatterTest, NoDeadlineStaysNone) {
  Scatter(PartialPolicy::Kind::kFail);
  EXPECT_EQ(cluster_.shard(0).last_call("Search").deadline,
            absl::InfiniteFuture());
}

TEST_F(ScatterTest, TheCallersCancellationReachesTheShards) {
  auto token = std::make_shared<CancelToken>();
  CallContext call;
  call.cancel = token;
  cluster_.shard(1).Hold("Search");
  Outcome<ShardReplies> outcome = Scatter(PartialPolicy::Kind::kAllow, call);
  const CallContext seen = cluster_.shard(1).last_call("Search");
  EXPECT_FALSE(seen.ShouldStop());
  token->Cancel();
  EXPECT_TRUE(seen.ShouldStop());
  cluster_.shard(1).Release();
  EXPECT_EQ(outcome.Wait().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ScatterTest, RepliesAndFailuresRacingDecideOnce) {
  FakeShardClient::Options options;
  options.own_thread = true;
  FakeCluster threaded(4, options);
  ASSERT_TRUE(threaded.Create("c", 1).ok());
  threaded.shard(3).Fail("Search", absl::UnavailableError("gone"));
  const ShardSet shards = MakeSet(threaded);
  for (int round = 0; round < 200; ++round) {
    for (PartialPolicy::Kind kind :
         {PartialPolicy::Kind::kFail, PartialPolicy::Kind::kAllow}) {
      Outcome<ShardReplies> outcome;
      ScatterSearch(shards, ToAll(4, kind), {}, absl::ZeroDuration(),
                    outcome.done());
      const auto replies = outcome.Wait();
      EXPECT_EQ(replies.ok(), kind == PartialPolicy::Kind::kAllow);
      EXPECT_EQ(outcome.times(), 1);
    }
  }
}

}  // namespace
}  // namespace coterie
