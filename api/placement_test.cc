#include "api/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/numeric/int128.h"
#include "api/test_seed.h"

namespace coterie {
namespace {

// Frozen: data on disk is placed by these. The first five are the published
// start of the sequence of SplittableRandom with seed 0, whose state advances
// by the golden gamma 0x9E3779B97F4A7C15 before each output.
TEST(SplitMix64, HoldsItsGoldenValues) {
  constexpr uint64_t kGamma = 0x9E3779B97F4A7C15;
  EXPECT_EQ(SplitMix64(0 * kGamma), 0xE220A8397B1DCDAFULL);
  EXPECT_EQ(SplitMix64(1 * kGamma), 0x6E789E6AA1B965F4ULL);
  EXPECT_EQ(SplitMix64(2 * kGamma), 0x06C45D188009454FULL);
  EXPECT_EQ(SplitMix64(3 * kGamma), 0xF88BB8A8724C81ECULL);
  EXPECT_EQ(SplitMix64(4 * kGamma), 0x1B39896A51A8749BULL);
}

// mod 2^64 by 128-bit division instead of wrapping, so that the model shares
// no arithmetic with the code.
uint64_t ModelSplitMix64(uint64_t x) {
  const absl::uint128 modulus = absl::uint128(1) << 64;
  const auto times = [&](uint64_t a, uint64_t b) {
    return absl::Uint128Low64(absl::uint128(a) * b % modulus);
  };
  uint64_t z = absl::Uint128Low64((absl::uint128(x) + 11400714819323198485ULL) %
                                  modulus);
  z = times(z ^ z / (uint64_t{1} << 30), 13787848793156543929ULL);
  z = times(z ^ z / (uint64_t{1} << 27), 10723151780598845931ULL);
  return z ^ z / (uint64_t{1} << 31);
}

TEST(SplitMix64, AgreesWithItsDefinition) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t x = random();
    ASSERT_EQ(SplitMix64(x), ModelSplitMix64(x)) << x;
  }
  for (const uint64_t x : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    EXPECT_EQ(SplitMix64(x), ModelSplitMix64(x)) << x;
  }
}

TEST(SlotOf, HoldsItsGoldenValues) {
  // 0xE220A8397B1DCDAF mod 64 = 0xAF mod 64 = 47.
  EXPECT_EQ(SlotOf(0, 64), 47);
  EXPECT_EQ(SlotOf(0, 1024), 0x1AF);
  EXPECT_EQ(SlotOf(0, 1), 0);
  EXPECT_EQ(SlotOf(0, 10), 16294208416658607535ULL % 10);
  EXPECT_EQ(SlotOf(1, 64), 1);
  EXPECT_EQ(SlotOf(1, 7), 2);
  EXPECT_EQ(SlotOf(42, 1000), 413);
  EXPECT_EQ(SlotOf(std::numeric_limits<PointId>::max(), 64), 32);
}

TEST(SlotOf, IsAlwaysASlot) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 10000; ++i) {
    const auto slots = static_cast<int32_t>(1 + random() % 1024);
    const int32_t slot = SlotOf(random(), slots);
    ASSERT_GE(slot, 0);
    ASSERT_LT(slot, slots);
  }
}

// 10,000 ids over 8 shards: each holds 1,250 within 15 %.
void ExpectEven(const std::vector<PointId>& ids) {
  ASSERT_EQ(ids.size(), 10000U);
  for (const int32_t slots : {64, 1024}) {
    const std::vector<int32_t> owner = EvenPlacement(slots, 8);
    std::vector<int64_t> held(8);
    for (const PointId id : ids) {
      ++held[static_cast<size_t>(
          owner[static_cast<size_t>(SlotOf(id, slots))])];
    }
    for (const int64_t n : held) {
      EXPECT_GE(n, 1063) << slots << " slots";
      EXPECT_LE(n, 1437) << slots << " slots";
    }
  }
}

TEST(SlotOf, SpreadsMultiplesOf64) {
  std::vector<PointId> ids;
  for (PointId i = 0; i < 10000; ++i) ids.push_back(64 * i);
  ExpectEven(ids);
}

TEST(SlotOf, SpreadsSequentialIds) {
  std::vector<PointId> ids;
  for (PointId i = 0; i < 10000; ++i) ids.push_back(i);
  ExpectEven(ids);
}

TEST(SlotOf, SpreadsIdsThatDifferInHighBitsOnly) {
  std::vector<PointId> ids;
  for (PointId i = 0; i < 10000; ++i) ids.push_back(i << 48);
  ExpectEven(ids);
}

TEST(SlotOf, SpreadsRandomIds) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<PointId> ids;
  for (int i = 0; i < 10000; ++i) ids.push_back(random());
  ExpectEven(ids);
}

TEST(EvenPlacement, GivesContiguousRunsOfEvenLength) {
  for (int32_t slots = 1; slots <= 70; ++slots) {
    for (int32_t shards = 1; shards <= 70; ++shards) {
      const std::vector<int32_t> owner = EvenPlacement(slots, shards);
      ASSERT_EQ(owner.size(), static_cast<size_t>(slots));
      ASSERT_TRUE(std::is_sorted(owner.begin(), owner.end()));
      ASSERT_GE(owner.front(), 0);
      ASSERT_LT(owner.back(), shards);
      int64_t least = slots;
      int64_t most = 0;
      int64_t before = slots;
      for (int32_t shard = 0; shard < shards; ++shard) {
        const int64_t run = std::count(owner.begin(), owner.end(), shard);
        least = std::min(least, run);
        most = std::max(most, run);
        ASSERT_LE(run, before) << "the last shards are those that own less";
        before = run;
      }
      ASSERT_LE(most - least, 1) << slots << " over " << shards;
    }
  }
}

TEST(EvenPlacement, SplitsAsWritten) {
  EXPECT_EQ(EvenPlacement(5, 2), (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(EvenPlacement(2, 4), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(EvenPlacement(1, 1), (std::vector<int32_t>{0}));
}

}  // namespace
}  // namespace coterie
