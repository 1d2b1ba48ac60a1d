// Indexes on real word vectors, over two shards: what was asked for is found,
// and what calls itself exact is.

#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/search.h"
#include "gtest/gtest.h"
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
      : cluster_({.shards = 2,
                  .threads = 1,
                  .tail_rows = 2048,
                  .index_rows = 1024}) {
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
    spec.indexes = {{IndexKind::kTree},
                    {IndexKind::kLsh, IndexSpec::kDefaultBytesPerRow,
                     IndexSpec::kDefaultRecall}};
    ASSERT_TRUE(Await<CollectionSpec>([&](Done<CollectionSpec> done) {
                  cluster_.coordinator().CreateCollection(spec, {},
                                                          std::move(done));
                }).ok());
    std::vector<Point> points = ToPoints(stored_);
    for (size_t first = 0; first < points.size(); first += 1200) {
      const auto begin = points.begin() + static_cast<std::ptrdiff_t>(first);
      const auto reply =
          cluster_.Upsert("words", std::vector<Point>(begin, begin + 1200));
      ASSERT_TRUE(reply.ok()) << reply.status();
    }
    // What is in no large segment is scanned.
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

  double RecallBy(const Strategy& strategy) {
    const SearchReply reply = Search(strategy, /*measure=*/true);
    double sum = 0;
    for (const SearchReply::Result& result : reply.results) {
      EXPECT_EQ(result.hits.size(), static_cast<size_t>(kK));
      sum += result.recall.value_or(0);
      EXPECT_TRUE(!result.exact || result.recall == 1);
    }
    return sum / kQueries;
  }

  // Each way reaches the targets that it is given.
  void CheckTargets() {
    for (const double target : {0.8, 0.9, 0.95}) {
      const std::pair<const char*, Strategy> ways[] = {
          {"tree", TreeStrategy{0, 0, target}},
          {"lsh", LshStrategy{target, 0}},
          {"auto", AutoStrategy{target}}};
      for (const auto& [name, way] : ways) {
        const double recall = RecallBy(way);
        std::cout << name << " for " << target << ": " << recall << '\n';
        EXPECT_GE(recall, target) << name;
      }
    }
  }

  LocalCluster cluster_;
  std::string waiting_for_;
  Rows stored_;
  std::vector<std::vector<float>> queries_;
  Filter filter_;  // of all searches
};

TEST_P(IndexRecall, ReachesItsTargetAlsoAfterDeletions) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  CheckTargets();
  // Few enough that nothing is merged: the structures go on as they are.
  std::vector<PointId> some;
  for (const auto& [id, row] : stored_) {
    if (id % 6 == 0) some.push_back(id);
  }
  ASSERT_TRUE(cluster_.Delete("words", some).ok());
  CheckTargets();
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
    CheckTargets();
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
