// A table of strategies, and a cluster with a collection that has all of their
// indexes beside a map of what it should hold. For
// tests/every_strategy_test.cc; belongs to one thread, but the cluster may be
// called from any.

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
};

inline const std::vector<Way>& Ways() {
  static const auto* const ways = new std::vector<Way>{
      {"scan", ExactStrategy(), true},
      {"tree", TreeStrategy(), true},
      {"tree for 0.8", TreeStrategy{0, 0, 0.8}, false},
      {"tree, one leaf", TreeStrategy{1, 0, 1}, false},
      {"lsh for all", LshStrategy{1, 0}, true},
      {"lsh for 0.8", LshStrategy{0.8, 0}, false},
      {"auto", AutoStrategy(), true},
      {"auto for 0.8", AutoStrategy{0.8}, false},
  };
  return *ways;
}

// All that they need.
inline std::vector<IndexSpec> Indexes() {
  return {{IndexKind::kTree},
          {IndexKind::kLsh, IndexSpec::kDefaultBytesPerRow,
           IndexSpec::kDefaultRecall}};
}

// A collection "c" with every index over three shards, and what it should hold.
class Served {
 public:
  Served(Metric metric, int32_t dimension)
      : metric_(metric),
        dimension_(dimension),
        random_(TestSeed(1)),
        cluster_(
            {.shards = 3, .threads = 1, .tail_rows = 64, .index_rows = 32}) {
    CollectionSpec spec;
    spec.name = "c";
    spec.dimension = dimension;
    spec.metric = metric;
    spec.slots = 12;
    spec.indexes = Indexes();
    const auto made = Await<CollectionSpec>([&](Done<CollectionSpec> done) {
      cluster_.coordinator().CreateCollection(spec, {}, std::move(done));
    });
    EXPECT_TRUE(made.ok()) << made.status();
  }

  LocalCluster& cluster() { return cluster_; }
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

  void AwaitIndexes() {
    const absl::Time deadline = absl::Now() + absl::Seconds(120);
    for (;;) {
      const auto described =
          Await<CollectionDescription>([&](Done<CollectionDescription> done) {
            cluster_.coordinator().GetCollection("c", {}, std::move(done));
          });
      ASSERT_TRUE(described.ok()) << described.status();
      bool ready = true;
      for (const ShardCollectionStats& shard : described->shards) {
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
    EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), NeighborLess));
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_NE(std::find(all.begin(), all.end(), found[i]), all.end())
          << "no such point at that distance: " << found[i].id;
      EXPECT_TRUE(i == 0 || found[i].id != found[i - 1].id);
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
    for (const Way& way : Ways()) {
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
  std::mt19937_64 random_;
  LocalCluster cluster_;
  Rows rows_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_EVERY_STRATEGY_H_
