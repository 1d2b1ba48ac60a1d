// What every strategy owes its caller, through a coordinator and its shards:
// one table of strategies, and cases that hold for each. What calls itself
// exact is compared with a slow search of all rows; the others must be sound:
// true distances of live points, in order, each once. A new kind of index is a
// line in tests/every_strategy.h. The same at each setting, without shards, is
// index/kinds_test.cc.

#include "tests/every_strategy.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/search.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"
#include "tests/model.h"

namespace coterie {
namespace {

class EveryStrategy
    : public ::testing::TestWithParam<std::tuple<Metric, const char*>> {
 protected:
  EveryStrategy() { RecordProperty("SEED", absl::StrCat(TestSeed(1))); }
  Metric metric() const { return std::get<0>(GetParam()); }
  std::string factory() const { return std::get<1>(GetParam()); }
  bool cosine() const { return metric() == Metric::kCosine; }
};

INSTANTIATE_TEST_SUITE_P(
    Metrics, EveryStrategy,
    ::testing::Combine(
        ::testing::Values(Metric::kSquaredL2, Metric::kInnerProduct,
                          Metric::kCosine),
        ::testing::Values(kFaissGraph, kFaissLists, kFaissCodes)));

TEST_P(EveryStrategy, AnswersFromNoneOneAndFewPoints) {
  Served served(metric(), 5, factory());
  served.CheckAll();
  for (const int64_t more : {1, 1, 5}) {
    served.Write(HardRows(more, 5, served.random()));
    served.CheckAll();
  }
}

TEST_P(EveryStrategy, AnswersThroughWritesDeletionsAndAReload) {
  for (const int32_t dimension : {1, 3, 16}) {
    SCOPED_TRACE(dimension);
    Served served(metric(), dimension, factory());
    ASSERT_NO_FATAL_FAILURE(served.Fill());
    served.CheckAll();
    // A tenth goes, of these some come back elsewhere; others move.
    std::vector<PointId> gone;
    Rows back;
    size_t i = 0;
    for (const auto& [id, row] : served.rows()) {
      if (++i % 10 == 0) gone.push_back(id);
      if (i % 20 == 0 || i % 11 == 0) back[id] = row;
    }
    Rows fresh =
        HardRows(static_cast<int64_t>(back.size()), dimension, served.random());
    for (auto& [id, row] : back) {
      row = fresh.begin()->second;
      fresh.erase(fresh.begin());
    }
    served.Erase(gone);
    served.Write(back);
    served.CheckAll();
    served.cluster().Restart();
    ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
    served.CheckAll();
  }
}

// Points that are equal come in order of their ids, page by page.
TEST_P(EveryStrategy, SplitsTiesIntoPagesThatDoNotOverlap) {
  Served served(metric(), 3, factory());
  Rows rows;
  for (PointId id = 1; id <= 600; ++id) {
    rows[id] = id <= 40 ? std::vector<float>{2, 2, 2}
                        : std::vector<float>{-1, -static_cast<float>(id), -3};
  }
  served.Write(rows);
  ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
  for (const Way& way : served.ways()) {
    if (!way.exact) continue;
    SCOPED_TRACE(way.name);
    PointId next = 1;
    for (const int64_t offset : {0, 10, 20, 30}) {
      SearchRequest request = served.Request({2, 2, 2}, 10, way);
      request.k += offset;
      request.offset = offset;
      const std::vector<PointId> page = served.IdsOf(request);
      ASSERT_EQ(page.size(), 10u);
      for (const PointId id : page) EXPECT_EQ(id, next++);
    }
    // Beyond the last there is nothing.
    SearchRequest beyond = served.Request({2, 2, 2}, 610, way);
    beyond.offset = 600;
    EXPECT_TRUE(served.IdsOf(beyond).empty());
  }
}

// The bound is inclusive, also at a distance that the service itself gave.
TEST_P(EveryStrategy, TakesARadiusAsInclusive) {
  Served served(metric(), 4, factory());
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  const std::vector<float> query = served.rows().begin()->second;
  const std::vector<Neighbor> nearest =
      ModelSearch(served.rows(), metric(), query, 12);
  for (const Way& way : served.ways()) {
    SCOPED_TRACE(way.name);
    SearchRequest request = served.Request(query, 500, way);
    request.radius = nearest[7].distance;
    const std::vector<Neighbor> found = served.Search(request);
    for (const Neighbor& n : found) EXPECT_LE(n.distance, *request.radius);
    if (!way.exact) continue;
    EXPECT_GE(found.size(), 8u);
    EXPECT_EQ(found, ModelSearch(served.rows(), metric(), query,
                                 static_cast<int64_t>(found.size())));
    request.radius = std::nextafter(nearest[7].distance,
                                    -std::numeric_limits<double>::infinity());
    for (const Neighbor& n : served.Search(request)) {
      EXPECT_LT(n.distance, nearest[7].distance);
    }
  }
}

TEST_P(EveryStrategy, FindsTheOnlyPointThatAFilterAdmits) {
  Served served(metric(), 2, factory());
  std::vector<Point> points;
  for (PointId id = 1; id <= 600; ++id) {
    points.push_back({id, {static_cast<float>(id), 1}, {}});
    if (id == 560) points.back().attributes = {{"tag", std::string("red")}};
    // Half of them, all far away.
    if (id > 300) points.back().attributes["side"] = std::string("far");
  }
  ASSERT_TRUE(served.cluster().Upsert("c", points).ok());
  ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
  for (const Way& way : served.ways()) {
    SCOPED_TRACE(way.name);
    SearchRequest request = served.Request({1, 1}, 5, way);
    request.filter.must.push_back(MatchCondition{"tag", {std::string("red")}});
    EXPECT_EQ(served.IdsOf(request), std::vector<PointId>{560});
    request.filter = Filter();
    request.filter.must.push_back(MatchCondition{"side", {std::string("far")}});
    const std::vector<PointId> far = served.IdsOf(request);
    EXPECT_EQ(far.size(), 5u);
    for (const PointId id : far) EXPECT_GT(id, 300u);
  }
}

TEST_P(EveryStrategy, LooksIntoTheIndexThatItNames) {
  Served served(metric(), 6, factory());
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  for (const Way& way : served.ways()) {
    ASSERT_NO_FATAL_FAILURE(served.AwaitPlan(way));
  }
}

// A target of each shard is not what the caller gets.
TEST_P(EveryStrategy, ReturnsNoMoreThanKOfAllShardsTogether) {
  Served served(metric(), 6, factory());
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  for (const Way& way : served.ways()) {
    for (const int64_t k : {1, 7}) {
      SCOPED_TRACE(absl::StrCat(way.name, ", k = ", k));
      const size_t found =
          served
              .Search(served.Request(
                  HardRows(1, 6, served.random()).begin()->second, k, way))
              .size();
      EXPECT_LE(found, static_cast<size_t>(k));
      if (way.exact || way.full) {
        EXPECT_EQ(found, static_cast<size_t>(k));
      }
    }
  }
}

// Ids beyond 2^53 are no doubles; an id that comes back is where it is now.
TEST_P(EveryStrategy, TellsNeighbouringLargeIdsApartAndForgetsOldVectors) {
  Served served(metric(), 2, factory());
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  constexpr PointId kOdd = 9007199254740993;
  constexpr PointId kEven = 9007199254740992;
  const std::vector<float> right = {3e4f, 1};
  const std::vector<float> up = {1, 3e4f};
  served.Write({{kOdd, right}, {kEven, up}});
  for (const Way& way : served.ways()) {
    if (!way.exact) continue;
    SCOPED_TRACE(way.name);
    EXPECT_EQ(served.IdsOf(served.Request(right, 1, way)),
              std::vector<PointId>{kOdd});
    EXPECT_EQ(served.IdsOf(served.Request(up, 1, way)),
              std::vector<PointId>{kEven});
  }
  served.Erase({kEven});
  served.CheckAll();
  served.Write({{kEven, right}});
  for (const Way& way : served.ways()) {
    if (!way.exact) continue;
    EXPECT_EQ(served.IdsOf(served.Request(right, 2, way)),
              (std::vector<PointId>{kEven, kOdd}))
        << way.name;
  }
  served.CheckAll();
}

TEST_P(EveryStrategy, RefusesWhatIsNoVectorAndStoresNothingOfIt) {
  Served served(metric(), 2, factory());
  // Zeros are vectors like others under the other metrics.
  Rows zeros;
  for (PointId id = 77; id < 177 && !cosine(); ++id) zeros[id] = {0, 0};
  if (!cosine()) served.Write(zeros);
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  const auto before = served.cluster().Count("c");
  std::vector<std::vector<float>> bad = {
      {std::numeric_limits<float>::quiet_NaN(), 1},
      {1, std::numeric_limits<float>::infinity()},
      {1}};
  if (cosine()) bad.push_back({0, 0});
  for (const std::vector<float>& vector : bad) {
    const auto written =
        served.cluster().Upsert("c", {{1, {1, 2}, {}}, {2, vector, {}}});
    EXPECT_TRUE(absl::IsInvalidArgument(written.status())) << written.status();
    EXPECT_TRUE(absl::StrContains(written.status().message(), "[1]"))
        << written.status();
    for (const Way& way : served.ways()) {
      const auto found =
          served.cluster().Search(served.Request(vector, 3, way));
      EXPECT_TRUE(absl::IsInvalidArgument(found.status()))
          << way.name << ": " << found.status();
    }
  }
  EXPECT_EQ(*served.cluster().Count("c"), *before);
  if (cosine()) return;
  for (const Way& way : served.ways()) {
    for (const int64_t k : {3, 150, 1000}) served.Check({0, 0}, k, way);
  }
}

TEST_P(EveryStrategy, EndsWithItsCall) {
  Served served(metric(), 3, factory());
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  for (const Way& way : served.ways()) {
    SCOPED_TRACE(way.name);
    CallContext cancelled;
    const auto cancel = std::make_shared<CancelToken>();
    cancel->Cancel();
    cancelled.cancel = cancel;
    CallContext late;
    late.deadline = absl::Now() - absl::Seconds(1);
    for (const auto& [call, code] :
         {std::pair(cancelled, absl::StatusCode::kCancelled),
          {late, absl::StatusCode::kDeadlineExceeded}}) {
      const auto reply = Await<SearchReply>([&](Done<SearchReply> done) {
        served.cluster().coordinator().Search(served.Request({1, 2, 3}, 3, way),
                                              call, std::move(done));
      });
      EXPECT_EQ(reply.status().code(), code) << reply.status();
    }
  }
}

// While points move, go and come: each answer has its k, in order, each once.
TEST_P(EveryStrategy, AnswersWhileOthersWrite) {
  Served served(metric(), 3, factory());
  ASSERT_NO_FATAL_FAILURE(served.Fill());
  std::vector<PointId> ids;
  for (const auto& [id, row] : served.rows()) ids.push_back(id);
  std::atomic<bool> done{false};
  std::atomic<int> written{0};
  Rows last;
  std::thread writer([&] {
    std::mt19937_64 random(TestSeed(2));
    while (!done.load()) {
      Rows moved;
      for (auto& [id, row] : HardRows(50, 3, random)) {
        moved[ids[random() % ids.size()]] = row;
      }
      for (const auto& [id, row] : moved) last[id] = row;
      // A shard may refuse, having too much to seal, and others not.
      (void)served.cluster().Upsert("c", ToPoints(moved));
      written.fetch_add(1);
    }
  });
  for (int round = 0; round < 6 || written.load() < 3; ++round) {
    for (const Way& way : served.ways()) {
      const std::vector<Neighbor> found =
          served.Search(served.Request({1, 2, 3}, 20, way));
      if (way.exact || way.full) {
        EXPECT_EQ(found.size(), 20u) << way.name;
      }
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), NeighborLess));
      std::vector<PointId> seen;
      for (const Neighbor& n : found) seen.push_back(n.id);
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end()) << way.name;
    }
  }
  done.store(true);
  writer.join();
  served.Write(last);
  served.CheckAll();
}

}  // namespace
}  // namespace coterie
