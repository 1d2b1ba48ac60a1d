#include "shard/stored_points.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

TEST(InSlice, EveryPointIsInExactlyOneSlice) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  for (const int32_t slots : {1, 2, 7, 64, 1024}) {
    for (const int32_t slices : {1, 2, 3, 64, 65, 1000}) {
      for (int i = 0; i < 20; ++i) {
        const PointId id = random();
        int count = 0;
        for (int32_t slice = 0; slice < slices; ++slice) {
          if (InSlice(id, SlotOf(id, slots), slots, slice, slices)) ++count;
        }
        ASSERT_EQ(count, 1) << id << ", " << slots << " slots, " << slices;
      }
    }
  }
}

TEST(InSlice, SlicesAreOfAboutOneSize) {
  constexpr int64_t kPoints = 100000;
  for (const int32_t slots : {1, 64, 100}) {
    for (const int32_t slices : {3, 64, 100}) {
      std::vector<int64_t> sizes(static_cast<size_t>(slices));
      for (PointId id = 0; id < kPoints; ++id) {
        const int32_t slot = SlotOf(id, slots);
        // Its slice is near slot / slots; find it there.
        const int32_t guess = slot * slices / slots;
        for (int32_t slice = guess; slice < slices; ++slice) {
          if (InSlice(id, slot, slots, slice, slices)) {
            ++sizes[static_cast<size_t>(slice)];
            break;
          }
        }
      }
      const auto [least, most] =
          std::minmax_element(sizes.begin(), sizes.end());
      const double expected = static_cast<double>(kPoints) / slices;
      EXPECT_GT(*least, 0.8 * expected) << slots << " slots, " << slices;
      EXPECT_LT(*most, 1.2 * expected) << slots << " slots, " << slices;
    }
  }
}

TEST(InSlice, HoldsForTheLargestNumberOfSlices) {
  constexpr int32_t kMost = 2147483647;
  EXPECT_TRUE(InSlice(
      0, 0, 1,
      static_cast<int32_t>((SplitMix64(0) >> 32) * uint64_t{kMost} >> 32),
      kMost));
  EXPECT_FALSE(InSlice(0, 0, 1, kMost - 1, kMost));
}

}  // namespace
}  // namespace coterie
