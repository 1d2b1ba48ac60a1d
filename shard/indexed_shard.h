// A shard whose collection has indexes, and a map of what it should hold. For
// tests only; belongs to one thread, but searches of harness() may come from
// any.

#ifndef COTERIE_SHARD_INDEXED_SHARD_H_
#define COTERIE_SHARD_INDEXED_SHARD_H_

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"
#include "sync/mutex.h"

namespace coterie {

inline IndexSpec TreeSpec() { return {IndexKind::kTree}; }

inline IndexSpec LshSpec() {
  return {IndexKind::kLsh, IndexSpec::kDefaultBytesPerRow,
          IndexSpec::kDefaultRecall};
}

inline IndexSpec FaissSpec(std::string factory) {
  IndexSpec spec = {IndexKind::kFaiss};
  spec.target_recall = IndexSpec::kDefaultRecall;
  spec.factory = std::move(factory);
  return spec;
}

// A shard with collection "c", whose segments get indexes from 64 rows on, and
// a map of what it should hold.
class IndexedShard {
 public:
  using Points = std::map<PointId, std::vector<float>>;

  IndexedShard(int32_t dimension, Metric metric, std::vector<IndexSpec> indexes)
      : dimension_(dimension), metric_(metric), random_(TestSeed()) {
    harness_.options()->tail_rows = 512;
    harness_.options()->index_rows = 64;
    harness_.options()->threads = 2;
    harness_.options()->warn = [this](absl::string_view what) {
      MutexLock lock(&mutex_);
      warnings_.push_back(std::string(what));
    };
    spec_ = TestCollection("c", 1, dimension, metric, 8);
    spec_.indexes = std::move(indexes);
  }

  void Open() {
    harness_.Open();
    ASSERT_TRUE(harness_.PutCatalogue(0, TestCatalogue(1, {spec_})).ok());
  }

  ShardHarness& harness() { return harness_; }
  Points& points() { return points_; }
  Random& random() { return random_; }

  void Write(std::vector<Point> upserts, std::vector<PointId> deletes = {}) {
    for (const PointId id : deletes) points_.erase(id);
    for (const Point& point : upserts) points_[point.id] = point.vector;
    const auto reply = harness_.Write(std::move(upserts), std::move(deletes));
    ASSERT_TRUE(reply.ok()) << reply.status();
  }

  // Points of small whole numbers, with many ties, ids spread over all.
  void WriteRandom(int64_t count) {
    while (count > 0) {
      std::vector<Point> upserts(
          static_cast<size_t>(std::min<int64_t>(count, 512)));
      count -= static_cast<int64_t>(upserts.size());
      for (Point& point : upserts) {
        point.id = random_();
        point.vector = RandomVector(dimension_, random_);
      }
      Write(std::move(upserts));
    }
  }

  IndexState State(size_t i = 0) { return harness_.Stats()->indexes.at(i); }

  // Until every segment that is large enough has its indexes.
  void AwaitIndexes() {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (;;) {
      const auto stats = harness_.Stats();
      ASSERT_TRUE(stats.ok()) << stats.status();
      const bool ready = std::all_of(
          stats->indexes.begin(), stats->indexes.end(),
          [](const IndexState& state) {
            return state.segments > 0 && state.segments_ready == state.segments;
          });
      // A tail that is full becomes a segment.
      if (ready && stats->tail_rows < 512) return;
      ASSERT_LT(absl::Now(), deadline)
          << stats->indexes.at(0).segments_ready << " of "
          << stats->indexes.at(0).segments << ": " << stats->indexes.at(0).note;
      std::this_thread::yield();
    }
  }

  // Then, until the files are those of the segments and their indexes.
  void AwaitFiles() {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (;;) {
      // Those that are too small for indexes are among them.
      const int64_t segments = harness_.Stats()->sealed_segments;
      if (Counted(".seg") == segments && HasFilesOf(State().segments) &&
          harness_.Describe().segment_files.in_use == segments) {
        return;
      }
      ASSERT_LT(absl::Now(), deadline)
          << segments << " segments; files: " << Counted(".seg") << " .seg, "
          << Counted(".tree") << " .tree, " << Counted(".lsh") << " .lsh, "
          << Counted(".faiss") << " .faiss";
      std::this_thread::yield();
    }
  }

  SearchRequest Request(int64_t k, const Strategy& strategy) {
    SearchRequest request = SearchFor(RandomVector(dimension_, random_), k);
    for (int i = 0; i < 4; ++i) {
      request.queries.push_back(RandomVector(dimension_, random_));
    }
    request.strategy = strategy;
    request.profile = true;
    return request;
  }

  std::vector<Neighbor> Expected(const SearchRequest& request, size_t query) {
    return CanonicalSearch(metric_, points_,
                           std::get<std::vector<float>>(request.queries[query]),
                           request.k, request.radius);
  }

  // Answers are those of a scan, and say so.
  void ExpectExact(const SearchRequest& request) {
    const auto reply = harness_.Search(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    for (size_t q = 0; q < request.queries.size(); ++q) {
      std::vector<Neighbor> found;
      for (const Hit& hit : reply->results[q]) found.push_back(hit.neighbor);
      EXPECT_EQ(found, Expected(request, q)) << reply->times.plan;
      const QueryAccount& account = reply->accounts[q];
      EXPECT_EQ(account.unseen, 0);
      EXPECT_EQ(account.evaluated + account.ruled_out, reply->rows_live);
    }
    EXPECT_EQ(reply->rows_live, static_cast<int64_t>(points_.size()));
  }

  // Every row is accounted for, every hit is a point at its true distance, in
  // order and once. The mean recall.
  double ExpectSound(const SearchRequest& request) {
    const auto reply = harness_.Search(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (!reply.ok()) return 0;
    double recall = 0;
    for (size_t q = 0; q < request.queries.size(); ++q) {
      SearchRequest all = request;
      all.k = static_cast<int64_t>(points_.size());
      std::map<PointId, double> distances;
      for (const Neighbor& n : Expected(all, q)) distances[n.id] = n.distance;
      const std::vector<Neighbor> expected = Expected(request, q);
      const std::vector<Hit>& hits = reply->results[q];
      int64_t found = 0;
      for (size_t i = 0; i < hits.size(); ++i) {
        const Neighbor& hit = hits[i].neighbor;
        EXPECT_TRUE(distances.contains(hit.id)) << "dead or unknown " << hit.id;
        EXPECT_EQ(distances[hit.id], hit.distance);
        EXPECT_TRUE(i == 0 || NeighborLess(hits[i - 1].neighbor, hit));
        if (hit.distance <= expected.back().distance) ++found;
      }
      EXPECT_LE(hits.size(), expected.size());
      const QueryAccount& account = reply->accounts[q];
      EXPECT_EQ(account.evaluated + account.ruled_out + account.unseen,
                reply->rows_live);
      recall += expected.empty() ? 1
                                 : static_cast<double>(found) /
                                       static_cast<double>(expected.size());
    }
    return recall / static_cast<double>(request.queries.size());
  }

  std::string PlanOf(const SearchRequest& request) {
    const auto reply = harness_.Search(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->times.plan : "";
  }

  // The files whose names end so.
  std::vector<std::filesystem::path> Files(const std::string& end) const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(
             absl::StrCat(harness_.path(), "/store/segments"))) {
      if (absl::EndsWith(entry.path().string(), end)) {
        files.push_back(entry.path());
      }
    }
    return files;
  }

  int64_t Counted(const std::string& end) const {
    return static_cast<int64_t>(Files(end).size());
  }

  bool Warned(const std::string& part) {
    MutexLock lock(&mutex_);
    return std::any_of(warnings_.begin(), warnings_.end(),
                       [&](const std::string& warning) {
                         return absl::StrContains(warning, part);
                       });
  }

 private:
  // One of each index for each segment.
  bool HasFilesOf(int64_t segments) const {
    return std::all_of(
        spec_.indexes.begin(), spec_.indexes.end(),
        [&](const IndexSpec& index) {
          return Counted(absl::StrCat(".", IndexKindName(index.kind))) ==
                 segments;
        });
  }

  const int32_t dimension_;
  const Metric metric_;
  Random random_;
  CollectionSpec spec_;
  Points points_;
  Mutex mutex_;
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
  ShardHarness harness_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_INDEXED_SHARD_H_
