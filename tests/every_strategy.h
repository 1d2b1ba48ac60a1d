// A table of strategies, and a cluster with a collection that has all of their
// indexes beside a map of what it should hold. For
// tests/every_strategy_test.cc and tests/reported_search_test.cc; belongs to
// one thread, but the cluster may be called from any.

#ifndef COTERIE_TESTS_EVERY_STRATEGY_H_
#define COTERIE_TESTS_EVERY_STRATEGY_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/collection.h"
#include "api/search.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"
#include "tests/model.h"

namespace coterie {

struct Way {
  const char* name;
  Strategy strategy;
  bool exact;
  bool full = false;  // finds k where there are k
  // In the plan of a shard that looks into its index; empty: no word for it.
  const char* plan = "";
};

// FAISS's kinds, of which a collection has one: small enough for segments of a
// test.
inline constexpr const char* kFaissGraph = "HNSW32";
inline constexpr const char* kFaissLists = "IVF4,Flat";
inline constexpr const char* kFaissCodes = "IVF4,PQ1x4";

// Those of an index of FAISS; a graph stands beside all other kinds.
inline std::vector<Way> Ways(const std::string& factory) {
  const bool graph = factory == kFaissGraph;
  std::vector<Way> ways = {
      {"auto", AutoStrategy(), true},
      {"auto for 0.8", AutoStrategy{0.8}, false},
      {"faiss for all", FaissStrategy{1, 0, 0, 0}, true},
      {"faiss for 0.8", FaissStrategy{0.8, 0, 0, 0}, false, true}};
  const auto add = [&](const char* name, int64_t effort, int64_t candidates) {
    const FaissStrategy strategy =
        graph ? FaissStrategy{0, 0, effort, candidates}
              : FaissStrategy{0, effort, 0, candidates};
    ways.push_back(
        {name, strategy, false, true, graph ? "ef_search" : "nprobe"});
  };
  add("faiss, least effort", 1, 1);
  add("faiss, some effort", graph ? 24 : 2, 12);
  if (!graph) return ways;
  for (const Way& way :
       {Way{"scan", ExactStrategy(), true},
        {"tree", TreeStrategy(), true, false, "tree of "},
        {"tree for 0.8", TreeStrategy{0, 0, 0.8}, false},
        {"tree, one leaf", TreeStrategy{1, 0, 1}, false, false, "tree of "},
        {"lsh for all", LshStrategy{1, 0}, true},
        {"lsh for 0.8", LshStrategy{0.8, 0}, false, false, "lsh of "}}) {
    ways.push_back(way);
  }
  return ways;
}

// All that they need.
inline std::vector<IndexSpec> Indexes(const std::string& factory) {
  const IndexSpec faiss = {IndexKind::kFaiss, 0, IndexSpec::kDefaultRecall,
                           factory};
  if (factory != kFaissGraph) return {faiss};
  return {{IndexKind::kTree},
          {IndexKind::kLsh, IndexSpec::kDefaultBytesPerRow,
           IndexSpec::kDefaultRecall},
          faiss};
}

// A collection "c" with every index over three shards, and what it should hold.
class Served {
 public:
  static constexpr int32_t kSlots = 60;
  static LocalClusterOptions Three() {
    return {.shards = 3, .threads = 1, .tail_rows = 64, .index_rows = 32};
  }

  Served(Metric metric, int32_t dimension,
         const std::string& factory = kFaissGraph,
         LocalClusterOptions options = Three())
      : metric_(metric),
        dimension_(dimension),
        ways_(Ways(factory)),
        random_(TestSeed(1)),
        cluster_(options) {
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = dimension;
    spec.metric = metric;
    spec.slots = kSlots;
    spec.indexes = Indexes(factory);
    const auto made = Await<CollectionSpec>([&](Done<CollectionSpec> done) {
      cluster_.coordinator().CreateCollection(spec, {}, std::move(done));
    });
    EXPECT_TRUE(made.ok()) << made.status();
  }

  LocalCluster& cluster() { return cluster_; }
  const std::vector<Way>& ways() const { return ways_; }
  const Rows& rows() const { return rows_; }
  std::mt19937_64& random() { return random_; }

  // Again while shards say that they have too much to seal.
  void Write(const Rows& rows) {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    auto reply = cluster_.Upsert("c", ToPoints(rows));
    while (absl::IsResourceExhausted(reply.status()) &&
           absl::Now() < deadline) {
      std::this_thread::yield();
      reply = cluster_.Upsert("c", ToPoints(rows));
    }
    ASSERT_TRUE(reply.ok()) << reply.status();
    for (const auto& [id, row] : rows) rows_[id] = row;
  }
  void Erase(const std::vector<PointId>& ids) {
    ASSERT_TRUE(cluster_.Delete("c", ids).ok());
    for (const PointId id : ids) rows_.erase(id);
  }
  // Enough for indexes on every shard, then until they are there.
  void Fill() {
    ASSERT_NO_FATAL_FAILURE(Write(HardRows(800, dimension_, random_)));
    ASSERT_NO_FATAL_FAILURE(AwaitIndexes());
  }

  CollectionDescription Describe() {
    const auto described =
        Await<CollectionDescription>([&](Done<CollectionDescription> done) {
          cluster_.coordinator().GetCollection("c", {}, std::move(done));
        });
    EXPECT_TRUE(described.ok()) << described.status();
    return described.ok() ? *described : CollectionDescription();
  }

  void AwaitIndexes() {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    for (;;) {
      const CollectionDescription described = Describe();
      bool ready = !described.shards.empty();
      for (const ShardCollectionStats& shard : described.shards) {
        for (const IndexState& index : shard.indexes) {
          ready = ready && index.segments > 0 &&
                  index.segments_ready == index.segments;
        }
      }
      if (ready) return;
      ASSERT_LT(absl::Now(), deadline) << "indexes are not built";
      std::this_thread::yield();
    }
  }

  SearchRequest Request(std::vector<float> query, int64_t k, const Way& way) {
    SearchRequest request;
    request.collection = "c";
    request.queries.emplace_back(std::move(query));
    request.k = k;
    request.strategy = way.strategy;
    return request;
  }

  std::vector<Neighbor> Search(const SearchRequest& request) {
    const auto reply = cluster_.Search(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    std::vector<Neighbor> found;
    if (!reply.ok()) return found;
    for (const Hit& hit : reply->results.at(0).hits) {
      found.push_back(hit.neighbor);
    }
    return found;
  }

  std::vector<PointId> IdsOf(const SearchRequest& request) {
    std::vector<PointId> ids;
    for (const Neighbor& n : Search(request)) ids.push_back(n.id);
    return ids;
  }

  void Check(const std::vector<float>& query, int64_t k, const Way& way) {
    SCOPED_TRACE(absl::StrCat(way.name, ", k = ", k));
    const auto reply = cluster_.Search(Request(query, k, way));
    ASSERT_TRUE(reply.ok()) << reply.status();
    const SearchReply::Result& result = reply->results.at(0);
    std::vector<Neighbor> found;
    for (const Hit& hit : result.hits) found.push_back(hit.neighbor);
    const std::vector<Neighbor> all =
        ModelSearch(rows_, metric_, query,
                    std::max<int64_t>(1, static_cast<int64_t>(rows_.size())));
    const auto most = std::min<size_t>(static_cast<size_t>(k), all.size());
    if (way.exact) {
      EXPECT_TRUE(result.exact) << reply->certificate.withheld;
      EXPECT_EQ(found, std::vector<Neighbor>(all.begin(), all.begin() + most));
      return;
    }
    EXPECT_LE(found.size(), most);
    if (way.full) {
      EXPECT_EQ(found.size(), most);
    }
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), NeighborLess));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NE(std::find(all.begin(), all.end(), found[i]), all.end())
          << "no such point at that distance: " << found[i].id;
      EXPECT_TRUE(i == 0 || found[i].id != found[i - 1].id);
    }
  }

  // Until a shard looks where it is told: a merge may have dropped an index.
  void AwaitPlan(const Way& way) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    SearchRequest request = Request(rows_.begin()->second, 1, way);
    request.profile = true;
    for (std::string plans; !absl::StrContains(plans, way.plan);) {
      ASSERT_LT(absl::Now(), deadline) << way.name << ": " << plans;
      const auto reply = cluster_.Search(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      plans.clear();
      for (const auto& [shard, times] : reply->shard_times) {
        absl::StrAppend(&plans, times.plan, "\n");
      }
    }
  }

  // By every way, from a stored row and from elsewhere, for few and for all.
  void CheckAll() {
    std::vector<std::vector<float>> queries;
    for (const auto& [id, row] : HardRows(2, dimension_, random_)) {
      queries.push_back(row);
    }
    if (!rows_.empty()) queries.push_back(rows_.begin()->second);
    const auto n = static_cast<int64_t>(rows_.size());
    for (const Way& way : ways_) {
      for (const std::vector<float>& query : queries) {
        for (const int64_t k : {int64_t{1}, int64_t{7}, n + 5}) {
          ASSERT_NO_FATAL_FAILURE(Check(query, k, way));
        }
      }
    }
  }

 private:
  const Metric metric_;
  const int32_t dimension_;
  const std::vector<Way> ways_;
  std::mt19937_64 random_;
  LocalCluster cluster_;
  Rows rows_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_EVERY_STRATEGY_H_
