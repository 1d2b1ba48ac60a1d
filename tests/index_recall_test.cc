// Indexes on real word vectors: what was asked for is found, not by looking at
// everything, also after a third of the rows has changed; and what calls itself
// exact is. Segments are large enough that every kind was trained or measured,
// so that none falls back on a scan.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/search.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "tests/local_cluster.h"
#include "tests/model.h"

namespace coterie {
namespace {

constexpr int64_t kStored = 9600;
constexpr int64_t kQueries = 200;
constexpr int64_t kK = 10;

class IndexRecall : public ::testing::TestWithParam<Metric> {
 protected:
  IndexRecall()
      : cluster_(
            {.shards = 1, .threads = 1, .tail_rows = 4096, .index_rows = 4096}),
        random_(TestSeed()) {
    for (auto& [id, row] : WordRows(kStored + kQueries)) {
      if (static_cast<int64_t>(id) < kStored) {
        stored_[id] = std::move(row);
      } else {
        queries_.push_back(std::move(row));
      }
    }
  }

  void Fill() {
    CollectionSpec spec;
    spec.name = "words";
    spec.dimension = 100;
    spec.metric = GetParam();
    spec.indexes = {
        {IndexKind::kTree},
        {IndexKind::kLsh, IndexSpec::kDefaultBytesPerRow,
         IndexSpec::kDefaultRecall},
        {IndexKind::kFaiss, 0, IndexSpec::kDefaultRecall, "IVF64,Flat"}};
    ASSERT_TRUE(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
                  cluster_.coordinator().CreateCollection(spec, {},
                                                          std::move(done));
                }).ok());
    Upsert(ToPoints(stored_));
    AwaitReady();
  }

  void Upsert(std::vector<Point> points) {
    for (size_t first = 0; first < points.size(); first += 1200) {
      const auto begin = points.begin() + static_cast<std::ptrdiff_t>(first);
      const size_t count = std::min<size_t>(1200, points.size() - first);
      const auto reply = cluster_.Upsert(
          "words", std::vector<Point>(
                       begin, begin + static_cast<std::ptrdiff_t>(count)));
      ASSERT_TRUE(reply.ok()) << reply.status();
    }
  }

  // What is in no large segment is scanned.
  void AwaitReady() {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    while (!Ready()) {
      ASSERT_LT(absl::Now(), deadline) << "not built: " << waiting_for_;
      std::this_thread::yield();
    }
  }

  bool Ready() {
    const auto described =
        Await<CollectionDescription>([&](Done<CollectionDescription> done) {
          cluster_.coordinator().GetCollection("words", {}, std::move(done));
        });
    EXPECT_TRUE(described.ok()) << described.status();
    for (const ShardCollectionStats& shard : described->shards) {
      for (const IndexState& index : shard.indexes) {
        if (index.segments == 0 || index.segments_ready < index.segments) {
          waiting_for_ = absl::StrCat(index.segments_ready, " of ",
                                      index.segments, " ", index.note);
          return false;
        }
      }
    }
    return true;
  }

  SearchReply Search(const Strategy& strategy, bool measure) {
    SearchRequest request;
    request.collection = "words";
    for (const std::vector<float>& query : queries_) {
      request.queries.emplace_back(query);
    }
    request.k = kK;
    request.strategy = strategy;
    request.filter = filter_;
    request.measure_recall = measure;
    auto reply = cluster_.Search(std::move(request));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *std::move(reply) : SearchReply();
  }

  // The mean; `exact` is the part of the queries that were answered exactly.
  double RecallBy(const Strategy& strategy, double* exact) {
    const SearchReply reply = Search(strategy, /*measure=*/true);
    double sum = 0;
    *exact = 0;
    for (const SearchReply::Result& result : reply.results) {
      EXPECT_EQ(result.hits.size(), static_cast<size_t>(kK));
      sum += result.recall.value_or(0);
      EXPECT_TRUE(!result.exact || result.recall == 1);
      if (result.exact) *exact += 1.0 / kQueries;
    }
    return sum / kQueries;
  }

  // Each way reaches the targets that it is given; `ready`: not by scanning.
  void CheckTargets(bool ready) {
    for (const double target : {0.6, 0.8, 0.95}) {
      const std::pair<const char*, Strategy> ways[] = {
          {"tree", TreeStrategy{0, 0, target}},
          {"lsh", LshStrategy{target, 0}},
          {"faiss", FaissStrategy{target, 0, 0, 0}},
          {"auto", AutoStrategy{target}}};
      for (const auto& [name, way] : ways) {
        double exact = 0;
        const double recall = RecallBy(way, &exact);
        std::cout << name << " for " << target << ": " << recall << ", exact "
                  << exact << '\n';
        EXPECT_GE(recall, target - slack_) << name;
        // Otherwise the targets were met by scans.
        if (ready && target < 0.7 && absl::string_view(name) != "auto") {
          EXPECT_LT(exact, 0.5) << name;
        }
      }
    }
  }

  // A point between two that are stored.
  std::vector<float> Between() {
    const auto& a = stored_.at(random_() % kStored / 10 * 10 + 9);
    const auto& b = stored_.at(random_() % kStored / 10 * 10 + 9);
    std::vector<float> middle;
    for (size_t i = 0; i < a.size(); ++i) middle.push_back((a[i] + b[i]) / 2);
    return middle;
  }

  LocalCluster cluster_;
  std::mt19937_64 random_;
  std::string waiting_for_;
  Rows stored_;
  std::vector<std::vector<float>> queries_;
  Filter filter_;        // of all searches
  double slack_ = 0.03;  // two standard errors of the mean over the queries
};

TEST_P(IndexRecall, ReachesItsTargetAlsoOnceAThirdHasChanged) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  ASSERT_NO_FATAL_FAILURE(Fill());
  CheckTargets(/*ready=*/true);
  // Few enough that nothing is merged: the structures go on as they are. LSH,
  // which now has to find the 11th, finds it dear.
  std::vector<PointId> some;
  for (const auto& [id, row] : stored_) {
    if (id % 10 == 0) some.push_back(id);
  }
  ASSERT_TRUE(cluster_.Delete("words", some).ok());
  CheckTargets(/*ready=*/false);
  // More, and as many others.
  some.clear();
  std::vector<Point> others;
  for (const auto& [id, row] : stored_) {
    if (id % 10 == 1 || id % 10 == 2) some.push_back(id);
    if (id % 10 < 3) others.push_back({kStored + id, Between(), {}});
  }
  ASSERT_TRUE(cluster_.Delete("words", some).ok());
  ASSERT_NO_FATAL_FAILURE(Upsert(std::move(others)));
  CheckTargets(/*ready=*/false);
  ASSERT_NO_FATAL_FAILURE(AwaitReady());
  CheckTargets(/*ready=*/false);
}

// Of every third word; of the 1,600 most frequent, which lie together.
TEST_P(IndexRecall, ReachesItsTargetAlsoBehindAFilter) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  IdCondition third;
  IdCondition frequent;
  for (const auto& [id, row] : stored_) {
    if (id % 3 == 0) third.ids.push_back(id);
    if (id < kStored / 6) frequent.ids.push_back(id);
  }
  for (const IdCondition& ids : {third, frequent}) {
    filter_ = Filter();
    filter_.must.push_back(ids);
    // Frequent words are farther from most queries than a tree has learned.
    slack_ = 0.05;
    CheckTargets(/*ready=*/false);
  }
}

TEST_P(IndexRecall, ATreeWithoutLimitsIsExactAndSaysSo) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  const SearchReply scan = Search(ExactStrategy(), false);
  for (const Strategy& way :
       {Strategy(TreeStrategy()), Strategy(AutoStrategy())}) {
    const SearchReply reply = Search(way, false);
    for (size_t q = 0; q < reply.results.size(); ++q) {
      EXPECT_TRUE(reply.results[q].exact) << reply.certificate.withheld;
      ASSERT_EQ(reply.results[q].hits.size(), scan.results[q].hits.size());
      for (size_t i = 0; i < scan.results[q].hits.size(); ++i) {
        EXPECT_EQ(reply.results[q].hits[i].neighbor,
                  scan.results[q].hits[i].neighbor);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Metrics, IndexRecall,
                         ::testing::Values(Metric::kSquaredL2,
                                           Metric::kCosine));

}  // namespace
}  // namespace coterie
