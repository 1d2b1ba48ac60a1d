#include "index/top_k.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"

namespace coterie {

void PrintTo(const Neighbor& n, std::ostream* os) {
  *os << "{" << n.id << ", " << n.distance << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The slow obvious way: sort all and cut.
std::vector<Neighbor> Model(std::vector<Neighbor> all, int64_t k,
                            double bound) {
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [bound](const Neighbor& n) { return !(n.distance <= bound); }),
            all.end());
  std::sort(all.begin(), all.end(), NeighborLess);
  all.resize(std::min(all.size(), static_cast<size_t>(k)));
  return all;
}

// Few distinct ids and distances, so that ties and repeats abound.
Neighbor RandomNeighbor(std::mt19937_64& random) {
  const double distances[] = {-kInfinity, -2, -1,        -0.0, 0,      0.5,
                              1,          1,  kInfinity, kNan, 1e-300, 1e300};
  return {random() % 40, distances[random() % std::size(distances)]};
}

TEST(TopK, RestrictedEqualsABoundFromTheStart) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const int64_t k = 1 + static_cast<int64_t>(random() % 20);
    std::vector<Neighbor> offered;
    for (uint64_t i = random() % 60; i > 0; --i) {
      offered.push_back(RandomNeighbor(random));
    }
    const std::vector<Neighbor> model = Model(offered, k, kInfinity);
    if (model.empty()) continue;
    // Any bound that keeps the answer may come at any time.
    const double bound = model.back().distance;
    TopK top(k);
    const uint64_t when = random() % (offered.size() + 1);
    for (uint64_t i = 0; i < offered.size(); ++i) {
      if (i == when && static_cast<int64_t>(model.size()) == k) {
        const double before = top.Threshold();
        top.Restrict(bound);
        EXPECT_EQ(top.Threshold(), std::min(before, bound));
        top.Restrict(std::nan(""));
        top.Restrict(kInfinity);
      }
      const double before = top.Threshold();
      top.Offer(offered[i]);
      EXPECT_LE(top.Threshold(), before);
    }
    std::vector<Neighbor> kept = top.TakeSorted();
    ASSERT_EQ(kept, model);
  }
}

TEST(TopK, EqualsSortingAndCutting) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    const int64_t k = 1 + static_cast<int64_t>(random() % 20);
    const double bounds[] = {kInfinity, 1, 0, -1, -kInfinity};
    const double bound = bounds[random() % std::size(bounds)];
    TopK top(k, bound);
    std::vector<Neighbor> offered;
    double threshold = top.Threshold();
    for (uint64_t i = random() % 60; i > 0; --i) {
      offered.push_back(RandomNeighbor(random));
      top.Offer(offered.back());
      EXPECT_LE(top.Threshold(), threshold);
      threshold = top.Threshold();
      const std::vector<Neighbor> model = Model(offered, k, bound);
      ASSERT_EQ(top.size(), static_cast<int64_t>(model.size()));
      ASSERT_EQ(threshold, static_cast<int64_t>(model.size()) < k
                               ? bound
                               : model.back().distance);
    }
    ASSERT_EQ(top.TakeSorted(), Model(offered, k, bound)) << "round " << round;
  }
}

TEST(TopK, BreaksTiesByIdInAnyOrderOfArrival) {
  std::vector<PointId> ids = {1, 2, 3, 4, 5};
  do {
    TopK top(3);
    for (PointId id : ids) top.Offer({id, 7});
    EXPECT_THAT(top.TakeSorted(),
                ElementsAre(Neighbor{1, 7}, Neighbor{2, 7}, Neighbor{3, 7}));
  } while (std::next_permutation(ids.begin(), ids.end()));
}

TEST(TopK, KeepsWhatLiesExactlyOnTheBound) {
  TopK top(10, 1.5);
  top.Offer({1, 1.5});
  top.Offer({2, std::nextafter(1.5, 2)});
  EXPECT_THAT(top.TakeSorted(), ElementsAre(Neighbor{1, 1.5}));
}

TEST(TopK, IsAsNewAfterItsContentWasTaken) {
  TopK top(1, 5);
  top.Offer({1, 2});
  EXPECT_EQ(top.Threshold(), 2);
  top.TakeSorted();
  EXPECT_EQ(top.size(), 0);
  EXPECT_EQ(top.Threshold(), 5);
  top.Offer({2, 4});
  EXPECT_THAT(top.TakeSorted(), ElementsAre(Neighbor{2, 4}));
}

// chroma-core/chroma#301: k beyond the number of points is a short list.
TEST(TopK, CostsNothingForKThatIsNeverReached) {
  TopK top(std::numeric_limits<int64_t>::max());
  top.Offer({1, 1});
  EXPECT_EQ(top.Threshold(), kInfinity);
  EXPECT_THAT(top.TakeSorted(), ElementsAre(Neighbor{1, 1}));
}

TEST(TopK, TakesEveryId) {
  TopK top(3);
  const PointId last = std::numeric_limits<PointId>::max();
  for (PointId id : {PointId{0}, last, PointId{1} << 63}) top.Offer({id, 0});
  EXPECT_THAT(top.TakeSorted(),
              ElementsAre(Neighbor{0, 0}, Neighbor{PointId{1} << 63, 0},
                          Neighbor{last, 0}));
}

// spiceai/spiceai#11621: NaN sorted ahead of real distances.
TEST(TopK, NeverKeepsNan) {
  std::vector<Neighbor> offers = {{1, kNan}, {2, 0.1}, {3, 0.2}, {4, kNan}};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    TopK top(2);
    for (int i : order) top.Offer(offers[i]);
    EXPECT_THAT(top.TakeSorted(),
                ElementsAre(Neighbor{2, 0.1}, Neighbor{3, 0.2}));
  } while (std::next_permutation(order.begin(), order.end()));
}

// serenedb/serenedb#1037: a threshold that starts at the smallest positive
// number never admits scores of zero and below.
TEST(TopK, AdmitsDistancesOfEitherSign) {
  TopK top(2);
  for (Neighbor n : {Neighbor{1, 1}, Neighbor{2, 3}, Neighbor{3, 0.0}}) {
    top.Offer(n);
  }
  EXPECT_THAT(top.TakeSorted(), ElementsAre(Neighbor{3, 0}, Neighbor{1, 1}));
}

// As MergeTopK promises, from one sorted list of everything.
MergedTopK MergeModel(const std::vector<std::vector<Neighbor>>& lists,
                      int64_t k) {
  std::vector<std::pair<Neighbor, int32_t>> all;
  std::map<PointId, int> times;
  for (size_t i = 0; i < lists.size(); ++i) {
    for (const Neighbor& n : lists[i]) {
      if (std::isnan(n.distance)) continue;
      all.emplace_back(n, static_cast<int32_t>(i));
      ++times[n.id];
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    if (NeighborLess(a.first, b.first)) return true;
    if (NeighborLess(b.first, a.first)) return false;
    return a.second < b.second;
  });
  MergedTopK merged;
  for (const auto& [id, count] : times) merged.duplicate_ids += count > 1;
  std::map<PointId, bool> seen;
  for (const auto& [n, source] : all) {
    if (seen[n.id] || static_cast<int64_t>(merged.neighbors.size()) == k) {
      continue;
    }
    seen[n.id] = true;
    merged.neighbors.push_back(n);
    merged.sources.push_back(source);
  }
  return merged;
}

TEST(MergeTopK, EqualsSortingEverything) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::vector<Neighbor>> lists(random() % 6);
    for (std::vector<Neighbor>& list : lists) {
      for (uint64_t i = random() % 12; i > 0; --i) {
        list.push_back(RandomNeighbor(random));
      }
      if (random() % 2 == 0) {
        list = Model(list, static_cast<int64_t>(list.size()), kInfinity);
      }
    }
    const int64_t k = static_cast<int64_t>(random() % 15);
    const MergedTopK merged = MergeTopK(lists, k);
    const MergedTopK model = MergeModel(lists, k);
    ASSERT_EQ(merged.neighbors, model.neighbors) << "round " << round;
    ASSERT_EQ(merged.sources, model.sources) << "round " << round;
    ASSERT_EQ(merged.duplicate_ids, model.duplicate_ids) << "round " << round;
  }
}

TEST(MergeTopK, BreaksTiesById) {
  const MergedTopK merged = MergeTopK({{{5, 1}, {9, 1}}, {{2, 1}, {7, 1}}}, 3);
  EXPECT_THAT(merged.neighbors,
              ElementsAre(Neighbor{2, 1}, Neighbor{5, 1}, Neighbor{7, 1}));
  EXPECT_THAT(merged.sources, ElementsAre(1, 0, 1));
}

TEST(MergeTopK, OfNothingIsEmpty) {
  EXPECT_THAT(MergeTopK({}, 5).neighbors, IsEmpty());
  EXPECT_THAT(MergeTopK({{}, {}, {}}, 5).neighbors, IsEmpty());
  EXPECT_THAT(MergeTopK({{{1, 1}}}, 0).neighbors, IsEmpty());
}

TEST(MergeTopK, FindsDuplicatesThatLieBeyondTheCut) {
  const MergedTopK merged = MergeTopK({{{1, 1}, {2, 2}}, {{3, 0}, {1, 9}}}, 2);
  EXPECT_THAT(merged.neighbors, ElementsAre(Neighbor{3, 0}, Neighbor{1, 1}));
  EXPECT_EQ(merged.duplicate_ids, 1);
}

// facebookresearch/faiss#2657: short lists were filled with id -1.
TEST(MergeTopK, IsShortWhenThereAreFewerThanK) {
  const MergedTopK merged = MergeTopK({{{10, 1}}, {{20, 4}}, {{30, 9}}}, 10);
  EXPECT_THAT(merged.neighbors,
              ElementsAre(Neighbor{10, 1}, Neighbor{20, 4}, Neighbor{30, 9}));
}

// spiceai/spiceai#11621, in the merge.
TEST(MergeTopK, DropsNanWhereverItStands) {
  std::vector<Neighbor> list = {{1, kNan}, {2, 0.1}, {3, 0.2}, {4, kNan}};
  std::vector<int> order = {0, 1, 2, 3};
  do {
    std::vector<Neighbor> one;
    std::vector<std::vector<Neighbor>> each;
    for (int i : order) {
      one.push_back(list[i]);
      each.push_back({list[i]});
    }
    EXPECT_THAT(MergeTopK({one}, 2).neighbors,
                ElementsAre(Neighbor{2, 0.1}, Neighbor{3, 0.2}));
    EXPECT_THAT(MergeTopK(each, 2).neighbors,
                ElementsAre(Neighbor{2, 0.1}, Neighbor{3, 0.2}));
  } while (std::next_permutation(order.begin(), order.end()));
}

// milvus-io/milvus#1806: right for L2, wrong for inner product. Distances are
// smaller-is-nearer for every metric, so inner products arrive negated.
TEST(MergeTopK, OrdersInnerProductsByTheirDistance) {
  const MergedTopK merged =
      MergeTopK({{{1, -5}, {2, -1}}, {{3, -9}, {4, -7}}}, 2);
  EXPECT_THAT(merged.neighbors, ElementsAre(Neighbor{3, -9}, Neighbor{4, -7}));
}

// qdrant/qdrant#6413: only neighbouring repeats were removed.
TEST(MergeTopK, KeepsAnIdOnceAtItsLeastDistance) {
  const MergedTopK merged = MergeTopK({{{7, 0.10}}, {{8, 0.11}, {7, 0.12}}}, 3);
  EXPECT_THAT(merged.neighbors,
              ElementsAre(Neighbor{7, 0.10}, Neighbor{8, 0.11}));
  EXPECT_THAT(merged.sources, ElementsAre(0, 1));
  EXPECT_EQ(merged.duplicate_ids, 1);
}

// facebookresearch/faiss#2370: stored ids gave way to positions.
TEST(MergeTopK, ReturnsTheIdsOfTheLists) {
  const MergedTopK merged =
      MergeTopK({{{101, 1}, {100, 4}}, {{200, 0}, {201, 1}}}, 2);
  EXPECT_THAT(merged.neighbors,
              ElementsAre(Neighbor{200, 0}, Neighbor{101, 1}));
}

}  // namespace
}  // namespace coterie
