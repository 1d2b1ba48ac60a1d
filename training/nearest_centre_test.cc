#include "training/nearest_centre.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/vectors.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_testing.h"

namespace coterie {
namespace {

// The radius in long double, for checking bounds.
long double Radius(Metric metric, VectorView x, VectorView c) {
  long double xx = 0;
  long double cc = 0;
  for (float v : x) xx += static_cast<long double>(v) * v;
  for (float v : c) cc += static_cast<long double>(v) * v;
  long double sum = 0;
  for (size_t j = 0; j < x.size(); ++j) {
    const long double t = metric == Metric::kCosine
                              ? x[j] / std::sqrt(xx) - c[j] / std::sqrt(cc)
                              : static_cast<long double>(x[j]) - c[j];
    sum += t * t;
  }
  return std::sqrt(sum);
}

struct Case {
  Metric metric;
  TestVectors data;  // rows, and centres as queries
  std::vector<uint8_t> active;
};

void Check(const Case& test) {
  const RowsView centres = test.data.queries_view();
  std::vector<PointId> ids;
  std::vector<int64_t> which;
  for (int64_t i = 0; i < test.data.rows_view().n; ++i) {
    ids.push_back(static_cast<PointId>(i));
    which.push_back(i);
  }
  const KMeansBlock block = {.rows = test.data.rows_view(), .ids = ids.data()};
  const auto rows = KMeansRows::Create(test.metric, test.data.d, {block});
  ASSERT_TRUE(rows.ok());
  const NearestCentre nearest(test.metric, centres, test.active);
  std::vector<NearestFound> found(which.size());
  NearestCentre::Scratch scratch;
  nearest.Find(*rows, which, absl::MakeSpan(found), scratch);
  std::vector<NearestFound> again(which.size());
  std::vector<float> bounds(which.size() * static_cast<size_t>(centres.n));
  std::vector<float*> bound_rows;
  for (size_t i = 0; i < which.size(); ++i) {
    bound_rows.push_back(bounds.data() + i * static_cast<size_t>(centres.n));
  }
  nearest.FindWithBounds(*rows, which, absl::MakeSpan(again), bound_rows.data(),
                         scratch);
  for (size_t i = 0; i < which.size(); ++i) {
    int32_t label = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < centres.n; ++j) {
      if (!test.active.empty() && test.active[static_cast<size_t>(j)] == 0) {
        continue;
      }
      const double distance = CanonicalDistance(
          test.metric, centres.row(j), rows->row(static_cast<int64_t>(i)));
      if (label < 0 || distance < least) {
        least = distance;
        label = static_cast<int32_t>(j);
      }
    }
    ASSERT_EQ(found[i].label, label) << i;
    ASSERT_EQ(found[i].distance, least) << i;
    ASSERT_EQ(again[i].label, label) << i;
    for (int64_t j = 0; j < centres.n; ++j) {
      if (!test.active.empty() && test.active[static_cast<size_t>(j)] == 0) {
        continue;
      }
      const long double radius = Radius(
          test.metric, rows->row(static_cast<int64_t>(i)), centres.row(j));
      const long double slack = 1 + 1e-15L;
      if (j != label) {
        ASSERT_LE(found[i].other, radius * slack) << i << " " << j;
      }
      ASSERT_LE(bound_rows[i][j], radius * slack) << i << " " << j;
      const double distance = CanonicalDistance(
          test.metric, centres.row(j), rows->row(static_cast<int64_t>(i)));
      if (test.metric != Metric::kCosine) {
        ASSERT_GE(RadiusAtMost(test.metric, distance) * slack, radius);
      }
      ASSERT_LE(RadiusAtLeast(test.metric, distance), radius * slack);
    }
  }
}

TEST(NearestCentre, IsTheCanonicalOneOnEveryTargetForEveryKindOfData) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  const SimdTarget before = ActiveSimdTarget();
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    std::mt19937_64 random(seed);
    for (Metric metric : {Metric::kSquaredL2, Metric::kCosine}) {
      for (const std::string& kind : TestVectorKinds()) {
        for (int64_t d : {1, 3, 17, 200}) {
          const int64_t k = 1 + static_cast<int64_t>(random() % 120);
          Case test = {metric,
                       MakeTestVectors(kind, 13, k, d,
                                       metric == Metric::kCosine, random),
                       {}};
          SCOPED_TRACE(testing::Message()
                       << SimdTargetName(target) << " " << MetricName(metric)
                       << " " << kind << " d=" << d << " k=" << k);
          Check(test);
          for (int64_t j = 0; j < k; ++j) test.active.push_back(random() % 2);
          test.active[random() % static_cast<uint64_t>(k)] = 1;
          Check(test);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
  SetActiveSimdTargetForTest(before);
}

// Integer grids: many centres at exactly the same distance.
TEST(NearestCentre, TakesTheLeastIndexAmongExactTies) {
  std::mt19937_64 random(TestSeed());
  for (int64_t d : {1, 2, 5}) {
    TestVectors data;
    data.kind = "grid";
    data.d = d;
    for (int64_t i = 0; i < 200 * d; ++i) {
      data.rows.push_back(static_cast<float>(random() % 4));
    }
    for (int64_t i = 0; i < 60 * d; ++i) {
      data.queries.push_back(static_cast<float>(random() % 4));
    }
    Check({Metric::kSquaredL2, data, {}});
  }
}

// Unit spread around 10^6: the float32 product alone could not tell.
TEST(NearestCentre, IsExactFarFromTheOrigin) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<double> normal;
  TestVectors data;
  data.d = 20;
  for (int i = 0; i < 100 * 20; ++i) {
    data.rows.push_back(static_cast<float>(1e6 + normal(random)));
  }
  for (int i = 0; i < 70 * 20; ++i) {
    data.queries.push_back(static_cast<float>(1e6 + normal(random)));
  }
  Check({Metric::kSquaredL2, data, {}});
}

TEST(NearestCentre, HasNoOtherWithOneCentre) {
  const std::vector<float> values = {1, 2};
  const std::vector<PointId> ids = {7};
  const KMeansBlock block = {.rows = {values.data(), 1, 2, 2},
                             .ids = ids.data()};
  const auto rows = KMeansRows::Create(Metric::kSquaredL2, 2, {block});
  ASSERT_TRUE(rows.ok());
  const NearestCentre nearest(Metric::kSquaredL2, {values.data(), 1, 2, 2}, {});
  std::vector<NearestFound> found(1);
  NearestCentre::Scratch scratch;
  nearest.Find(*rows, {0}, absl::MakeSpan(found), scratch);
  EXPECT_EQ(found[0].label, 0);
  EXPECT_EQ(found[0].distance, 0);
  EXPECT_EQ(found[0].other, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace coterie
