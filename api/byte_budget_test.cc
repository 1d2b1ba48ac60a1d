#include "api/byte_budget.h"

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

TEST(ByteBudget, RefusesAtOnceWhatDoesNotFitAndSaysWhenToRetry) {
  ByteBudget budget(100);
  ByteBudget::Lease first;
  ASSERT_TRUE(budget.Take(60, &first).ok());
  ByteBudget::Lease second;
  const absl::Status refused = budget.Take(41, &second);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  const std::string message(refused.message());
  for (const char* part : {"60", "41", "inflight_bytes", "100"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
  EXPECT_EQ(budget.used(), 60);
  EXPECT_EQ(budget.refused(), 1);
  EXPECT_TRUE(budget.Take(40, &second).ok());
  EXPECT_EQ(budget.used(), 100);
}

TEST(ByteBudget, LeasesGiveBackOnceHoweverTheyMove) {
  ByteBudget budget(100);
  {
    ByteBudget::Lease lease;
    ASSERT_TRUE(budget.Take(70, &lease).ok());
    ByteBudget::Lease moved = std::move(lease);
    EXPECT_EQ(budget.used(), 70);
    ByteBudget::Lease assigned;
    ASSERT_TRUE(budget.Take(30, &assigned).ok());
    assigned = std::move(moved);
    EXPECT_EQ(budget.used(), 70);
    // A lease taken over gives back what it held.
    ASSERT_TRUE(budget.Take(10, &assigned).ok());
    EXPECT_EQ(budget.used(), 10);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(ByteBudget, AMessageThatIsAloneIsNeverStarved) {
  ByteBudget budget(10);
  ByteBudget::Lease large;
  ASSERT_TRUE(budget.Take(1000, &large).ok());
  ByteBudget::Lease small;
  EXPECT_FALSE(budget.Take(1, &small).ok());
  large = ByteBudget::Lease();
  EXPECT_TRUE(budget.Take(1, &small).ok());
}

TEST(ByteBudget, ManyThreadsNeverExceedTheLimit) {
  ByteBudget budget(64);
  std::atomic<bool> over{false};
  std::atomic<int64_t> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 1; i <= 5000; ++i) {
        ByteBudget::Lease lease;
        if (budget.Take(i % 40, &lease).ok()) {
          ++taken;
          over = over || budget.used() > 64;
        }
      }
    });
  }
  for (std::thread& t : threads) {
    t.join();
  }
  EXPECT_FALSE(over);
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(taken + budget.refused(), 20000);
}

}  // namespace
}  // namespace coterie
