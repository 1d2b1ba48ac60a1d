// Every kind of index through a shard: built in the background, searched, kept,
// damaged, refused. Answers are compared with a slow search of a map, by recall
// where they need not be exact. SEED, printed on failure, chooses another.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/indexed_shard.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

// Ways to ask that must be exact once trees are there.
const std::vector<Strategy>& ExactWays() {
  static const auto* const ways = new std::vector<Strategy>{
      TreeStrategy(), LshStrategy{1.0, 0}, FaissStrategy{1.0, 0, 0, 0},
      ExactStrategy(), AutoStrategy()};
  return *ways;
}

// Ways to ask for part of the answer.
const std::vector<Strategy>& PartialWays() {
  static const auto* const ways = new std::vector<Strategy>{
      TreeStrategy{1, 0, 1},     TreeStrategy{0, 0.5, 1},
      TreeStrategy{0, 0, 0.8},   LshStrategy{0.8, 0},
      LshStrategy{0, 20},        AutoStrategy{0.8},
      FaissStrategy(),           FaissStrategy{0, 2, 0, 0},
      FaissStrategy{0, 1, 0, 40}};
  return *ways;
}

class ShardIndex
    : public ::testing::TestWithParam<std::tuple<int32_t, Metric>> {
 protected:
  ShardIndex()
      : shard_(std::get<0>(GetParam()), std::get<1>(GetParam()),
               {TreeSpec(), LshSpec(), FaissSpec("IVF8,Flat")}) {}

  int32_t dimension() const { return std::get<0>(GetParam()); }

  void CheckAll() {
    SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
    for (const int64_t k : {1, 7, 100}) {
      for (const Strategy& way : ExactWays()) {
        shard_.ExpectExact(shard_.Request(k, way));
      }
      for (const Strategy& way : PartialWays()) {
        shard_.ExpectSound(shard_.Request(k, way));
      }
    }
    SearchRequest more = shard_.Request(
        static_cast<int64_t>(shard_.points().size()) + 5, TreeStrategy());
    shard_.ExpectExact(more);
  }

  // Searches among `ids` only.
  void CheckFiltered(std::vector<PointId> ids) {
    std::sort(ids.begin(), ids.end());
    IndexedShard::Points admitted;
    for (const PointId id : ids) admitted[id] = shard_.points()[id];
    const bool few = 24 * ids.size() < shard_.points().size();
    std::vector<Strategy> ways = ExactWays();
    ways.insert(ways.end(), PartialWays().begin(), PartialWays().end());
    for (size_t i = 0; i < ways.size(); ++i) {
      SearchRequest request = shard_.Request(9, ways[i]);
      request.filter.must.push_back(IdCondition{ids});
      const auto reply = shard_.harness().Search(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      const std::string& plan = reply->times.plan;
      for (size_t q = 0; q < request.queries.size(); ++q) {
        std::vector<Neighbor> found;
        for (const Hit& hit : reply->results[q]) {
          EXPECT_TRUE(admitted.contains(hit.neighbor.id)) << plan;
          found.push_back(hit.neighbor);
        }
        const std::vector<Neighbor> expected =
            CanonicalSearch(std::get<Metric>(GetParam()), admitted,
                            std::get<std::vector<float>>(request.queries[q]),
                            request.k, request.radius);
        EXPECT_EQ(found.size(), expected.size()) << plan;
        const QueryAccount& account = reply->accounts[q];
        if (i < ExactWays().size() || few) {
          EXPECT_EQ(found, expected) << plan;
          EXPECT_EQ(account.unseen, 0);
        }
        EXPECT_EQ(account.evaluated + account.ruled_out + account.unseen +
                      account.filtered,
                  reply->rows_live);
      }
      EXPECT_EQ(absl::StrContains(plan, "leaves few rows, so scanned"),
                few && !std::holds_alternative<ExactStrategy>(ways[i]))
          << plan;
      EXPECT_TRUE(absl::StrContains(
          plan, absl::StrCat("; filter admits ", ids.size(), " of ")))
          << plan;
    }
  }

  // Until the index is asked: a merge may have dropped it for a moment.
  void AwaitPlan(const Filter& filter, const Strategy& way,
                 const std::string& part) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    std::string plan;
    while (!absl::StrContains(plan, part)) {
      ASSERT_LT(absl::Now(), deadline) << plan;
      SearchRequest request = shard_.Request(3, way);
      request.filter = filter;
      plan = shard_.PlanOf(request);
    }
  }

  // Of the kind that is due: over 16 dimensions a tree needs 1,024 rows.
  int64_t rows() const { return dimension() > 16 ? 2560 : 1024; }

  IndexedShard shard_;
};

TEST_P(ShardIndex, AnswersBeforeAndAfterItIsBuilt) {
  ASSERT_NO_FATAL_FAILURE(shard_.Open());
  CheckAll();  // of nothing
  ASSERT_NO_FATAL_FAILURE(shard_.WriteRandom(10));
  CheckAll();
  EXPECT_TRUE(
      absl::StrContains(shard_.PlanOf(shard_.Request(3, TreeStrategy())),
                        "no segment has a tree"));
  ASSERT_NO_FATAL_FAILURE(shard_.WriteRandom(rows()));
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitIndexes());
  CheckAll();
  AwaitPlan({}, TreeStrategy(), "tree of ");
  AwaitPlan({}, LshStrategy(), "lsh of ");
  AwaitPlan({}, FaissStrategy{0, 2, 0, 0}, "segments, IVF8,Flat, nprobe 2");
  for (const char* const part :
       {"auto, predicted a query: scan ", ", tree ", ", lsh ", ", faiss "}) {
    AwaitPlan({}, AutoStrategy{0.9}, part);
  }
}

// Rows at random, or those that lie farthest from the queries, which an index
// looks at last: all k are found while so many are admitted.
TEST_P(ShardIndex, FiltersWhereItLooks) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  ASSERT_NO_FATAL_FAILURE(shard_.Open());
  ASSERT_NO_FATAL_FAILURE(shard_.WriteRandom(rows()));
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitIndexes());
  std::vector<PointId> by_place;
  for (const auto& [id, vector] : shard_.points()) by_place.push_back(id);
  std::vector<PointId> random = by_place;
  std::shuffle(random.begin(), random.end(), shard_.random());
  std::sort(by_place.begin(), by_place.end(), [&](PointId a, PointId b) {
    return shard_.points()[a] < shard_.points()[b];
  });
  for (const std::vector<PointId>& ids : {random, by_place}) {
    for (const size_t admitted : {size_t{0}, size_t{3}, ids.size() / 50,
                                  ids.size() / 8, ids.size() / 2}) {
      ASSERT_NO_FATAL_FAILURE(
          CheckFiltered({ids.begin(), ids.begin() + admitted}));
    }
  }
  Filter half;
  half.must.push_back(
      IdCondition{{by_place.begin(), by_place.begin() + by_place.size() / 2}});
  std::sort(std::get<IdCondition>(half.must[0]).ids.begin(),
            std::get<IdCondition>(half.must[0]).ids.end());
  ASSERT_NO_FATAL_FAILURE(AwaitPlan(half, TreeStrategy(), "tree of "));
  ASSERT_NO_FATAL_FAILURE(AwaitPlan(half, LshStrategy{0.8, 0}, "lsh of "));
}

TEST_P(ShardIndex, SeesWritesThatComeAfterTheBuild) {
  ASSERT_NO_FATAL_FAILURE(shard_.Open());
  ASSERT_NO_FATAL_FAILURE(shard_.WriteRandom(rows()));
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitIndexes());
  // Of the old points some are deleted, some deleted and added again elsewhere,
  // some moved; few enough that nothing is merged.
  std::vector<PointId> old;
  for (const auto& [id, vector] : shard_.points()) old.push_back(id);
  std::vector<PointId> gone(old.begin(), old.begin() + 40);
  ASSERT_NO_FATAL_FAILURE(shard_.Write({}, gone));
  std::vector<Point> moved;
  for (size_t i = 20; i < 70; ++i) {
    moved.push_back({old[i], RandomVector(dimension(), shard_.random()), {}});
  }
  ASSERT_NO_FATAL_FAILURE(shard_.Write(moved));
  CheckAll();
}

TEST_P(ShardIndex, IsThereAfterAReopening) {
  ASSERT_NO_FATAL_FAILURE(shard_.Open());
  ASSERT_NO_FATAL_FAILURE(shard_.WriteRandom(rows()));
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitIndexes());
  std::vector<PointId> some;
  for (const auto& [id, vector] : shard_.points()) {
    if (some.size() < 30) some.push_back(id);
  }
  ASSERT_NO_FATAL_FAILURE(shard_.Write({}, some));
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitFiles());
  shard_.harness().Reopen();
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitIndexes());
  CheckAll();
}

TEST_P(ShardIndex, FindsAllWithinARadius) {
  ASSERT_NO_FATAL_FAILURE(shard_.Open());
  ASSERT_NO_FATAL_FAILURE(shard_.WriteRandom(rows()));
  ASSERT_NO_FATAL_FAILURE(shard_.AwaitIndexes());
  for (const Strategy& way : ExactWays()) {
    SearchRequest request = shard_.Request(50, way);
    request.queries.resize(1);
    // The bound is a distance that is there, and inclusive (B25, B40).
    const std::vector<Neighbor> all = shard_.Expected(request, 0);
    request.radius = all[20].distance;
    request.k = 10000;
    shard_.ExpectExact(request);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ShardIndex,
    ::testing::Combine(::testing::Values(1, 3, 20),
                       ::testing::Values(Metric::kSquaredL2,
                                         Metric::kInnerProduct,
                                         Metric::kCosine)));

TEST(ShardIndexes, EqualRowsAreAllAnsweredInOrderOfIds) {
  IndexedShard shard(2, Metric::kSquaredL2,
                     {TreeSpec(), LshSpec(), FaissSpec("HNSW4")});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  std::vector<Point> points;
  for (PointId id = 0; id < 512; ++id) {
    points.push_back(
        {id * 3,
         id % 2 == 0 ? std::vector<float>{0, 0} : std::vector<float>{1, 1},
         {}});
  }
  ASSERT_NO_FATAL_FAILURE(shard.Write(points));
  ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
  for (const Strategy& way : ExactWays()) {
    SearchRequest request = SearchFor({0, 0}, 300);
    request.strategy = way;
    shard.ExpectExact(request);
    request.queries = {std::vector<float>{1, 1}};
    shard.ExpectExact(request);
  }
}

// B26: the neighbour lies behind the plane that the tree was split at.
TEST(ShardIndexes, AGridIsAnsweredAsByAScan) {
  IndexedShard shard(3, Metric::kSquaredL2, {TreeSpec()});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  std::vector<Point> points;
  PointId id = 0;
  for (int i = 0; i < 125 + 75; ++i) {
    const int cell = i % 125;
    points.push_back(
        {id += 7,
         {static_cast<float>(cell % 5), static_cast<float>(cell / 5 % 5),
          static_cast<float>(cell / 25)},
         {}});
  }
  ASSERT_NO_FATAL_FAILURE(shard.Write(points));
  // To fill the tail: far from all queries.
  for (int i = 0; i < 320; ++i) {
    points.push_back({id += 7, {1000.0F + static_cast<float>(i), 0, 0}, {}});
  }
  ASSERT_NO_FATAL_FAILURE(shard.Write({points.begin() + 200, points.end()}));
  ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
  for (int64_t k = 1; k <= 20; ++k) {
    SearchRequest request = SearchFor({2, 2, 2}, k);
    for (int cell = 0; cell < 125; cell += 4) {
      request.queries.push_back(std::vector<float>{
          static_cast<float>(cell % 5) + 0.5F * (cell % 2),
          static_cast<float>(cell / 5 % 5), static_cast<float>(cell / 25)});
    }
    request.strategy = TreeStrategy();
    shard.ExpectExact(request);
  }
}

// B30, B33: ids that a double cannot hold; an id that is deleted and comes
// back.
TEST(ShardIndexes, AnIdThatComesBackIsFoundWhereItIsNow) {
  IndexedShard shard(2, Metric::kSquaredL2,
                     {TreeSpec(), LshSpec(), FaissSpec("IVF4,SQ8")});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  constexpr PointId kBig = 9007199254740993;
  ASSERT_NO_FATAL_FAILURE(
      shard.Write({{kBig, {100, 100}, {}}, {kBig - 1, {200, 200}, {}}}));
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(512));
  ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
  ASSERT_NO_FATAL_FAILURE(shard.Write({}, {kBig}));
  ASSERT_NO_FATAL_FAILURE(shard.Write({{kBig, {300, 300}, {}}}));
  for (const Strategy& way : ExactWays()) {
    for (const float at : {100.0F, 200.0F, 300.0F}) {
      SearchRequest request = SearchFor({at, at}, 2);
      request.strategy = way;
      shard.ExpectExact(request);
    }
  }
}

TEST(ShardIndexes, AStrategyWithoutItsIndexIsRefused) {
  IndexedShard shard(2, Metric::kSquaredL2, {TreeSpec()});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  const auto reply = shard.harness().Search(shard.Request(1, LshStrategy()));
  EXPECT_TRUE(absl::IsFailedPrecondition(reply.status())) << reply.status();
  EXPECT_TRUE(absl::StrContains(reply.status().message(), "no lsh index"))
      << reply.status();
}

TEST(ShardIndexes, OverTheBudgetNothingIsBuiltAndTheReasonIsSaid) {
  IndexedShard shard(3, Metric::kSquaredL2, {TreeSpec()});
  shard.harness().options()->index_bytes = 1000;
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(1024));
  const auto deadline = absl::Now() + absl::Seconds(30);
  while (!absl::StrContains(shard.State().note, "index_bytes allows")) {
    ASSERT_LT(absl::Now(), deadline) << shard.State().note;
    std::this_thread::yield();
  }
  EXPECT_EQ(shard.State().segments_ready, 0);
  EXPECT_GT(shard.State().bytes_expected, 0);
  shard.ExpectExact(shard.Request(5, TreeStrategy()));
}

TEST(ShardIndexes, ADamagedFileIsNamedAndBuiltAnew) {
  for (const std::string kind : {"tree", "lsh", "faiss"}) {
    IndexedShard shard(3, Metric::kCosine,
                       {TreeSpec(), LshSpec(), FaissSpec("HNSW4")});
    ASSERT_NO_FATAL_FAILURE(shard.Open());
    ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(1024));
    ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
    ASSERT_NO_FATAL_FAILURE(shard.AwaitFiles());
    shard.harness().Close();
    const fs::path file = shard.Files("." + kind).front();
    {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(4097);  // in the first array
      bytes.put('\x5a');
      bytes.put('\xa5');
    }
    shard.harness().Open();
    EXPECT_TRUE(shard.Warned(file.filename().string())) << file;
    EXPECT_TRUE(shard.Warned("checksum is wrong"));
    ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
    for (const Strategy& way : ExactWays()) {
      shard.ExpectExact(shard.Request(5, way));
    }
  }
}

TEST(ShardIndexes, FilesGoWithTheirSegment) {
  IndexedShard shard(2, Metric::kSquaredL2,
                     {TreeSpec(), LshSpec(), FaissSpec("IVF4,Flat")});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(4096));
  ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
  ASSERT_NO_FATAL_FAILURE(shard.AwaitFiles());
  EXPECT_TRUE(shard.Files(".tmp").empty());
  shard.ExpectExact(shard.Request(9, TreeStrategy()));
}

TEST(ShardIndexes, SearchesGoOnWhileWritesMergeAndBuild) {
  IndexedShard shard(2, Metric::kSquaredL2,
                     {TreeSpec(), LshSpec(), FaissSpec("HNSW4")});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(1024));
  std::atomic<bool> stop{false};
  std::atomic<int64_t> answered{0};
  std::thread reader([&] {
    while (!stop.load()) {
      SearchRequest request = SearchFor({1, 1}, 10);
      request.strategy = TreeStrategy();
      const auto reply = shard.harness().Search(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      ASSERT_EQ(reply->accounts[0].evaluated + reply->accounts[0].ruled_out,
                reply->rows_live);
      ASSERT_EQ(reply->results[0].size(), 10U);
      answered.fetch_add(1);
    }
  });
  for (int round = 0; round < 12; ++round) {
    ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(512));
    std::vector<PointId> some;
    for (const auto& [id, vector] : shard.points()) {
      if (shard.random()() % 8 == 0) some.push_back(id);
    }
    ASSERT_NO_FATAL_FAILURE(shard.Write({}, some));
  }
  stop.store(true);
  reader.join();
  EXPECT_GT(answered.load(), 0);
  ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
  for (const Strategy& way : ExactWays()) {
    shard.ExpectExact(shard.Request(30, way));
  }
}

// The attributes of points, while trees are laid out, and what a filter makes
// of them.
TEST(ShardIndexes, AttributesGoWithRowsIntoTheOrderOfATree) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  IndexedShard shard(3, Metric::kSquaredL2,
                     {TreeSpec(), LshSpec(), FaissSpec("IVF4,Flat")});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(1024));
  std::map<PointId, int64_t> colours;
  std::vector<PointId> ids;
  for (const auto& [id, vector] : shard.points()) ids.push_back(id);
  const auto paint = [&] {
    WriteBatch batch;
    batch.collection = "c";
    for (int i = 0; i < 8; ++i) {
      const PointId id = ids[shard.random()() % ids.size()];
      colours[id] = static_cast<int64_t>(shard.random()() % 3);
      std::erase_if(batch.updates, [id](const AttributeUpdate& earlier) {
        return earlier.id == id;
      });
      batch.updates.push_back({id, {{"colour", colours[id]}}});
    }
    const auto reply = shard.harness().Apply(std::move(batch));
    ASSERT_TRUE(reply.ok()) << reply.status();
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (IndexState state = shard.State();
       state.segments == 0 || state.segments_ready < state.segments;
       state = shard.State()) {
    ASSERT_LT(absl::Now(), deadline);
    ASSERT_NO_FATAL_FAILURE(paint());
  }
  ASSERT_NO_FATAL_FAILURE(paint());
  for (int64_t colour = 0; colour < 3; ++colour) {
    IndexedShard::Points painted;
    for (const auto& [id, vector] : shard.points()) {
      const auto at = colours.find(id);
      if (at != colours.end() && at->second == colour) painted[id] = vector;
    }
    for (const Strategy& way : ExactWays()) {
      SearchRequest request = shard.Request(20, way);
      request.filter.must.push_back(MatchCondition{"colour", {colour}});
      const auto reply = shard.harness().Search(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      std::vector<Neighbor> found;
      for (const Hit& hit : reply->results[0]) found.push_back(hit.neighbor);
      EXPECT_EQ(found, CanonicalSearch(
                           Metric::kSquaredL2, painted,
                           std::get<std::vector<float>>(request.queries[0]), 20,
                           request.radius))
          << reply->times.plan;
      const QueryAccount& account = reply->accounts[0];
      EXPECT_EQ(account.evaluated + account.ruled_out + account.filtered,
                reply->rows_live);
    }
  }
}

TEST(ShardIndexes, AnEndedCallEndsTheSearch) {
  IndexedShard shard(3, Metric::kSquaredL2,
                     {TreeSpec(), LshSpec(), FaissSpec("HNSW4")});
  ASSERT_NO_FATAL_FAILURE(shard.Open());
  ASSERT_NO_FATAL_FAILURE(shard.WriteRandom(1024));
  ASSERT_NO_FATAL_FAILURE(shard.AwaitIndexes());
  for (const Strategy& way : {Strategy(TreeStrategy()), Strategy(LshStrategy()),
                              Strategy(FaissStrategy())}) {
    CallContext call;
    auto cancel = std::make_shared<CancelToken>();
    call.cancel = cancel;
    cancel->Cancel();
    const auto reply = shard.harness().Search(shard.Request(5, way), call);
    EXPECT_TRUE(absl::IsCancelled(reply.status())) << reply.status();
  }
}

}  // namespace
}  // namespace coterie
