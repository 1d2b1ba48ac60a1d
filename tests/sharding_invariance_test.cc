// The promise that an exact answer is the same bytes for any number of shards,
// threads and queries per request.

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"
#include "tests/model.h"

namespace coterie {
namespace {

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};

SearchRequest Request(const std::string& collection,
                      const std::vector<std::vector<float>>& queries,
                      int64_t k) {
  SearchRequest request;
  request.collection = collection;
  request.queries.assign(queries.begin(), queries.end());
  request.k = k;
  return request;
}

bool SameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

void ExpectSame(const std::vector<Hit>& hits,
                const std::vector<Neighbor>& expected) {
  ASSERT_EQ(hits.size(), expected.size());
  for (size_t i = 0; i < hits.size(); ++i) {
    EXPECT_EQ(hits[i].neighbor.id, expected[i].id) << "at rank " << i;
    EXPECT_TRUE(SameBits(hits[i].neighbor.distance, expected[i].distance))
        << "at rank " << i << ": " << hits[i].neighbor.distance << " and "
        << expected[i].distance;
  }
}

// Asks for `queries` in requests of `batch` queries each.
void ExpectModelAnswers(LocalCluster& cluster, const std::string& collection,
                        const Rows& rows, Metric metric,
                        const std::vector<std::vector<float>>& queries,
                        size_t batch, int64_t k) {
  for (size_t from = 0; from < queries.size(); from += batch) {
    const std::vector<std::vector<float>> part(
        queries.begin() + static_cast<int64_t>(from),
        queries.begin() +
            static_cast<int64_t>(std::min(queries.size(), from + batch)));
    const auto reply = cluster.Search(Request(collection, part, k));
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->results.size(), part.size());
    for (size_t q = 0; q < part.size(); ++q) {
      ExpectSame(reply->results[q].hits, ModelSearch(rows, metric, part[q], k));
      EXPECT_TRUE(reply->results[q].exact) << reply->certificate.withheld;
    }
    EXPECT_EQ(reply->coverage.rows_total, static_cast<int64_t>(rows.size()));
    EXPECT_EQ(reply->coverage.rows_covered, reply->coverage.rows_total);
  }
}

// Segments are sealed beside the searches: asks until every shard has one.
bool ComesToScanCodes(LocalCluster& cluster, const SearchRequest& request) {
  const absl::Time late = absl::Now() + absl::Seconds(30);
  for (;;) {
    const auto reply = cluster.Search(request);
    if (!reply.ok()) return false;
    if (std::all_of(reply->shard_times.begin(), reply->shard_times.end(),
                    [](const auto& shard) {
                      return absl::StartsWith(shard.second.plan,
                                              "exact int8 codes");
                    })) {
      return true;
    }
    if (absl::Now() > late) return false;
  }
}

struct Shape {
  int32_t shards;
  int32_t threads;
};

class ShardingInvariance : public testing::TestWithParam<Shape> {};

// One round: a collection for each metric and dimension.
void ExpectHardRowsAnswered(LocalCluster& cluster, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  for (const Metric metric : kMetrics) {
    for (const int64_t d : {1, 7, 33}) {
      std::mt19937_64 random(seed + static_cast<uint64_t>(d));
      const Rows rows = HardRows(700, d, random);
      const std::string name = std::to_string(seed) + "-" + std::to_string(d) +
                               std::string(MetricName(metric));
      ASSERT_TRUE(cluster.Create(name, static_cast<int32_t>(d), metric).ok());
      ASSERT_TRUE(cluster.Upsert(name, ToPoints(rows)).ok());
      std::vector<std::vector<float>> queries;
      for (const auto& [id, row] : HardRows(59, d, random)) {
        queries.push_back(row);
      }
      for (const auto& [id, row] : rows) {
        queries.push_back(row);  // ties with duplicates of itself
        if (queries.size() == 64) break;
      }
      for (const size_t batch : {1, 5, 64}) {
        ExpectModelAnswers(cluster, name, rows, metric, queries, batch, 13);
      }
      ExpectModelAnswers(cluster, name, rows, metric, queries, 64, 1);
      ExpectModelAnswers(cluster, name, rows, metric, queries, 64, 10000);
    }
  }
}

TEST_P(ShardingInvariance, HardRowsGiveTheModelsBytes) {
  // A small tail, so that answers come from sealed segments and tail both.
  LocalCluster cluster({GetParam().shards, GetParam().threads, 64});
  const uint64_t seed = TestSeed(20240601);
  for (uint64_t round = 0; round < TestRounds(); ++round) {
    ExpectHardRowsAnswered(cluster, seed + round);
  }
}

TEST_P(ShardingInvariance, HoldsAfterUpdatesDeletesAndRestart) {
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  LocalCluster cluster({GetParam().shards, GetParam().threads, 50});
  Rows rows = HardRows(400, 5, random);
  ASSERT_TRUE(cluster.Create("c", 5, Metric::kSquaredL2).ok());
  ASSERT_TRUE(cluster.Upsert("c", ToPoints(rows)).ok());
  std::vector<PointId> gone;
  Rows updated;
  for (const auto& [id, row] : rows) {
    if (random() % 3 == 0) {
      gone.push_back(id);
    } else if (random() % 3 == 0) {
      updated[id] = HardRows(1, 5, random).begin()->second;
    }
  }
  for (const PointId id : gone) rows.erase(id);
  for (const auto& [id, row] : updated) rows[id] = row;
  const auto deleted = cluster.Delete("c", gone);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->deleted, static_cast<int64_t>(gone.size()));
  ASSERT_TRUE(cluster.Upsert("c", ToPoints(updated)).ok());

  std::vector<std::vector<float>> queries;
  for (const auto& [id, row] : HardRows(20, 5, random)) queries.push_back(row);
  ExpectModelAnswers(cluster, "c", rows, Metric::kSquaredL2, queries, 5, 20);
  cluster.Restart();
  ExpectModelAnswers(cluster, "c", rows, Metric::kSquaredL2, queries, 5, 20);
  EXPECT_EQ(*cluster.Count("c"), static_cast<int64_t>(rows.size()));
}

TEST_P(ShardingInvariance, WordVectorsGiveTheModelsBytes) {
  const Rows rows = WordRows(2000);
  LocalCluster cluster({GetParam().shards, GetParam().threads, 300});
  ASSERT_TRUE(cluster.Create("words", 100, Metric::kCosine).ok());
  ASSERT_TRUE(cluster.Upsert("words", ToPoints(rows)).ok());
  std::vector<std::vector<float>> queries;
  for (PointId id = 0; id < 2000; id += 100) queries.push_back(rows.at(id));
  ExpectModelAnswers(cluster, "words", rows, Metric::kCosine, queries, 5, 10);
}

TEST_P(ShardingInvariance, CodedSegmentsGiveTheModelsBytes) {
  // Enough rows a shard for sealed segments with 8-bit codes, some of them
  // deleted or replaced since.
  LocalCluster cluster({GetParam().shards, GetParam().threads, 1024});
  std::mt19937_64 random(TestSeed(3));
  for (const Metric metric : kMetrics) {
    const std::string name(MetricName(metric));
    const Rows words = WordRows(10000);
    Rows rows = words;
    ASSERT_TRUE(cluster.Create(name, 100, metric).ok());
    std::vector<Point> points = ToPoints(rows);
    for (size_t from = 0; from < points.size(); from += 2500) {
      ASSERT_TRUE(
          cluster
              .Upsert(name,
                      {points.begin() + static_cast<int64_t>(from),
                       points.begin() + static_cast<int64_t>(from) + 2500})
              .ok());
    }
    // What dies before it is sealed leaves too few rows for codes.
    EXPECT_TRUE(ComesToScanCodes(cluster, Request(name, {words.at(1)}, 1)));
    std::vector<PointId> gone;
    Rows moved;
    for (PointId id = 0; id < 10000; id += 7) gone.push_back(id);
    for (PointId id = 1; id < 10000; id += 35) moved[id] = words.at(id + 1);
    for (const PointId id : gone) rows.erase(id);
    for (const auto& [id, row] : moved) rows[id] = row;
    ASSERT_TRUE(cluster.Delete(name, gone).ok());
    ASSERT_TRUE(cluster.Upsert(name, ToPoints(moved)).ok());

    std::vector<std::vector<float>> queries;
    for (PointId id = 1; id < 10000; id += 550) queries.push_back(words.at(id));
    ExpectModelAnswers(cluster, name, rows, metric, queries, 1, 10);
    ExpectModelAnswers(cluster, name, rows, metric, queries, 19, 100);
    EXPECT_TRUE(ComesToScanCodes(cluster, Request(name, queries, 1)));
  }
}

TEST_P(ShardingInvariance, EmptyCollectionsAnswerWithEmptyLists) {
  // A public report of an empty index answering id 0: faiss#3830.
  LocalCluster cluster({GetParam().shards, GetParam().threads});
  ASSERT_TRUE(cluster.Create("c", 3, Metric::kSquaredL2).ok());
  for (const size_t batch : {1, 19, 20, 21, 64}) {
    const auto reply = cluster.Search(Request(
        "c", std::vector<std::vector<float>>(batch, {0.f, 0.f, 0.f}), 2));
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->results.size(), batch);
    for (const auto& result : reply->results) {
      EXPECT_TRUE(result.hits.empty());
      EXPECT_TRUE(result.exact) << reply->certificate.withheld;
    }
  }
}

TEST_P(ShardingInvariance, FewerSlotsThanShardsLeavesShardsEmptyAndRight) {
  LocalCluster cluster({GetParam().shards, GetParam().threads});
  ASSERT_TRUE(cluster.Create("c", 1, Metric::kSquaredL2, 1).ok());
  Rows rows;
  for (int i = 0; i < 9; ++i) rows[static_cast<PointId>(i)] = {float(i)};
  ASSERT_TRUE(cluster.Upsert("c", ToPoints(rows)).ok());
  ExpectModelAnswers(cluster, "c", rows, Metric::kSquaredL2, {{4.4f}}, 1, 20);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ShardingInvariance,
                         testing::Values(Shape{1, 1}, Shape{1, 4}, Shape{2, 1},
                                         Shape{3, 1}, Shape{3, 4}, Shape{8, 1},
                                         Shape{8, 4}),
                         [](const testing::TestParamInfo<Shape>& shape) {
                           return "Shards" +
                                  std::to_string(shape.param.shards) +
                                  "Threads" +
                                  std::to_string(shape.param.threads);
                         });

TEST(Paging, TiedRowsSplitIntoPagesWithoutOverlap) {
  // A public report of overlapping pages: milvus#44819.
  LocalCluster cluster({3, 1});
  ASSERT_TRUE(cluster.Create("c", 2, Metric::kSquaredL2).ok());
  Rows rows;
  for (PointId id = 1; id <= 10; ++id) rows[id] = {1, 1};
  ASSERT_TRUE(cluster.Upsert("c", ToPoints(rows)).ok());
  for (int repeat = 0; repeat < 100; ++repeat) {
    for (const int64_t offset : {0, 5}) {
      SearchRequest request = Request("c", {{1, 1}}, offset + 5);
      request.offset = offset;
      const auto reply = cluster.Search(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      const auto& hits = reply->results[0].hits;
      ASSERT_EQ(hits.size(), 5u);
      for (size_t i = 0; i < 5; ++i) {
        EXPECT_EQ(hits[i].neighbor.id, static_cast<PointId>(offset) + i + 1);
      }
    }
  }
}

TEST(Radius, IncludesPointsAtADistanceTheServiceReturned) {
  // scikit-learn#18087: the bound is inclusive and computed alike.
  LocalCluster cluster({2, 1});
  ASSERT_TRUE(cluster.Create("c", 2, Metric::kSquaredL2).ok());
  Rows rows = {{1, {0.1f, 0.2f}},
               {2, {0.4f, 0.6f}},
               {3, {0.1f, 0.2f}},
               {4, {0.4f, 0.6f}}};
  ASSERT_TRUE(cluster.Upsert("c", ToPoints(rows)).ok());
  auto nearest = cluster.Search(Request("c", {{0.3f, 0.3f}}, 1));
  ASSERT_TRUE(nearest.ok());
  SearchRequest request = Request("c", {{0.3f, 0.3f}}, 10001);
  request.radius = nearest->results[0].hits[0].neighbor.distance;
  const auto reply = cluster.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->results[0].hits.size(), 2u);
  EXPECT_EQ(reply->results[0].hits[0].neighbor.id, 1u);
  EXPECT_EQ(reply->results[0].hits[1].neighbor.id, 3u);
}

TEST(Certificate, AccountsForEveryRowOnEveryShard) {
  LocalCluster cluster({4, 1});
  const Rows rows = WordRows(1000);
  ASSERT_TRUE(cluster.Create("words", 100, Metric::kSquaredL2).ok());
  ASSERT_TRUE(cluster.Upsert("words", ToPoints(rows)).ok());
  SearchRequest request = Request("words", {rows.at(1), rows.at(2)}, 10);
  request.profile = true;
  const auto reply = cluster.Search(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->certificate.shards.size(), 4u);
  EXPECT_EQ(reply->certificate.withheld, "");
  int64_t live = 0;
  size_t slots = 0;
  for (const ShardCertificate& shard : reply->certificate.shards) {
    live += shard.rows_live;
    slots += shard.slots.size();
    ASSERT_EQ(shard.accounts.size(), 2u);
    for (const QueryAccount& a : shard.accounts) {
      EXPECT_EQ(a.evaluated + a.ruled_out + a.filtered, shard.rows_live);
    }
  }
  EXPECT_EQ(live, 1000);
  EXPECT_EQ(slots, static_cast<size_t>(kDefaultSlots));
}

}  // namespace
}  // namespace coterie
