#include "shard/search_pass.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/exact_scan.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "shard/collection_state.h"
#include "shard/filtered_rows.h"
#include "shard/shard_testing.h"
#include "shard/work_queue.h"
#include "shard/written_snapshot.h"

namespace coterie {
namespace {

class SearchPassTest : public ::testing::TestWithParam<Metric> {
 protected:
  SearchPassTest() : seed_(TestSeed()), random_(seed_) {}

  const uint64_t seed_;
  Random random_;
  WorkQueue one_{1, 10};
  WorkQueue three_{3, 10};
};

INSTANTIATE_TEST_SUITE_P(Metrics, SearchPassTest,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kInnerProduct,
                                           Metric::kCosine));

// What a pass did that was cancelled after so many asks.
struct Stopped {
  int64_t asks_before = 0;
  int64_t asks_after = 0;
  int64_t rows = 0;  // accounted for, over all queries
};

Stopped StopPass(const CollectionSnapshot& snapshot, const ScanQueries& queries,
                 int64_t parts, int64_t stop_at, WorkQueue* queue) {
  const auto cancel = std::make_shared<CancelToken>();
  std::vector<SearchPass::Part> all(static_cast<size_t>(parts));
  for (int64_t i = 0; i < parts; ++i) {
    SearchPass::Part& part = all[static_cast<size_t>(i)];
    part.first = queries.size() * i / parts;
    part.count = queries.size() * (i + 1) / parts - part.first;
    part.keep = 10;
    part.radius = std::numeric_limits<double>::infinity();
    part.call.cancel = cancel;
  }
  SearchPass pass(SegmentsOf(snapshot, nullptr), queries, std::move(all));
  std::atomic<bool> over{false};
  Stopped stopped;
  std::thread canceller([&] {
    while (pass.asks() < stop_at && !over) std::this_thread::yield();
    cancel->Cancel();
    stopped.asks_before = pass.asks();
  });
  pass.Run(queue);
  over = true;
  canceller.join();
  stopped.asks_after = pass.asks() - stopped.asks_before;
  for (int64_t q = 0; q < queries.size(); ++q) {
    const QueryAccount account = pass.AccountOf(q);
    stopped.rows += account.evaluated + account.ruled_out;
  }
  return stopped;
}

// Counted in work, not in time: at some GB/s these are well under 5 ms.
TEST_P(SearchPassTest, StopsAtTheNextAskOfEachThreadOrTheSixteenthInCompany) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  constexpr int64_t kQueries = 1200;
  for (const int64_t tail_rows : {2000, 100000}) {  // codes, float32
    const Written written = Write(GetParam(), 17, 20000, tail_rows, random_);
    std::vector<float> rows;
    for (int64_t i = 0; i < kQueries; ++i) {
      const std::vector<float> row = RandomVector(17, random_);
      rows.insert(rows.end(), row.begin(), row.end());
    }
    const ScanQueries queries(GetParam(), {rows.data(), kQueries, 17, 17});
    for (const auto& [parts, each] : {std::pair{1, 1}, std::pair{20, 16}}) {
      const Stopped whole = StopPass(*written.snapshot, queries, parts,
                                     int64_t{1} << 40, &three_);
      EXPECT_EQ(whole.rows, written.snapshot->rows_live() * kQueries);
      ASSERT_GT(whole.asks_before, 200);
      // The canceller may come late, when there is little left to stop.
      const absl::Time late = absl::Now() + absl::Seconds(30);
      Stopped stopped = whole;
      while (stopped.asks_before > whole.asks_before / 8 &&
             absl::Now() < late) {
        stopped = StopPass(*written.snapshot, queries, parts, 3, &three_);
        // Besides, what has not begun asks once, and what is half done: a
        // segment has at most two chunks here.
        EXPECT_LE(
            stopped.asks_after,
            (each + 2) * three_.threads() +
                2 * static_cast<int64_t>(written.snapshot->segments().size()));
      }
      // What asks allow differs in size, by less than 2.
      EXPECT_LT(stopped.rows, whole.rows) << parts << " parts";
    }
  }
}

// Rows that are looked at for a guess are spread evenly. Here they, and no
// others, are near: each query is guessed too near, and scanned again.
TEST_P(SearchPassTest, GuessesThatFailCostTimeOnly) {
  SCOPED_TRACE(absl::StrCat("SEED=", seed_));
  constexpr int64_t kDimension = 17;
  constexpr int64_t kRows = 20000;
  constexpr int64_t kNeighbors = 100;
  constexpr int64_t kGroups = (kRows + 63) / 64;
  constexpr int64_t kLookedAt = 12 * (kRows / kNeighbors) / 64 + 1;
  std::vector<bool> near(kGroups, false);
  for (int64_t i = 0; i < kLookedAt; ++i) near[i * kGroups / kLookedAt] = true;
  CollectionState state(TestCollection("c", 1, kDimension, GetParam(), 1), 0,
                        SegmentTuning());
  std::map<PointId, std::vector<float>> model;
  state.StartLoad(kRows);
  for (int64_t i = 0; i < kRows; ++i) {
    std::vector<float> row = RandomVector(kDimension, random_);
    row[0] += near[static_cast<size_t>(i / 64)] ? 6.0F : -6.0F;
    state.Load(static_cast<PointId>(i), row);
    model[static_cast<PointId>(i)] = std::move(row);
  }
  state.FinishLoad();
  const auto snapshot = state.Publish(kRows);
  ASSERT_EQ(snapshot->segments().size(), 1);
  std::vector<float> rows;
  for (int64_t i = 0; i < 30; ++i) {
    std::vector<float> row = RandomVector(kDimension, random_);
    row[0] += 6;
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const ScanQueries queries(GetParam(),
                            {rows.data(), 30, kDimension, kDimension});
  for (WorkQueue* queue : {&one_, &three_}) {
    SearchPass::Part part;
    part.count = 30;
    part.keep = kNeighbors;
    part.radius = std::numeric_limits<double>::infinity();
    SearchPass pass(SegmentsOf(*snapshot, nullptr), queries, {part});
    pass.Run(queue);
    for (int64_t q = 0; q < 30; ++q) {
      const auto found = pass.TakeNeighbors(q);
      ASSERT_TRUE(found.ok()) << found.status();
      const VectorView query = queries.query(q);
      ASSERT_EQ(*found, CanonicalSearch(GetParam(), model, query, kNeighbors));
      const QueryAccount account = pass.AccountOf(q);
      EXPECT_EQ(account.evaluated + account.ruled_out, kRows);
    }
  }
}

}  // namespace
}  // namespace coterie
