#include "api/call.h"

#include <gtest/gtest.h>

#include <memory>

namespace coterie {
namespace {

TEST(CallContext, IsLiveWithoutDeadlineOrCanceller) {
  const CallContext call;
  EXPECT_FALSE(call.ShouldStop());
  EXPECT_TRUE(call.status().ok());
}

TEST(CallContext, EndsAtItsDeadline) {
  CallContext call;
  call.deadline = absl::Now() + absl::Hours(1);
  EXPECT_FALSE(call.ShouldStop());
  call.deadline = absl::Now() - absl::Nanoseconds(1);
  EXPECT_TRUE(call.ShouldStop());
  EXPECT_EQ(call.status().code(), absl::StatusCode::kDeadlineExceeded);
  call.deadline = absl::InfinitePast();
  EXPECT_TRUE(call.ShouldStop());
}

TEST(CallContext, CopiesShareTheCanceller) {
  const auto token = std::make_shared<CancelToken>();
  CallContext call;
  call.cancel = token;
  const CallContext copy = call;
  EXPECT_FALSE(copy.ShouldStop());
  token->Cancel();
  EXPECT_TRUE(copy.ShouldStop());
  EXPECT_EQ(copy.status().code(), absl::StatusCode::kCancelled);
}

TEST(CallContext, CancelledOutranksLate) {
  const auto token = std::make_shared<CancelToken>();
  token->Cancel();
  const CallContext call{absl::InfinitePast(), token};
  EXPECT_EQ(call.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace coterie
