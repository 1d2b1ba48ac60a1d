// Faults that users of comparable systems reported, by their right value. Each
// test names the report and runs on every SIMD target.

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A small set of points, searched as a shard would.
struct Points {
  int64_t d = 0;
  std::vector<PointId> ids;
  std::vector<float> data;

  RowsView rows() const {
    return {data.data(), static_cast<int64_t>(ids.size()), d, d};
  }

  std::vector<std::vector<Neighbor>> Search(
      Metric metric, const std::vector<float>& queries, int64_t k,
      double bound = kInfinity, const uint64_t* live = nullptr) const {
    std::vector<double> norms;
    for (int64_t i = 0; i < rows().n; ++i) {
      norms.push_back(CanonicalSquaredNorm(rows().row(i)));
    }
    const int64_t m = static_cast<int64_t>(queries.size()) / d;
    const ScanQueries prepared(metric, {queries.data(), m, d, d});
    std::vector<TopK> tops(static_cast<size_t>(m), TopK(k, bound));
    std::vector<ScanAccount> accounts(tops.size());
    EXPECT_TRUE(ExactScan(prepared, {rows(), ids.data(), norms.data(), live}, 0,
                          rows().n, absl::MakeSpan(tops),
                          absl::MakeSpan(accounts), [] { return false; }));
    std::vector<std::vector<Neighbor>> found;
    for (TopK& top : tops) found.push_back(top.TakeSorted());
    return found;
  }

  std::vector<PointId> Ids(Metric metric, const std::vector<float>& query,
                           int64_t k) const {
    std::vector<PointId> found;
    const std::vector<std::vector<Neighbor>> all = Search(metric, query, k);
    for (const Neighbor& n : all[0]) {
      found.push_back(n.id);
    }
    return found;
  }
};

class ReportedFaults : public testing::TestWithParam<SimdTarget> {
 protected:
  void SetUp() override { SetActiveSimdTargetForTest(GetParam()); }
};

// facebookresearch/faiss#3830: an empty index made up id 0 from batches of 20.
TEST_P(ReportedFaults, AnEmptySetHasNoNeighboursAtAnyBatchSize) {
  const Points empty{.d = 3, .ids = {}, .data = {}};
  for (size_t batch : {1, 19, 20, 21, 64}) {
    for (int64_t k : {1, 2}) {
      for (Metric metric : {Metric::kSquaredL2, Metric::kInnerProduct}) {
        const auto found =
            empty.Search(metric, std::vector<float>(3 * batch, 0), k);
        ASSERT_EQ(found.size(), batch);
        for (const auto& neighbors : found) EXPECT_THAT(neighbors, IsEmpty());
      }
    }
  }
}

// facebookresearch/faiss#2657: the tail was filled with id -1.
TEST_P(ReportedFaults, FewerPointsThanKGiveAShortList) {
  const Points points{.d = 2, .ids = {10, 20, 30}, .data = {1, 0, 2, 0, 3, 0}};
  EXPECT_THAT(points.Search(Metric::kSquaredL2, {0, 0}, 10)[0],
              ElementsAre(Neighbor{10, 1}, Neighbor{20, 4}, Neighbor{30, 9}));
}

// chroma-core/chroma#301: it was an error.
TEST_P(ReportedFaults, KMayExceedTheNumberOfLivePoints) {
  const Points points{.d = 1, .ids = {1, 2, 3, 4}, .data = {1, 2, 3, 4}};
  const uint64_t without_second = 0b1101;
  for (int64_t k : {int64_t{4}, int64_t{5}, int64_t{1000},
                    int64_t{std::numeric_limits<int32_t>::max()}}) {
    for (Metric metric : kMetrics) {
      EXPECT_EQ(points.Search(metric, {1}, k)[0].size(), 4u);
      EXPECT_EQ(
          points.Search(metric, {1}, k, kInfinity, &without_second)[0].size(),
          3u);
    }
  }
}

// serenedb/serenedb#1037: scores of zero and below never entered the heap.
TEST_P(ReportedFaults, InnerProductsOfZeroAndBelowAreFound) {
  const Points points{.d = 2, .ids = {1, 2, 3}, .data = {-1, 0, -3, 0, 0, 1}};
  EXPECT_THAT(points.Ids(Metric::kInnerProduct, {1, 0}, 2), ElementsAre(3, 1));
  EXPECT_THAT(points.Ids(Metric::kInnerProduct, {1, 0}, 3),
              ElementsAre(3, 1, 2));
}

// facebookresearch/faiss#297: |x|^2 + |y|^2 - 2xy fell below zero in batches.
TEST_P(ReportedFaults, SquaredL2OfCloseLongVectorsIsAccurateInBatches) {
  const Points points{.d = 2, .ids = {1}, .data = {881.5f, 742.8f}};
  std::vector<float> queries;
  for (int i = 0; i < 32; ++i) {
    queries.push_back(881.6f);
    queries.push_back(742.8f);
  }
  for (const auto& neighbors : points.Search(Metric::kSquaredL2, queries, 1)) {
    ASSERT_EQ(neighbors.size(), 1u);
    EXPECT_NEAR(neighbors[0].distance, 0.0099951, 0.0099951 * 1e-4);
  }
}

// scikit-learn/scikit-learn#9354: the expansion named the wrong neighbour.
TEST_P(ReportedFaults, TheNearerOfTwoFarPointsIsFound) {
  const Points points{.d = 1, .ids = {1, 2}, .data = {2000.55f, 1999.35f}};
  EXPECT_THAT(points.Ids(Metric::kSquaredL2, {2000}, 1), ElementsAre(1));
}

// facebookresearch/faiss#563: distances changed with the size of the batch.
TEST_P(ReportedFaults, BatchSizeDoesNotChangeDistances) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const TestVectors made =
      MakeTestVectors("offset", 1000, 256, 64, true, random);
  Points points{.d = 64, .ids = {}, .data = made.rows};
  for (PointId id = 0; id < 1000; ++id) points.ids.push_back(id);
  for (Metric metric : kMetrics) {
    std::vector<Neighbor> alone;
    for (int64_t batch : {1, 5, 20, 32, 256}) {
      const std::vector<float> queries(made.queries.begin(),
                                       made.queries.begin() + 64 * batch);
      const auto first = points.Search(metric, queries, 10)[0];
      if (batch == 1) alone = first;
      EXPECT_EQ(first, alone) << MetricName(metric) << ", batch " << batch;
    }
    EXPECT_EQ(alone.size(), 10u);
  }
}

// spiceai/spiceai#11621: NaN sorted first. A row with NaN cannot be stored; if
// one is met all the same it does not displace real neighbours.
TEST_P(ReportedFaults, ARowOfNanIsNotANeighbour) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Points points{
      .d = 1, .ids = {1, 2, 3, 4}, .data = {nan, 0.1f, 0.2f, nan}};
  EXPECT_THAT(points.Ids(Metric::kSquaredL2, {0}, 2), ElementsAre(2, 3));
  EXPECT_THAT(points.Ids(Metric::kInnerProduct, {1}, 2), ElementsAre(3, 2));
}

// matrixorigin/matrixone#28881: distances that overflow float32 left the index
// of the nearest at -1.
TEST_P(ReportedFaults, DistancesBeyondFloat32AreCompared) {
  const Points points{.d = 1, .ids = {1, 2}, .data = {-2e19f, -3e19f}};
  EXPECT_THAT(points.Ids(Metric::kSquaredL2, {2e19f}, 1), ElementsAre(1));
  EXPECT_THAT(points.Ids(Metric::kSquaredL2, {2e19f}, 2), ElementsAre(1, 2));
  EXPECT_THAT(points.Ids(Metric::kInnerProduct, {2e19f}, 2), ElementsAre(1, 2));
  EXPECT_THAT(points.Ids(Metric::kCosine, {2e19f}, 2), ElementsAre(1, 2));

  const Points extremes{
      .d = 2,
      .ids = {1, 2, 3},
      .data = {3.4e38f, 3.4e38f, -3.4e38f, 3.4e38f, 3.3e38f, 3.4e38f}};
  for (Metric metric : kMetrics) {
    const auto found = extremes.Search(metric, {3.4e38f, 3.4e38f}, 3)[0];
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].id, 1u) << MetricName(metric);
    EXPECT_EQ(found[2].id, 2u) << MetricName(metric);
    for (const Neighbor& n : found) EXPECT_TRUE(std::isfinite(n.distance));
  }
}

// milvus-io/milvus#1806: shards merged in the order that suits L2 only.
TEST_P(ReportedFaults, MergedShardsEqualOneShardUnderEveryMetric) {
  const Points a{.d = 2, .ids = {1, 2}, .data = {5, 1, 1, 3}};
  const Points b{.d = 2, .ids = {3, 4}, .data = {9, 1, 7, 7}};
  const Points all{
      .d = 2, .ids = {1, 2, 3, 4}, .data = {5, 1, 1, 3, 9, 1, 7, 7}};
  EXPECT_THAT(all.Ids(Metric::kInnerProduct, {1, 0}, 2), ElementsAre(3, 4));
  for (Metric metric : kMetrics) {
    for (const std::vector<float>& q :
         {std::vector<float>{1, 0}, std::vector<float>{-1, 2}}) {
      const MergedTopK merged =
          MergeTopK({a.Search(metric, q, 2)[0], b.Search(metric, q, 2)[0]}, 2);
      EXPECT_EQ(merged.neighbors, all.Search(metric, q, 2)[0])
          << MetricName(metric);
    }
  }
}

// scikit-learn/scikit-learn#18087: a radius equal to a returned distance
// missed the point itself.
TEST_P(ReportedFaults, ARadiusReturnedBySearchIncludesThatPoint) {
  const Points points{.d = 2,
                      .ids = {1, 2, 3, 4},
                      .data = {0.1f, 0.2f, 0.4f, 0.6f, 0.1f, 0.2f, 0.4f, 0.6f}};
  const std::vector<float> query = {0.3f, 0.3f};
  for (Metric metric : kMetrics) {
    const double radius = points.Search(metric, query, 1)[0][0].distance;
    const auto within = points.Search(metric, query, 100, radius)[0];
    ASSERT_EQ(within.size(), 2u) << MetricName(metric);
    EXPECT_EQ(within[0].id + 2, within[1].id);
    EXPECT_EQ(within[0].distance, radius);
    EXPECT_EQ(within[1].distance, radius);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ReportedFaults,
                         testing::ValuesIn(SupportedSimdTargets()),
                         [](const auto& target) {
                           return "On" + std::to_string(
                                             static_cast<int>(target.param));
                         });

}  // namespace
}  // namespace coterie
