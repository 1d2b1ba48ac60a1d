#include "api/status_details.h"

#include <gtest/gtest.h>

#include "absl/strings/cord.h"

namespace coterie {
namespace {

TEST(InvalidField, NamesTheFieldInMessageAndDetail) {
  const absl::Status status = InvalidField("points[3].vector", "is empty");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "points[3].vector: is empty");
  EXPECT_EQ(FieldOf(status), "points[3].vector");
  EXPECT_EQ(ShardOf(status), std::nullopt);
  EXPECT_EQ(RetryAfterOf(status), std::nullopt);
}

TEST(OverLimit, NamesValueLimitAndBound) {
  const absl::Status status = OverLimit("k", 10001, "k", 10000);
  EXPECT_EQ(status.message(), "k: 10001 is over the limit k of 10000");
  EXPECT_EQ(FieldOf(status), "k");
}

TEST(Overloaded, CarriesTheDelay) {
  const absl::Status status = Overloaded("queue full", absl::Milliseconds(7));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "queue full");
  EXPECT_EQ(RetryAfterOf(status), absl::Milliseconds(7));
}

TEST(Overloaded, CutsDelaysThatCannotBeSaid) {
  EXPECT_EQ(RetryAfterOf(Overloaded("", -absl::Seconds(1))),
            absl::ZeroDuration());
  EXPECT_EQ(RetryAfterOf(Overloaded("", -absl::InfiniteDuration())),
            absl::ZeroDuration());
  const auto longest = RetryAfterOf(Overloaded("", absl::InfiniteDuration()));
  ASSERT_TRUE(longest.has_value());
  EXPECT_GT(*longest, absl::Hours(24 * 365 * 290));
  EXPECT_NE(*longest, absl::InfiniteDuration());
}

TEST(WithShard, NamesTheShardAndKeepsOtherDetails) {
  absl::Status status = Overloaded("queue full", absl::Seconds(1));
  status.SetPayload("other", absl::Cord("kept"));
  status = WithShard(status, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "shard 2: queue full");
  EXPECT_EQ(ShardOf(status), 2);
  EXPECT_EQ(RetryAfterOf(status), absl::Seconds(1));
  ASSERT_TRUE(status.GetPayload("other").has_value());
  EXPECT_EQ(*status.GetPayload("other"), "kept");
}

TEST(WithShard, KeepsAShardAlreadyNamed) {
  const absl::Status inner = WithShard(absl::UnavailableError("gone"), 0);
  EXPECT_EQ(ShardOf(inner), 0);
  EXPECT_EQ(WithShard(inner, 5), inner);
}

TEST(WithShard, KeepsOk) {
  const absl::Status status = WithShard(absl::OkStatus(), 1);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(ShardOf(status), std::nullopt);
}

TEST(Details, AreAbsentFromPlainStatuses) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InternalError("shard 2: x")}) {
    EXPECT_EQ(FieldOf(status), std::nullopt);
    EXPECT_EQ(ShardOf(status), std::nullopt);
    EXPECT_EQ(RetryAfterOf(status), std::nullopt);
  }
}

TEST(Attach, LeavesTheMessage) {
  absl::Status status = absl::AbortedError("m");
  AttachField(&status, "f");
  AttachShard(&status, 3);
  AttachRetryAfter(&status, absl::Nanoseconds(5));
  EXPECT_EQ(status.message(), "m");
  EXPECT_EQ(FieldOf(status), "f");
  EXPECT_EQ(ShardOf(status), 3);
  EXPECT_EQ(RetryAfterOf(status), absl::Nanoseconds(5));
}

}  // namespace
}  // namespace coterie
