#include "training/kmeans_fixed_point.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "absl/numeric/int128.h"
#include "gtest/gtest.h"
#include "index/metric.h"
#include "index/test_vectors.h"

namespace coterie {
namespace {

KMeansScale ScaleOf(int64_t rows, double largest) {
  KMeansExtent extent;
  extent.rows = rows;
  extent.positive_rows = rows;
  extent.max_weight = 1;
  extent.max_product = {largest};
  extent.max_value = {largest};
  return ScaleFor(Metric::kSquaredL2, extent, {});
}

// float32 would stop at 4,194,304.
TEST(FixedPoint, ManySmallContributionsAddUp) {
  constexpr int64_t kCount = 33'554'432;
  const KMeansScale scale = ScaleOf(kCount, 1);
  const FixedPointAdder adder(scale, kCount);
  absl::int128 objective = 0;
  for (int64_t i = 0; i < kCount; ++i) objective += adder.Objective(1, 0.25);
  EXPECT_EQ(FromFixed128(objective, scale.objective_exponent), 8'388'608);
}

// float32 would stop at the first.
TEST(FixedPoint, ALargeAndASmallPartAddUp) {
  const KMeansScale scale = ScaleOf(16'777'217, 1);
  const int64_t large =
      static_cast<int64_t>(std::ldexp(16'777'216, scale.sum_exponents[0]));
  const int64_t small =
      static_cast<int64_t>(std::ldexp(1, scale.sum_exponents[0]));
  EXPECT_EQ(FromFixed64(large + small, scale.sum_exponents[0]), 16'777'217);
  const KMeansScale of_two = ScaleOf(2, 1e4);
  const FixedPointAdder adder(of_two, 2);
  const absl::int128 sum =
      adder.Objective(1, 16'777'216) + adder.Objective(1, 1);
  EXPECT_EQ(FromFixed128(sum, of_two.objective_exponent), 16'777'217);
}

// Against the compiler's conversion.
TEST(FixedPoint, RoundsToTheNearestOfWholeRange) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 100'000; ++i) {
    const int exponent = static_cast<int>(random() % 180) - 60;
    const double value =
        std::ldexp(static_cast<double>(random() >> 11), exponent - 52) *
        (random() % 2 == 0 ? 1 : -1);
    absl::int128 expected = 0;
    if (std::fabs(value) >= 0x1p125) {
      expected = absl::int128(std::copysign(0x1p125, value));
    } else if (std::fabs(value) < 0x1p52) {
      expected = std::llrint(value);
    } else {
      expected = absl::int128(value);
    }
    ASSERT_EQ(ToFixed128(value, 0), expected) << value;
  }
  EXPECT_EQ(ToFixed128(std::numeric_limits<double>::quiet_NaN(), 0), 0);
  EXPECT_EQ(ToFixed128(std::numeric_limits<double>::infinity(), 0),
            absl::int128(1) << 125);
  EXPECT_EQ(ToFixed128(0.5, 0), 0);
  EXPECT_EQ(ToFixed128(1.5, 0), 2);
  EXPECT_EQ(ToFixed128(0x1p52, 0), absl::int128(1) << 52);
}

}  // namespace
}  // namespace coterie
