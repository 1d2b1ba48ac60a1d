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
#include "training/nearest_centre.h"

namespace coterie {
namespace {

struct Case {
  Metric metric;
  TestVectors data;  // rows, and centres as queries
  std::vector<uint8_t> active;
};

void ExpectNearest(const KMeansRows& rows, const NearestCentre& centres,
                   const std::vector<NearestFound>& found) {
  for (int64_t i = 0; i < rows.size(); ++i) {
    const NearestFound& one = found[static_cast<size_t>(i)];
    int32_t label = -1;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < centres.size(); ++j) {
      if (!centres.active(j)) continue;
      const double distance =
          rows.Distance(i, centres.centre(j), centres.squared_norm(j));
      if (label < 0 || distance < least) {
        least = distance;
        label = static_cast<int32_t>(j);
      }
      if (j != one.label) {
        EXPECT_LE(one.other, RadiusAtMost(rows.metric(), distance))
            << i << " " << j;
      }
    }
    EXPECT_EQ(one.label, label) << i;
    EXPECT_EQ(one.distance, least) << i;
  }
}

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
  RowCodes codes(*rows);
  codes.Code(*rows, 0, rows->size());
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
  ExpectNearest(*rows, nearest, found);
  std::vector<NearestFound> first(which.size());
  coded.FindFirst(which, absl::MakeSpan(first), scratch);
  ExpectNearest(*rows, nearest, first);
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
    RowCodes codes(*rows);
    codes.Code(*rows, 0, rows->size());
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

// Codes of a few rows choose the unit of all.
TEST(CodedNearest, HoldsRowsFarBeyondTheUnit) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  const int64_t n = 8200;  // every other row is looked at
  std::vector<float> data;
  std::vector<PointId> ids;
  std::vector<int64_t> which;
  for (int64_t i = 0; i < n; ++i) {
    const float scale =
        i % 1000 == 501 ? std::ldexp(1.0f, static_cast<int>(i / 1000) * 15) : 1;
    for (int64_t j = 0; j < 9; ++j) data.push_back(scale * normal(random));
    ids.push_back(static_cast<PointId>(i));
    which.push_back(i);
  }
  const RowsView view = {data.data(), n, 9, 9};
  const auto rows = KMeansRows::Create(Metric::kSquaredL2, 9,
                                       {{.rows = view, .ids = ids.data()}});
  ASSERT_TRUE(rows.ok());
  std::vector<float> centres;
  for (int64_t i = 0; i < n; i += 100) {
    const bool far = i % 1000 == 500;  // the next row is
    for (float v : view.row(far ? i + 1 : i)) {
      centres.push_back(far ? 1.9f * v : v);
    }
  }
  const NearestCentre nearest(
      Metric::kSquaredL2,
      {centres.data(), static_cast<int64_t>(centres.size()) / 9, 9, 9}, {});
  RowCodes codes(*rows);
  codes.Code(*rows, 0, rows->size());
  const CodedNearest coded(*rows, codes, nearest);
  std::vector<NearestFound> found(which.size());
  CodedNearest::Scratch scratch;
  coded.FindFirst(which, absl::MakeSpan(found), scratch);
  ExpectNearest(*rows, nearest, found);
}

// The row's codes miss in the direction of one centre by all they may, and away
// from another one, which is nearer.
TEST(CodedNearest, SearchesAgainWhereCodesSayTooLittle) {
  constexpr int64_t kDimension = 64;
  const auto vector = [](float first, float most, float last, float sign) {
    std::vector<float> x(kDimension, sign * most / 128);
    x[0] = sign * first / 128;
    for (int64_t i = 61; i < kDimension; ++i) x[i] = sign * last / 128;
    return x;
  };
  std::vector<float> data;
  std::vector<float> centres;
  for (float sign : {1.0f, -1.0f}) {  // the mean is 0
    for (float v : vector(127, 10.49f, 10.49f, sign)) data.push_back(v);
    for (float v : vector(127, -20, -20, sign)) centres.push_back(v);
    for (float v : vector(127, 41, 40, sign)) centres.push_back(v);
  }
  const std::vector<PointId> ids = {0, 1};
  const auto rows = KMeansRows::Create(
      Metric::kSquaredL2, kDimension,
      {{.rows = {data.data(), 2, kDimension, kDimension}, .ids = ids.data()}});
  ASSERT_TRUE(rows.ok());
  const NearestCentre nearest(Metric::kSquaredL2,
                              {centres.data(), 4, kDimension, kDimension}, {});
  RowCodes codes(*rows);
  codes.Code(*rows, 0, 2);
  const CodedNearest coded(*rows, codes, nearest);
  std::vector<NearestFound> found(2);
  CodedNearest::Scratch scratch;
  coded.FindFirst(std::vector<int64_t>{0, 1}, absl::MakeSpan(found), scratch);
  EXPECT_EQ(found[0].label, 1);
  EXPECT_EQ(found[1].label, 3);
  ExpectNearest(*rows, nearest, found);
}

// Centres in the order of their distance from most rows: the first ones are of
// no use to begin with.
TEST(CodedNearest, AFirstSearchComputesLittleMoreThanOneDistanceARow) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  TestVectors data;
  data.d = 64;
  for (int64_t j = 0; j < 512 * 64; ++j) {
    data.queries.push_back((j < 256 * 64 ? 3.0f : 0.5f) * normal(random));
  }
  for (int64_t j = 0; j < 600 * 64; ++j) {
    data.rows.push_back(0.5f * normal(random));
  }
  std::vector<PointId> ids;
  std::vector<int64_t> which;
  for (int64_t i = 0; i < 600; ++i) {
    ids.push_back(static_cast<PointId>(i));
    which.push_back(i);
  }
  const auto rows = KMeansRows::Create(
      Metric::kSquaredL2, 64, {{.rows = data.rows_view(), .ids = ids.data()}});
  ASSERT_TRUE(rows.ok());
  const NearestCentre nearest(Metric::kSquaredL2, data.queries_view(), {});
  RowCodes codes(*rows);
  codes.Code(*rows, 0, rows->size());
  const CodedNearest coded(*rows, codes, nearest);
  std::vector<NearestFound> found(which.size());
  CodedNearest::Scratch scratch;
  EXPECT_LT(coded.FindFirst(which, absl::MakeSpan(found), scratch), 600 * 4);
  ExpectNearest(*rows, nearest, found);
}

}  // namespace
}  // namespace coterie
