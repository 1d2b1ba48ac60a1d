// What every kind of index owes its callers: the same cases for the exact scan,
// the certified scan, the tree, LSH and indexes of FAISS, each at its exact
// setting.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/test_kinds.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// gtest prints the name.
struct Kind {
  const char* name;
  std::unique_ptr<Index> (*make)(Metric metric, const Points& points);
  friend void PrintTo(const Kind& kind, std::ostream* out) {
    *out << kind.name;
  }
};

template <typename T>
std::unique_ptr<Index> Make(Metric metric, const Points& points) {
  return std::make_unique<T>(metric, points);
}

class EveryKind : public testing::TestWithParam<Kind> {
 protected:
  static std::unique_ptr<Index> Of(Metric metric, const Points& points) {
    return GetParam().make(metric, points);
  }

  static std::vector<PointId> Ids(Metric metric, const Points& points,
                                  const std::vector<float>& query, int64_t k,
                                  double bound = kInfinity) {
    const Outcome outcome = Of(metric, points)->Search(query, k, bound);
    EXPECT_TRUE(outcome.finished);
    std::vector<PointId> ids;
    for (const Neighbor& n : outcome.answers[0]) ids.push_back(n.id);
    return ids;
  }
};

// The definition.
std::vector<Neighbor> Canonical(Metric metric, const Points& points,
                                VectorView query, int64_t k, double bound) {
  TopK top(k, bound);
  for (int64_t i = 0; i < points.n(); ++i) {
    const size_t at = static_cast<size_t>(i);
    if (!points.dead.empty() && points.dead[at]) continue;
    top.Offer({points.ids[at],
               CanonicalDistance(metric, query, points.view().row(i))});
  }
  return top.TakeSorted();
}

TEST_P(EveryKind, HasNoAnswerFromNoPoints) {
  for (int64_t d : {1, 3, 40}) {
    for (Metric metric : kMetrics) {
      const Points none{.d = d, .ids = {}, .data = {}, .dead = {}};
      const Outcome outcome =
          Of(metric, none)
              ->Search(std::vector<float>(static_cast<size_t>(3 * d), 1), 5);
      EXPECT_TRUE(outcome.finished);
      for (const auto& answer : outcome.answers) EXPECT_THAT(answer, IsEmpty());
      EXPECT_THAT(outcome.accounted, ElementsAre(0, 0, 0));
    }
  }
}

TEST_P(EveryKind, FindsTheOnlyPoint) {
  for (int64_t d : {1, 3, 40}) {
    for (Metric metric : kMetrics) {
      const Points one{.d = d,
                       .ids = {~PointId{0}},
                       .data = std::vector<float>(static_cast<size_t>(d), 2),
                       .dead = {}};
      EXPECT_THAT(
          Ids(metric, one, std::vector<float>(static_cast<size_t>(d), 1), 7),
          ElementsAre(~PointId{0}));
    }
  }
}

TEST_P(EveryKind, GivesAShortListWhereKIsBeyondTheLiveRows) {
  const Points points{.d = 1,
                      .ids = {5, 6, 7, 8},
                      .data = {1, 2, 3, 4},
                      .dead = {false, true, false, false}};
  EXPECT_THAT(Ids(Metric::kSquaredL2, points, {0}, 100), ElementsAre(5, 7, 8));
}

// stefankoegl/kdtree#10: a point on the plane of a split was pruned.
TEST_P(EveryKind, FindsPointsOnTheSplit) {
  const Points first{.d = 2,
                     .ids = {1, 2, 3, 4},
                     .data = {0, 0, 6, 0, 12, 0, 6, 9},
                     .dead = {}};
  const std::vector<PointId> ids = Ids(Metric::kSquaredL2, first, {6, 0}, 3);
  EXPECT_THAT(ids, ElementsAre(2, 1, 3));
  const Points second{
      .d = 2, .ids = {1, 2, 3}, .data = {1, 5, 2, 9, 5.5, 5}, .dead = {}};
  EXPECT_THAT(Ids(Metric::kSquaredL2, second, {4.9f, 5}, 1), ElementsAre(3));
}

// The same report's grid: {0..4}^3, 75 of its points stored twice.
TEST_P(EveryKind, OrdersTiesOnAGridOfDuplicatesById) {
  std::mt19937_64 random(TestSeed());
  Points grid{.d = 3, .ids = {}, .data = {}, .dead = {}};
  for (int i = 0; i < 200; ++i) {
    const int cell = i < 125 ? i : i - 125;
    grid.data.insert(grid.data.end(), {static_cast<float>(cell / 25),
                                       static_cast<float>(cell / 5 % 5),
                                       static_cast<float>(cell % 5)});
    grid.ids.push_back(static_cast<PointId>(i));
  }
  std::shuffle(grid.ids.begin(), grid.ids.end(), random);
  for (Metric metric : {Metric::kSquaredL2, Metric::kInnerProduct}) {
    const std::unique_ptr<Index> index = Of(metric, grid);
    std::vector<std::vector<Neighbor>> truth;
    for (int64_t q = 0; q < 200; ++q) {
      truth.push_back(
          Canonical(metric, grid, grid.view().row(q), 20, kInfinity));
    }
    for (size_t k = 20; k >= 1; --k) {
      const Outcome outcome = index->Search(grid.data, static_cast<int64_t>(k));
      for (size_t q = 0; q < 200; ++q) {
        truth[q].resize(k);
        ASSERT_EQ(outcome.answers[q], truth[q])
            << "query " << q << " k " << k << " seed " << TestSeed();
      }
    }
  }
}

// qdrant/qdrant-client#1386: modes disagreed on a score at the threshold.
TEST_P(EveryKind, TakesARadiusAsInclusive) {
  const Points cosine{.d = 2, .ids = {1, 2}, .data = {0, 3, 5, 1}, .dead = {}};
  EXPECT_THAT(Ids(Metric::kCosine, cosine, {0, 7}, 9, 0), ElementsAre(1));
  const Points dot{.d = 1, .ids = {1, 2}, .data = {4, 3.5f}, .dead = {}};
  EXPECT_THAT(Ids(Metric::kInnerProduct, dot, {2}, 9, -8.0), ElementsAre(1));
  const Points l2{.d = 2, .ids = {1, 2}, .data = {1, 1, 1, 2}, .dead = {}};
  EXPECT_THAT(Ids(Metric::kSquaredL2, l2, {0, 0}, 9, 2.0), ElementsAre(1));
  EXPECT_THAT(Ids(Metric::kSquaredL2, l2, {0, 0}, 9, 1.9), IsEmpty());
}

TEST_P(EveryKind, AnswersFromZeroRows) {
  Points points{.d = 20, .ids = {}, .data = {}, .dead = {}};
  for (PointId i = 0; i < 100; ++i) {
    points.ids.push_back(99 - i);
    for (int j = 0; j < 20; ++j) points.data.push_back(i % 2 ? 0.0f : 1.0f);
  }
  const std::vector<float> zero(20, 0);
  EXPECT_THAT(Ids(Metric::kSquaredL2, points, zero, 3), ElementsAre(0, 2, 4));
  EXPECT_THAT(Ids(Metric::kInnerProduct, points, zero, 3),
              ElementsAre(0, 1, 2));
}

TEST_P(EveryKind, EqualsTheDefinitionOnAllDataWithDeletionsAndRadii) {
  std::mt19937_64 random(TestSeed());
  for (const std::string& kind : TestVectorKinds()) {
    for (Metric metric : kMetrics) {
      for (int64_t d : {1, 2, 9, 33}) {
        const TestVectors data = MakeTestVectors(kind, 400, 5, d, true, random);
        Points points{.d = d, .ids = {}, .data = data.rows, .dead = {}};
        int64_t live = 0;
        for (int i = 0; i < 400; ++i) {
          points.ids.push_back(random());
          points.dead.push_back(random() % 4 == 0);
          live += points.dead.back() ? 0 : 1;
        }
        const std::unique_ptr<Index> index = Of(metric, points);
        for (int64_t k : {1, 12, 1000}) {
          // The distance of a row, or none.
          const double bound =
              k == 12 ? CanonicalDistance(metric, data.queries_view().row(0),
                                          data.rows_view().row(0))
                      : kInfinity;
          const Outcome outcome = index->Search(data.queries, k, bound);
          for (size_t q = 0; q < 5; ++q) {
            ASSERT_EQ(
                outcome.answers[q],
                Canonical(metric, points,
                          data.queries_view().row(static_cast<int64_t>(q)), k,
                          bound))
                << kind << " " << MetricName(metric) << " d=" << d << " k=" << k
                << " seed " << TestSeed();
            EXPECT_EQ(outcome.accounted[q], live);
          }
        }
      }
    }
  }
}

// lancedb/lancedb#511: a filter after the cut left few or no rows.
TEST_P(EveryKind, FindsTheOnlyRowThatAFilterAdmits) {
  Points points{.d = 1, .ids = {}, .data = {}, .dead = {}};
  for (PointId id = 1; id <= 100; ++id) {
    points.ids.push_back(id);
    points.data.push_back(static_cast<float>(id));
    points.dead.push_back(id != 60);
  }
  EXPECT_THAT(Ids(Metric::kSquaredL2, points, {0}, 5), ElementsAre(60));
}

// Rows that a filter leaves out are as if they were dead: few of all, strewn
// about, or in one place, as when the filter goes with the ids.
TEST_P(EveryKind, FindsKOfTheRowsAdmittedHoweverFewTheyAre) {
  std::mt19937_64 random(TestSeed());
  constexpr int64_t kRows = 6000;
  const TestVectors data =
      MakeTestVectors("gaussian", kRows, 4, 24, true, random);
  for (const int64_t every : {2, 10, 100, 1000}) {
    for (const bool together : {false, true}) {
      Points points{.d = 24, .ids = {}, .data = data.rows, .dead = {}};
      const int64_t start =
          static_cast<int64_t>(random() % static_cast<uint64_t>(kRows / 2));
      int64_t admitted = 0;
      for (int64_t i = 0; i < kRows; ++i) {
        points.ids.push_back(random());
        points.dead.push_back(
            together ? i < start || i >= start + kRows / every
                     : random() % static_cast<uint64_t>(every) != 0);
        admitted += points.dead.back() ? 0 : 1;
      }
      const Metric metric = kMetrics[random() % 3];
      const Outcome outcome = Of(metric, points)->Search(data.queries, 10);
      for (size_t q = 0; q < 4; ++q) {
        ASSERT_EQ(outcome.answers[q],
                  Canonical(metric, points,
                            data.queries_view().row(static_cast<int64_t>(q)),
                            10, kInfinity))
            << "1 in " << every << ", together " << together << " seed "
            << TestSeed();
        EXPECT_EQ(outcome.accounted[q], admitted);
      }
    }
  }
}

TEST_P(EveryKind, StopsBeforeTheFirstRowAndInBetween) {
  std::mt19937_64 random(TestSeed());
  const TestVectors data =
      MakeTestVectors("gaussian", 4000, 40, 30, true, random);
  Points points{.d = 30, .ids = {}, .data = data.rows, .dead = {}};
  for (PointId i = 0; i < 4000; ++i) points.ids.push_back(i);
  const std::unique_ptr<Index> index = Of(Metric::kSquaredL2, points);
  for (int before : {0, 1, 2}) {
    int asked = 0;
    const auto stop = [&] { return asked++ == before; };
    EXPECT_FALSE(index->Search(data.queries, 5, kInfinity, stop).finished);
    EXPECT_EQ(asked, before + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EveryKind,
    testing::Values(Kind{"Exact", Make<ExactIndex>},
                    Kind{"Certified", Make<CertifiedIndex>},
                    Kind{"Tree", Make<TreeIndex>}, Kind{"Lsh", Make<LshKind>},
                    Kind{"FaissGraph", Make<FaissGraph>},
                    Kind{"FaissLists", Make<FaissLists>}),
    [](const testing::TestParamInfo<Kind>& kind) {
      return std::string(kind.param.name);
    });

}  // namespace
}  // namespace coterie
