#include "index/exact_scan_bound.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "index/metric.h"

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

TEST(CutOff, WithoutAThresholdRulesNothingOut) {
  EXPECT_EQ(CutOffFor(Metric::kSquaredL2, 8, 1, kInfinity).a, kInfinity);
  // Any finite float passes `value < NaN` as false.
  EXPECT_TRUE(std::isnan(CutOffFor(Metric::kInnerProduct, 8, 1, kInfinity).a));
  EXPECT_TRUE(std::isnan(CutOffFor(Metric::kCosine, 8, 1, kInfinity).a));
  EXPECT_TRUE(std::isnan(CutOffFor(Metric::kCosine, 8, 1, 2.0).a));
}

TEST(CutOff, BeyondTheFloatsRulesNothingOut) {
  EXPECT_EQ(CutOffFor(Metric::kSquaredL2, 8, 1, 1e39).a, kInfinity);
  EXPECT_TRUE(std::isnan(CutOffFor(Metric::kInnerProduct, 8, 1, 1e39).a));
  EXPECT_TRUE(std::isnan(CutOffFor(Metric::kInnerProduct, 8, 1, -1e39).a));
  EXPECT_TRUE(std::isnan(CutOffFor(Metric::kCosine, 8, 1e78, 0.5).a));
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
