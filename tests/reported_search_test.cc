// Faults of searches that users of comparable systems reported, by their right
// values, through a coordinator, its shards and every kind of index. Names of
// reports are before the tests. What has no shards is in
// index/exact_scan_reported_test.cc and index/kinds_test.cc.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/search.h"
#include "gtest/gtest.h"
#include "tests/every_strategy.h"
#include "tests/local_cluster.h"
#include "tests/model.h"

namespace coterie {
namespace {

// Few points make segments with indexes.
LocalClusterOptions Small(int32_t shards) {
  return {.shards = shards, .threads = 1, .tail_rows = 16, .index_rows = 16};
}

// The first `count` ids from `next` on that live on the shard.
std::vector<PointId> IdsOn(int32_t shard, int32_t shards, size_t count,
                           PointId next) {
  const std::vector<int32_t> owner = EvenPlacement(Served::kSlots, shards);
  std::vector<PointId> ids;
  for (; ids.size() < count; ++next) {
    const auto slot = static_cast<size_t>(SlotOf(next, Served::kSlots));
    if (owner[slot] == shard) ids.push_back(next);
  }
  return ids;
}

// vespa-engine/vespa#33878: each of five shards was asked for k, and all that
// they found was handed on. Forty points each, of which either all shards have
// some of the nearest, or one has them all.
TEST(ReportedSearch, FiveShardsTogetherReturnK) {
  constexpr int32_t kShards = 5;
  for (const bool dealt : {true, false}) {
    Served served(Metric::kSquaredL2, 1, kFaissGraph, Small(kShards));
    Rows rows;
    std::vector<PointId> by_place(200);
    for (int32_t shard = 0; shard < kShards; ++shard) {
      const std::vector<PointId> ids = IdsOn(shard, kShards, 40, 1);
      for (size_t i = 0; i < ids.size(); ++i) {
        const auto at = static_cast<size_t>(shard);
        by_place[dealt ? i * kShards + at : at * 40 + i] = ids[i];
      }
    }
    for (size_t place = 0; place < by_place.size(); ++place) {
      rows[by_place[place]] = {static_cast<float>(place)};
    }
    served.Write(rows);
    ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
    for (const ShardCollectionStats& shard : served.Describe().shards) {
      ASSERT_EQ(shard.points, 40);
    }
    for (const Way& way : served.ways()) {
      SCOPED_TRACE(absl::StrCat(way.name, ", dealt ", dealt));
      for (const int64_t k : {7, 1}) {
        const std::vector<PointId> found =
            served.IdsOf(served.Request({0}, k, way));
        EXPECT_EQ(found.size(), static_cast<size_t>(k));
        if (!way.exact) continue;
        EXPECT_EQ(found,
                  std::vector<PointId>(by_place.begin(), by_place.begin() + k));
      }
    }
  }
}

// qdrant/qdrant#5071: ids above 2^53 went through a double, so one was stored
// as the other, and neither was found again.
TEST(ReportedSearch, IdsAboveTwoToThe53rdAreTwoPoints) {
  constexpr PointId kOdd = 9007199254740993;
  constexpr PointId kEven = 9007199254740992;
  for (const PointId gone : {kOdd, kEven}) {
    const PointId left = gone == kOdd ? kEven : kOdd;
    Served served(Metric::kSquaredL2, 2, kFaissGraph, Small(2));
    Rows far;
    for (PointId id = 1; id <= 60; ++id) {
      far[id] = {-100, -static_cast<float>(id)};
    }
    served.Write(far);
    served.Write({{kOdd, {1, 2}}, {kEven, {3, 4}}});
    ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
    GetRequest get;
    get.collection = "c";
    get.ids = {kOdd, kEven};
    get.with_vectors = true;
    auto got = served.cluster().Get(get);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->points.size(), 2u);
    for (const Point& point : got->points) {
      EXPECT_EQ(point.vector, served.rows().at(point.id));
    }
    for (const Way& way : served.ways()) {
      if (!way.exact) continue;
      for (const PointId id : {kOdd, kEven}) {
        const std::vector<Neighbor> found =
            served.Search(served.Request(served.rows().at(id), 1, way));
        ASSERT_EQ(found.size(), 1u) << way.name;
        EXPECT_EQ(found[0], (Neighbor{id, 0})) << way.name;
      }
    }
    served.Erase({gone});
    got = served.cluster().Get(get);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_EQ(got->points.size(), 1u);
    EXPECT_EQ(got->points[0].id, left);
    EXPECT_EQ(got->missing, std::vector<PointId>{gone});
    EXPECT_EQ(*served.cluster().Count("c"), 61);
    for (const Way& way : served.ways()) {
      if (!way.exact) continue;
      EXPECT_EQ(served.IdsOf(served.Request({2, 3}, 1, way)),
                std::vector<PointId>{left})
          << way.name;
    }
  }
}

// nmslib/hnswlib#309: an id that was deleted and came back stayed hidden. While
// it is in no index yet, and while its first vector is in one.
TEST(ReportedSearch, AnIdThatComesBackIsAtItsNewPlaceOnly) {
  for (const bool indexed : {false, true}) {
    for (const char* factory : {kFaissGraph, kFaissLists, kFaissCodes}) {
      SCOPED_TRACE(absl::StrCat(factory, ", indexed ", indexed));
      Served served(Metric::kSquaredL2, 2, factory, Small(1));
      Rows rows = {{3, {1, 1}}};
      int64_t others = 0;
      for (PointId id = 100; indexed && id < 200; ++id, ++others) {
        rows[id] = {-500, -static_cast<float>(id)};
      }
      served.Write(rows);
      if (indexed) {
        ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
      }
      served.Erase({3});
      EXPECT_EQ(*served.cluster().Count("c"), others);
      served.Write({{3, {2, 2}}});
      EXPECT_EQ(*served.cluster().Count("c"), others + 1);
      for (const Way& way : served.ways()) {
        SCOPED_TRACE(way.name);
        for (const std::vector<float>& query :
             {std::vector<float>{2, 2}, {1, 1}}) {
          const std::vector<Neighbor> found =
              served.Search(served.Request(query, 5, way));
          ASSERT_FALSE(found.empty());
          EXPECT_EQ(found[0], (Neighbor{3, query[0] == 2 ? 0.0 : 2.0}));
          for (size_t i = 1; i < found.size(); ++i) {
            EXPECT_NE(found[i].id, 3u);
          }
        }
      }
    }
  }
}

// weaviate/weaviate#4945: deletions were undone after a return. There is one
// copy here, so: by a restart.
TEST(ReportedSearch, WhatWasDeletedStaysAwayAfterARestart) {
  Served served(Metric::kSquaredL2, 1, kFaissGraph, Small(3));
  Rows rows;
  for (PointId id = 1; id <= 12; ++id) rows[id] = {static_cast<float>(id)};
  served.Write(rows);
  served.Erase({1, 2, 3, 4, 5});
  served.cluster().Restart();
  EXPECT_EQ(*served.cluster().Count("c"), 7);
  for (const Way& way : served.ways()) {
    std::vector<PointId> found = served.IdsOf(served.Request({0}, 20, way));
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, (std::vector<PointId>{6, 7, 8, 9, 10, 11, 12}))
        << way.name;
  }
}

// lancedb/lancedb#511: a filter after the cut left few matches or none.
TEST(ReportedSearch, AFilterComesBeforeTheCut) {
  for (const char* factory : {kFaissGraph, kFaissLists, kFaissCodes}) {
    Served served(Metric::kSquaredL2, 1, factory, Small(4));
    std::vector<Point> points;
    for (PointId x = 1; x <= 100; ++x) {
      points.push_back({x, {static_cast<float>(x)}, {}});
      points.back().attributes["tag"] = std::string(x == 60 ? "red" : "blue");
    }
    ASSERT_TRUE(served.cluster().Upsert("c", points).ok());
    ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
    for (const Way& way : served.ways()) {
      SearchRequest request = served.Request({0}, 5, way);
      request.filter.must.push_back(
          MatchCondition{"tag", {std::string("red")}});
      EXPECT_EQ(served.IdsOf(request), std::vector<PointId>{60}) << way.name;
    }
  }
}

// stefankoegl/kdtree#10: the nearest lies on the other side of where a tree
// divides. The filler makes shards build indexes and is far away.
TEST(ReportedSearch, FindsNeighboursAcrossASplit) {
  Served served(Metric::kSquaredL2, 2);
  Rows rows;
  for (int i = 0; i < 600; ++i) {
    rows[static_cast<PointId>(1000 + i)] = {5e4f + static_cast<float>(i), 5e4f};
  }
  rows[1] = {0, 0};
  rows[2] = {6, 0};
  rows[3] = {12, 0};
  rows[4] = {6, 9};
  served.Write(rows);
  ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
  for (const Way& way : served.ways()) {
    if (!way.exact) continue;
    EXPECT_EQ(served.IdsOf(served.Request({6, 0}, 3, way)),
              (std::vector<PointId>{2, 1, 3}))
        << way.name;
  }
  served.Erase({4});
  served.Write({{1, {1, 5}}, {2, {2, 9}}, {3, {5.5f, 5}}});
  for (const Way& way : served.ways()) {
    if (!way.exact) continue;
    EXPECT_EQ(served.IdsOf(served.Request({4.9f, 5}, 1, way)),
              std::vector<PointId>{3})
        << way.name;
  }
}

// The same report: the points of {0..4}^3, most of them twice, so all ties.
TEST(ReportedSearch, OrdersAGridOfDuplicatesAsAScan) {
  Served served(Metric::kSquaredL2, 3);
  Rows rows;
  std::vector<std::vector<float>> grid;
  for (int i = 0; i < 125; ++i) {
    grid.push_back({static_cast<float>(i / 25), static_cast<float>(i / 5 % 5),
                    static_cast<float>(i % 5)});
    rows[static_cast<PointId>(1000 - i)] = grid.back();
    if (i < 75) rows[static_cast<PointId>(2000 + i)] = grid.back();
  }
  for (int i = 0; i < 400; ++i) {
    rows[static_cast<PointId>(5000 + i)] = {1e4f, static_cast<float>(i), 1e4f};
  }
  served.Write(rows);
  ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
  for (size_t i = 0; i < grid.size(); i += 8) {
    for (const int64_t k : {1, 2, 7, 20}) {
      for (const Way& way : served.ways()) {
        ASSERT_NO_FATAL_FAILURE(served.Check(grid[i], k, way));
      }
    }
  }
}

// qdrant/qdrant-client#1386: a score equal to the threshold counts, by each
// metric as it is reported.
TEST(ReportedSearch, CountsAScoreThatEqualsTheThreshold) {
  struct Case {
    Metric metric;
    std::vector<float> query;
    std::vector<float> point;
    double radius;
  };
  for (const Case& c : {Case{Metric::kCosine, {0, 3}, {0, 7}, 0.0},
                        Case{Metric::kInnerProduct, {2, 0}, {4, 0}, -8.0},
                        Case{Metric::kSquaredL2, {1, 1}, {2, 2}, 2.0}}) {
    Served served(c.metric, 2);
    Rows rows = {{7, c.point}};
    for (int i = 0; i < 500; ++i) {
      rows[static_cast<PointId>(100 + i)] = {-3, -1 - static_cast<float>(i)};
    }
    served.Write(rows);
    ASSERT_NO_FATAL_FAILURE(served.AwaitIndexes());
    for (const Way& way : served.ways()) {
      SearchRequest request = served.Request(c.query, 5, way);
      request.radius = c.radius;
      if (way.exact) {
        EXPECT_EQ(served.IdsOf(request), std::vector<PointId>{7}) << way.name;
      }
      request.radius = c.radius - 1e-9;
      EXPECT_TRUE(served.IdsOf(request).empty()) << way.name;
    }
  }
}

}  // namespace
}  // namespace coterie
