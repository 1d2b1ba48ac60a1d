#include "training/coded_nearest.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/vectors.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {
namespace {

struct Case {
  Metric metric;
  TestVectors data;  // rows, and centres as queries
  std::vector<uint8_t> active;
};

// Canonical distances computed.
int64_t Check(const Case& test, std::mt19937_64& random) {
  const RowsView view = test.data.rows_view();
  const RowsView centres = test.data.queries_view();
  std::vector<PointId> ids;
  std::vector<int64_t> which;
  for (int64_t i = 0; i < view.n; ++i) {
    ids.push_back(static_cast<PointId>(i));
    which.push_back(i);
  }
  const auto rows = KMeansRows::Create(test.metric, test.data.d,
                                       {{.rows = view, .ids = ids.data()}});
  EXPECT_TRUE(rows.ok());
  const NearestCentre nearest(test.metric, centres, test.active);
  const RowCodes codes(*rows, KMeansWorkers());
  const CodedNearest coded(*rows, codes, nearest);
  std::vector<NearestFound> found;
  std::vector<double> reach;
  for (int64_t i = 0; i < view.n; ++i) {
    int64_t label = 0;
    do {
      label = static_cast<int64_t>(random() % static_cast<uint64_t>(centres.n));
    } while (!nearest.active(label));
    const double distance =
        rows->Distance(i, nearest.centre(label), nearest.squared_norm(label));
    found.push_back({static_cast<int32_t>(label), distance, 0});
    reach.push_back(i % 2 == 0 ? 0 : 0.1 * RadiusAtMost(test.metric, distance));
  }
  CodedNearest::Scratch scratch;
  const int64_t evaluated =
      coded.Find(which, reach, absl::MakeSpan(found), scratch);
  for (int64_t i = 0; i < view.n; ++i) {
    const NearestFound& one = found[static_cast<size_t>(i)];
    int32_t label = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < centres.n; ++j) {
      if (!nearest.active(j)) continue;
      const double distance =
          rows->Distance(i, nearest.centre(j), nearest.squared_norm(j));
      if (label < 0 || distance < least) {
        least = distance;
        label = static_cast<int32_t>(j);
      }
      if (j != one.label) {
        EXPECT_LE(one.other, RadiusAtMost(test.metric, distance))
            << i << " " << j;
      }
    }
    EXPECT_EQ(one.label, label) << i;
    EXPECT_EQ(one.distance, least) << i;
  }
  return evaluated;
}

// Among some centres, beside one that need not be of them.
TEST(CodedNearest, LooksAtMembersOnly) {
  std::mt19937_64 random(TestSeed());
  for (const std::string& kind : TestVectorKinds()) {
    SCOPED_TRACE(kind);
    const TestVectors data =
        MakeTestVectors(kind, 40, 200, 20, /*nonzero=*/false, random);
    const RowsView view = data.rows_view();
    std::vector<PointId> ids;
    std::vector<int64_t> which;
    for (int64_t i = 0; i < view.n;
         i += 1 + static_cast<int64_t>(random() % 2)) {
      which.push_back(i);
    }
    for (int64_t i = 0; i < view.n; ++i) ids.push_back(PointId(i));
    const auto rows = KMeansRows::Create(Metric::kSquaredL2, data.d,
                                         {{.rows = view, .ids = ids.data()}});
    ASSERT_TRUE(rows.ok());
    const NearestCentre centres(Metric::kSquaredL2, data.queries_view(), {});
    std::vector<int32_t> members;
    for (int32_t j = 0; j < 200; ++j) {
      if (random() % 3 == 0) members.push_back(j);
    }
    const RowCodes codes(*rows, KMeansWorkers());
    const CodedNearest coded(*rows, codes, centres, members);
    std::vector<NearestFound> found;
    for (int64_t i : which) {
      const auto own = static_cast<int32_t>(random() % 200);
      found.push_back({own, rows->Distance(i, centres.centre(own), 0), 0});
    }
    const std::vector<NearestFound> before = found;
    CodedNearest::Scratch scratch;
    coded.Find(which, std::vector<double>(which.size(), 0),
               absl::MakeSpan(found), scratch);
    for (size_t q = 0; q < which.size(); ++q) {
      NearestFound expected = before[q];
      for (int32_t j : members) {
        const double distance = rows->Distance(which[q], centres.centre(j), 0);
        if (distance < expected.distance ||
            (distance == expected.distance && j < expected.label)) {
          expected = {j, distance, 0};
        }
      }
      EXPECT_EQ(found[q].label, expected.label);
      EXPECT_EQ(found[q].distance, expected.distance);
      members.push_back(before[q].label);
      for (int32_t j : members) {
        if (j == expected.label) continue;
        EXPECT_LE(found[q].other,
                  RadiusAtMost(Metric::kSquaredL2,
                               rows->Distance(which[q], centres.centre(j), 0)));
      }
      members.pop_back();
    }
  }
}

TEST(CodedNearest, IsTheCanonicalOneOnEveryTargetForEveryKindOfData) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  const SimdTarget before = ActiveSimdTarget();
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    std::mt19937_64 random(seed);
    for (Metric metric : {Metric::kSquaredL2, Metric::kCosine}) {
      for (const std::string& kind : TestVectorKinds()) {
        for (int64_t d : {1, 3, 17, 130}) {
          const int64_t k = 1 + static_cast<int64_t>(random() % 150);
          Case test = {metric,
                       MakeTestVectors(kind, 25, k, d,
                                       metric == Metric::kCosine, random),
                       {}};
          SCOPED_TRACE(testing::Message() << CodeKernelName(ActiveCodeKernel())
                                          << " " << MetricName(metric) << " "
                                          << kind << " d=" << d << " k=" << k);
          Check(test, random);
          for (int64_t j = 0; j < k; ++j) test.active.push_back(random() % 2);
          test.active[random() % static_cast<uint64_t>(k)] = 1;
          Check(test, random);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
  SetActiveSimdTargetForTest(before);
}

// More centres than the kernel takes at once in cache, one row a centre.
TEST(CodedNearest, ComputesFewDistancesOnRealShapes) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  Case test = {Metric::kSquaredL2, {}, {}};
  test.data.d = 96;
  for (int64_t j = 0; j < 3000 * 96; ++j) {
    test.data.queries.push_back(normal(random));
  }
  for (int64_t j = 0; j < 200 * 96; ++j) {
    test.data.rows.push_back(test.data.queries[static_cast<size_t>(j)] +
                             0.1f * normal(random));
  }
  // From a random centre the radius rules out half, then codes almost all.
  EXPECT_LT(Check(test, random), 200 * 400);
}

}  // namespace
}  // namespace coterie
