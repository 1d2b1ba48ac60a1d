#include "api/call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

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

TEST(CancelCallback, RunsOnceWhenItsTokenIsCancelled) {
  const auto token = std::make_shared<CancelToken>();
  int calls = 0;
  const CancelCallback callback(token, [&] { ++calls; });
  EXPECT_EQ(calls, 0);
  token->Cancel();
  EXPECT_EQ(calls, 1);
  token->Cancel();
  EXPECT_EQ(calls, 1);
}

TEST(CancelCallback, RunsAtOnceWhenItComesLate) {
  const auto token = std::make_shared<CancelToken>();
  token->Cancel();
  int calls = 0;
  const CancelCallback callback(token, [&] { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(CancelCallback, FollowsEveryParentButRunsOnce) {
  const auto edge = std::make_shared<CancelToken>();
  const auto middle = std::make_shared<CancelToken>(edge);
  const auto leaf = std::make_shared<CancelToken>(middle);
  int calls = 0;
  const CancelCallback callback(leaf, [&] { ++calls; });
  edge->Cancel();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(leaf->cancelled());
  middle->Cancel();
  leaf->Cancel();
  EXPECT_EQ(calls, 1);
}

TEST(CancelCallback, DoesNotRunAfterItsEnd) {
  const auto token = std::make_shared<CancelToken>();
  int calls = 0;
  {
    const CancelCallback callback(token, [&] { ++calls; });
  }
  token->Cancel();
  EXPECT_EQ(calls, 0);
}

TEST(CancelCallback, OfNoTokenNeverRuns) {
  int calls = 0;
  {
    const CancelCallback callback(nullptr, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 0);
}

TEST(CancelCallback, MayBeDestroyedByItsOwnCallback) {
  const auto parent = std::make_shared<CancelToken>();
  const auto token = std::make_shared<CancelToken>(parent);
  std::optional<CancelCallback> callback;
  int calls = 0;
  callback.emplace(token, [&] {
    callback.reset();
    ++calls;
  });
  parent->Cancel();
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(callback.has_value());
}

// Whoever wins, nothing runs after the end and nothing twice; the sanitizers
// watch the rest.
TEST(CancelCallback, ItsEndWaitsForOneThatRunsElsewhere) {
  for (int round = 0; round < 500; ++round) {
    const auto parent = std::make_shared<CancelToken>();
    const auto token = std::make_shared<CancelToken>(parent);
    auto calls = std::make_unique<std::atomic<int>>(0);
    std::optional<CancelCallback> callback;
    callback.emplace(token, [&calls] { calls->fetch_add(1); });
    std::vector<std::thread> cancellers;
    cancellers.emplace_back([&] { parent->Cancel(); });
    cancellers.emplace_back([&] { token->Cancel(); });
    callback.reset();
    EXPECT_LE(calls->load(), 1);
    calls.reset();  // a callback after the end would reach for this
    for (std::thread& thread : cancellers) thread.join();
  }
}

}  // namespace
}  // namespace coterie
