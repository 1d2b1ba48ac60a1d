#include "coordinator/fan_out.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace coterie {
namespace {

TEST(FanOut, NothingToAskFinishesAtOnce) {
  bool finished = false;
  FanOut<int>(
      0, [](int64_t, Done<int>) { FAIL() << "nobody to ask"; },
      [&](std::vector<absl::StatusOr<int>> replies) {
        finished = true;
        EXPECT_TRUE(replies.empty());
      });
  EXPECT_TRUE(finished);
}

TEST(FanOut, KeepsOrderAndErrorsWhateverTheOrderOfReplies) {
  std::vector<Done<int>> waiting;
  std::vector<absl::StatusOr<int>> got;
  FanOut<int>(
      3, [&](int64_t, Done<int> done) { waiting.push_back(std::move(done)); },
      [&](std::vector<absl::StatusOr<int>> replies) {
        got = std::move(replies);
      });
  waiting[2](12);
  waiting[0](10);
  EXPECT_TRUE(got.empty());
  waiting[1](absl::InternalError("no"));
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(*got[0], 10);
  EXPECT_EQ(got[1].status(), absl::InternalError("no"));
  EXPECT_EQ(*got[2], 12);
}

TEST(FanOut, RepliesFromManyThreadsFinishOnce) {
  constexpr int kCalls = 64;
  std::vector<std::thread> threads;
  std::atomic<int> finishes{0};
  FanOut<std::string>(
      kCalls,
      [&](int64_t i, Done<std::string> done) {
        threads.emplace_back(
            [i, done = std::move(done)]() mutable { done(std::to_string(i)); });
      },
      [&](std::vector<absl::StatusOr<std::string>> replies) {
        ++finishes;
        for (int i = 0; i < kCalls; ++i) {
          EXPECT_EQ(*replies[static_cast<size_t>(i)], std::to_string(i));
        }
      });
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_EQ(finishes, 1);
}

}  // namespace
}  // namespace coterie
