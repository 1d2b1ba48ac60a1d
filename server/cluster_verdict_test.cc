#include "server/cluster_verdict.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kUuid[] = "01234567-89ab-4def-8123-456789abcdef";
constexpr char kOther[] = "11234567-89ab-4def-8123-456789abcdef";

ShardProbe Answers(const std::string& address, int32_t id, int32_t total) {
  ShardDescription shard;
  shard.shard_id = id;
  shard.shards_total = total;
  shard.cluster_uuid = kUuid;
  return {address, shard};
}

ShardProbe Silent(const std::string& address) {
  return {address, absl::UnavailableError("connection refused")};
}

// The message of a verdict that has this code.
std::string Message(const ClusterVerdict& verdict, absl::StatusCode code) {
  EXPECT_EQ(verdict.status.code(), code) << verdict.status;
  return std::string(verdict.status.message());
}

TEST(JudgeCluster, TheOrderOfAddressesDoesNotMatter) {
  std::vector<ShardProbe> probes = {Answers("a:1", 0, 3), Answers("b:1", 1, 3),
                                    Answers("c:1", 2, 3)};
  std::vector<int> order = {0, 1, 2};
  do {
    std::vector<ShardProbe> shuffled;
    for (int i : order) {
      shuffled.push_back(probes[static_cast<size_t>(i)]);
    }
    const ClusterVerdict verdict = JudgeCluster(shuffled, kUuid, true);
    ASSERT_TRUE(verdict.status.ok()) << verdict.status;
    EXPECT_EQ(verdict.cluster_uuid, kUuid);
    EXPECT_EQ(verdict.serving, 3);
    for (size_t s = 0; s < 3; ++s) {
      const int32_t at = verdict.probe_of_shard[s];
      EXPECT_EQ(shuffled[static_cast<size_t>(at)].told->shard_id,
                static_cast<int32_t>(s));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(JudgeCluster, TwoThatClaimOneIdAreNamed) {
  const ClusterVerdict verdict = JudgeCluster(
      {Answers("a:1", 0, 3), Answers("b:1", 1, 3), Answers("c:1", 1, 3)}, "",
      true);
  const std::string why =
      Message(verdict, absl::StatusCode::kFailedPrecondition);
  for (const char* part : {"b:1", "c:1", "shard 1"}) {
    EXPECT_THAT(why, HasSubstr(part));
  }
  EXPECT_THAT(verdict.probe_of_shard, IsEmpty());
}

TEST(JudgeCluster, AForeignClusterIsNamed) {
  std::vector<ShardProbe> probes = {Answers("a:1", 0, 2), Answers("b:1", 1, 2)};
  probes[1].told->cluster_uuid = kOther;
  for (const char* expected : {"", kUuid}) {
    const std::string why = Message(JudgeCluster(probes, expected, true),
                                    absl::StatusCode::kFailedPrecondition);
    for (const char* part : {"b:1", "shard 1", kUuid, kOther}) {
      EXPECT_THAT(why, HasSubstr(part));
    }
  }
}

TEST(JudgeCluster, AnotherNumberOfShardsIsNamed) {
  EXPECT_THAT(Message(JudgeCluster({Answers("a:1", 0, 3), Answers("b:1", 1, 3)},
                                   "", true),
                      absl::StatusCode::kFailedPrecondition),
              HasSubstr("cluster of 3 shards, but --shards lists 2"));
  EXPECT_THAT(Message(JudgeCluster({Answers("a:1", 0, 2), Answers("b:1", 1, 3)},
                                   "", false),
                      absl::StatusCode::kFailedPrecondition),
              HasSubstr("shard 1 at b:1 is of a cluster of 3"));
  EXPECT_THAT(Message(JudgeCluster({Answers("a:1", 5, 2)}, "", false),
                      absl::StatusCode::kFailedPrecondition),
              HasSubstr("outside"));
  EXPECT_THAT(Message(JudgeCluster({Answers("a:1", 0, 0)}, "", false),
                      absl::StatusCode::kFailedPrecondition),
              HasSubstr("of 0 shards"));
}

TEST(JudgeCluster, GapsAndSilenceAreWaitedForByName) {
  const ClusterVerdict verdict = JudgeCluster(
      {Answers("a:1", 2, 3), Silent("b:1"), Answers("c:1", 0, 3)}, "", true);
  const std::string why = Message(verdict, absl::StatusCode::kUnavailable);
  for (const char* part : {"shard 1 is at none", "b:1", "connection refused"}) {
    EXPECT_THAT(why, HasSubstr(part));
  }
  EXPECT_THAT(verdict.probe_of_shard, ElementsAre(2, -1, 0));
  EXPECT_EQ(verdict.serving, 2);
  // A name may have fewer addresses than there are shards, for a while.
  Message(JudgeCluster({Answers("a:1", 2, 3)}, "", false),
          absl::StatusCode::kUnavailable);
}

TEST(JudgeCluster, AnOldAddressBesideAWholeClusterDoesNotMatter) {
  EXPECT_TRUE(JudgeCluster(
                  {Silent("old:1"), Answers("a:1", 0, 2), Answers("b:1", 1, 2)},
                  "", false)
                  .status.ok());
}

TEST(JudgeCluster, NobodyAnsweringIsWaitedFor) {
  const ClusterVerdict verdict =
      JudgeCluster({Silent("a:1"), Silent("b:1")}, kUuid, true);
  EXPECT_THAT(Message(verdict, absl::StatusCode::kUnavailable),
              HasSubstr("b:1"));
  EXPECT_THAT(
      Message(JudgeCluster({}, "", false), absl::StatusCode::kUnavailable),
      HasSubstr("no address"));
}

TEST(JudgeCluster, ALoadingShardIsNotServingYet) {
  std::vector<ShardProbe> probes = {Answers("a:1", 0, 2), Answers("b:1", 1, 2)};
  probes[1].told->state = ShardDescription::State::kLoading;
  const ClusterVerdict verdict = JudgeCluster(probes, "", true);
  EXPECT_THAT(Message(verdict, absl::StatusCode::kUnavailable),
              HasSubstr("shard 1 at b:1 is loading"));
  EXPECT_EQ(verdict.serving, 1);
}

}  // namespace
}  // namespace coterie
