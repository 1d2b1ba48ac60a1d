#include "index/certified_bound.h"

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_slack.h"
#include "index/certified_test_check.h"
#include "index/certified_test_data.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};
constexpr CertifiedQueries::Depth kDepths[] = {CertifiedQueries::Depth::kCoarse,
                                               CertifiedQueries::Depth::kFine};

// How often the random data sets are drawn; the long test draws more.
int64_t Rounds() {
  const char* text = std::getenv("ROUNDS");
  return text == nullptr ? 1 : std::atoll(text);
}

// All kernels, depths and metrics on all kinds of n rows and m queries.
void ExpectNoLoss(int64_t n, int64_t m, int64_t d, std::mt19937_64& random) {
  for (const std::string& kind : CertifiedTestKinds()) {
    for (Metric metric : kMetrics) {
      CertifiedTestData data =
          MakeCertifiedTestData(kind, metric, n, m, d, random);
      if (random() % 4 == 0) data.clip = 0.5;
      const CertifiedCheck check(data, metric);
      CertifiedLosses losses;
      for (CodeKernel kernel : SupportedCodeKernels()) {
        for (CertifiedQueries::Depth depth : kDepths) {
          check.Run(CertifiedSlack(), kernel, depth, losses);
        }
      }
      ASSERT_EQ(losses.all(), 0)
          << losses.own << " own, " << losses.kth << " k-th, " << losses.lower
          << " lower, " << losses.upper << " upper of " << losses.pairs
          << "; first: " << losses.first << "; SEED=" << TestSeed();
    }
  }
}

class CertifiedBoundTest : public testing::TestWithParam<int64_t> {};

TEST_P(CertifiedBoundTest, LosesNoRowOfAnyPair) {
  std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(GetParam()));
  for (int64_t round = 0; round < Rounds(); ++round) {
    ExpectNoLoss(/*n=*/75, /*m=*/13, GetParam(), random);
  }
}

INSTANTIATE_TEST_SUITE_P(SmallDimensions, CertifiedBoundTest,
                         testing::Values(1, 2, 3, 5, 8, 17, 64, 100));

TEST(CertifiedBound, LosesNoRowInManyDimensions) {
  std::mt19937_64 random(TestSeed());
  ExpectNoLoss(/*n=*/40, /*m=*/7, /*d=*/784, random);
}

TEST(CertifiedBound, LosesNoRowInTheMostDimensions) {
  std::mt19937_64 random(TestSeed());
  ExpectNoLoss(/*n=*/8, /*m=*/2, kMaxDimension, random);
}

TEST(CertifiedBound, LosesNoRowOfSeveralPanels) {
  std::mt19937_64 random(TestSeed());
  ExpectNoLoss(/*n=*/1100, /*m=*/2, /*d=*/9, random);
}

TEST(CertifiedBound, KeepsEveryRowWithoutThreshold) {
  const std::vector<float> rows = {1, 2, 3, 4};
  const CertifiedCodes codes(Metric::kSquaredL2, {rows.data(), 2, 2, 2});
  const ScanQueries scan(Metric::kSquaredL2, {rows.data(), 1, 2, 2});
  const CertifiedQueries queries(scan, codes);
  const float ip = -1e9f;
  const auto keeps = [&](double threshold) {
    const CertifiedCut cut =
        CutFor(codes, queries.query(0), codes.panel(0), threshold);
    return !(ip < cut.a * *codes.a(0) + (cut.b * *codes.b(0) + cut.k));
  };
  EXPECT_TRUE(keeps(std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(keeps(std::numeric_limits<double>::quiet_NaN()));
  EXPECT_FALSE(keeps(1e-3));
}

TEST(CertifiedBound, IsNearTheDistance) {
  // Proven bounds are only useful if they are close: here within 5 %.
  std::mt19937_64 random(TestSeed());
  const CertifiedTestData data =
      MakeCertifiedTestData("gaussian", Metric::kSquaredL2, 64, 1, 100, random);
  const CertifiedCodes codes(Metric::kSquaredL2, data.rows_view());
  const ScanQueries scan(Metric::kSquaredL2, data.queries_view());
  const CertifiedQueries queries(scan, codes, CodeKernel::kScalar,
                                 CertifiedQueries::Depth::kCoarse);
  const int8_t* query = reinterpret_cast<const int8_t*>(queries.quads(0));
  for (int64_t row = 0; row < codes.size(); ++row) {
    int32_t ip = 0;
    const uint8_t* code = codes.block(row / 16 * 16) + row % 16 * 4;
    for (int64_t j = 0; j < 100; ++j) {
      ip += query[j] * (code[j / 4 * 64 + j % 4] - 128);
    }
    const CertifiedScore score = {*codes.a(row), *codes.b(row), ip};
    const double distance = CanonicalDistance(Metric::kSquaredL2, scan.query(0),
                                              data.rows_view().row(row));
    EXPECT_GT(LowerBound(codes, queries.query(0), codes.panel(0), score),
              0.95 * distance);
    EXPECT_LT(UpperBound(codes, queries.query(0), codes.panel(0), score),
              1.05 * distance);
  }
}

}  // namespace
}  // namespace coterie
