#include "index/exact_scan_bound.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "index/metric.h"
#include "index/test_vectors.h"

namespace coterie::internal_scan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

float Norm(double squared) {
  const double squares[2] = {squared, squared};
  float norms[2];
  FilterNorms(squares, 2, norms);
  EXPECT_TRUE(norms[0] == norms[1] ||
              (std::isnan(norms[0]) && std::isnan(norms[1])));
  return norms[0];
}

TEST(FilterNorms, AreSquareRootsInTheUsableRange) {
  for (double norm : {0.0, 0x1p-100, 1e-20, 0.5, 1.0, 3.0, 1e20, 0x1p120}) {
    EXPECT_EQ(Norm(norm * norm), static_cast<float>(norm));
  }
}

TEST(FilterNorms, AreNanOutsideIt) {
  for (double norm : {0x1p-149, 0x1p-101, 0x1p121, 1e40}) {
    EXPECT_TRUE(std::isnan(Norm(norm * norm))) << norm;
  }
}

TEST(CutOff, OfSquaredL2IsJustAboveTheThreshold) {
  for (double threshold : {0.0, 1e-40, 1.0, 1e20}) {
    const CutOff cut = CutOffFor(Metric::kSquaredL2, 100, 1, threshold);
    EXPECT_GT(cut.a, threshold);
    EXPECT_LT(cut.a, threshold * (1 + 1e-5) + 1e-40);
  }
}

// As the Dot kernels compare.
bool RuledOut(CutOff cut, float value, float norm) {
  return value < cut.a + cut.b * norm && value > -kInfinity;
}

// The formulas of the header, in double; both roundings are then one-sided and
// by less than a unit in the last place of a float.
TEST(CutOff, IsRoundedToTheSafeSide) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 10000; ++round) {
    const int64_t d = 1 + static_cast<int64_t>(random() % 16384);
    const double norm = std::exp2(static_cast<double>(random() % 60) - 30);
    const double t = std::uniform_real_distribution<double>(0, 2)(random);
    const double nv = static_cast<double>((d + 7) / 8 + 8) * 0x1p-24;
    const double gamma = nv / (1 - nv);
    const auto expect_just_below = [](float actual, double exact) {
      EXPECT_LE(actual, exact);
      EXPECT_GE(actual, exact - 0x1p-23 * std::fabs(exact));
    };
    const CutOff l2 = CutOffFor(Metric::kSquaredL2, d, 1, t);
    expect_just_below(-l2.a, -t * (1 + gamma));
    const CutOff ip = CutOffFor(Metric::kInnerProduct, d, norm * norm, t);
    expect_just_below(ip.a, -t * (1 + 0x1p-21));
    expect_just_below(ip.b, -(gamma + 0x1p-39) * norm * (1 + 0x1p-21));
    const CutOff cosine = CutOffFor(Metric::kCosine, d, norm * norm, t);
    const double b = (1 - t - gamma - 0x1p-39) * norm;
    expect_just_below(cosine.b, b - 0x1p-21 * std::fabs(b));
    EXPECT_LT(cosine.a, -static_cast<double>(d) * 0x1p-149);
    ASSERT_FALSE(testing::Test::HasFailure())
        << "d " << d << " norm " << norm << " t " << t;
  }
}

TEST(CutOff, WithoutAThresholdRulesNothingOut) {
  EXPECT_EQ(CutOffFor(Metric::kSquaredL2, 8, 1, kInfinity).a, kInfinity);
  for (float norm : {0.0f, 1.0f, 0x1p120f}) {
    EXPECT_FALSE(RuledOut(CutOffFor(Metric::kInnerProduct, 8, 1, kInfinity),
                          -3e38f, norm));
    EXPECT_FALSE(
        RuledOut(CutOffFor(Metric::kCosine, 8, 1, kInfinity), -norm, norm));
    EXPECT_FALSE(RuledOut(CutOffFor(Metric::kCosine, 8, 1, 2.0), -norm, norm));
  }
}

TEST(CutOff, BeyondTheFloatsIsInfiniteOrDecides) {
  EXPECT_EQ(CutOffFor(Metric::kSquaredL2, 8, 1, 1e39).a, kInfinity);
  const CutOff far = CutOffFor(Metric::kInnerProduct, 8, 1, 1e39);
  EXPECT_FALSE(RuledOut(far, -3e38f, 1));
  const CutOff near = CutOffFor(Metric::kInnerProduct, 8, 1, -1e39);
  EXPECT_TRUE(RuledOut(near, 3e38f, 1));
  // A query of norm 1e39 and a row of norm 1 at cosine 0.3, 0.7; limit 0.5.
  const CutOff long_query = CutOffFor(Metric::kCosine, 8, 1e78, 0.5);
  EXPECT_TRUE(RuledOut(long_query, 3e38f, 1));
  EXPECT_FALSE(RuledOut(long_query, kInfinity, 1));
}

TEST(CutOff, RulesOutNothingWhereTheNormIsNotUsable) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(RuledOut(CutOffFor(Metric::kInnerProduct, 8, 1, -1), 0, nan));
  EXPECT_FALSE(RuledOut(CutOffFor(Metric::kCosine, 8, 1, 0.5), 0, nan));
}

TEST(CutOff, OfInnerProductFallsWithTheNorm) {
  const CutOff cut = CutOffFor(Metric::kInnerProduct, 100, 4, -10);
  EXPECT_LT(cut.a, 10);
  EXPECT_GT(cut.a, 9.99);
  EXPECT_LT(cut.b, 0);
  EXPECT_GT(cut.b, -1e-5);
}

TEST(CutOff, OfCosineIsTheLeastCosineTimesTheNorm) {
  const CutOff cut = CutOffFor(Metric::kCosine, 100, 4, 0.25);
  EXPECT_LT(cut.a, 0);
  EXPECT_GT(cut.a, -1e-40);
  EXPECT_LT(cut.b, 1.5);
  EXPECT_GT(cut.b, 1.4999);
}

}  // namespace
}  // namespace coterie::internal_scan
