#include "coordinator/scan_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "api/status_details.h"
#include "coordinator/fake_cluster.h"

namespace coterie {
namespace {

// All pages of a scan, or the first error.
absl::StatusOr<std::vector<PointId>> ScanAll(PointStream* stream) {
  std::vector<PointId> ids;
  for (;;) {
    auto page = Wait<ScanPage>(
        [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
    if (!page.ok()) {
      return page.status();
    }
    for (const Point& point : page->points) {
      ids.push_back(point.id);
    }
    if (page->end) {
      return ids;
    }
  }
}

absl::StatusOr<std::vector<PointId>> ScanAll(FakeCluster& cluster,
                                             ScanRequest request,
                                             CallContext call = {}) {
  request.collection = "c";
  return ScanAll(cluster.coordinator->Scan(request, call).get());
}

std::vector<PointId> Sorted(std::vector<PointId> ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

class ScanTest : public ::testing::Test {
 protected:
  void Fill(FakeCluster* cluster, int64_t n, int32_t slots = kDefaultSlots) {
    ASSERT_TRUE(cluster->Create("c", 1, Metric::kSquaredL2, slots).ok());
    std::mt19937_64 random(TestSeed());
    const std::vector<Point> points = RandomPoints(n, 1, &random);
    for (const Point& point : points) {
      ids_.push_back(point.id);
    }
    if (n > 0) {
      ASSERT_TRUE(cluster->Upsert("c", points).ok());
    }
  }
  std::vector<PointId> ids_;  // sorted
};

TEST_F(ScanTest, ReadsEveryPointOfEveryShardOnce) {
  for (int32_t shards : {1, 2, 3, 8}) {
    ids_.clear();
    FakeCluster cluster(shards);
    Fill(&cluster, 57);
    auto scanned = ScanAll(cluster, {});
    ASSERT_TRUE(scanned.ok()) << scanned.status();
    EXPECT_EQ(Sorted(*scanned), ids_);
    for (int32_t i = 0; i < shards; ++i) {
      EXPECT_EQ(cluster.shard(i).open_scans(), 0);
    }
  }
}

TEST_F(ScanTest, EmptyShardsAndCollectionsEnd) {
  FakeCluster few(8);  // one slot: seven shards have none
  Fill(&few, 5, 1);
  EXPECT_EQ(Sorted(*ScanAll(few, {})), ids_);

  FakeCluster none(3);
  ASSERT_TRUE(none.Create("c", 1).ok());
  auto scanned = ScanAll(none, {});
  ASSERT_TRUE(scanned.ok());
  EXPECT_TRUE(scanned->empty());
}

TEST_F(ScanTest, SlicesPartitionTheCollection) {
  FakeCluster cluster(3);
  Fill(&cluster, 80);
  std::vector<PointId> all;
  for (int32_t slice = 0; slice < 5; ++slice) {
    ScanRequest request;
    request.slice = slice;
    request.slices = 5;
    auto part = ScanAll(cluster, request);
    ASSERT_TRUE(part.ok());
    all.insert(all.end(), part->begin(), part->end());
  }
  EXPECT_EQ(Sorted(all), ids_);
}

TEST_F(ScanTest, TheLimitIsOfTheWholeScan) {
  FakeCluster cluster(3);
  Fill(&cluster, 30);
  for (int64_t limit : {1, 2, 7, 29, 30, 31}) {
    ScanRequest request;
    request.limit = limit;
    auto scanned = ScanAll(cluster, request);
    ASSERT_TRUE(scanned.ok());
    EXPECT_EQ(static_cast<int64_t>(scanned->size()),
              std::min<int64_t>(limit, 30));
  }
}

TEST_F(ScanTest, TheShardThatReachesTheLimitIsTheLastAsked) {
  FakeCluster cluster(2);
  Fill(&cluster, 30);
  ScanRequest request;
  request.limit = cluster.shard(0).points("c");
  ASSERT_GT(request.limit, 0);
  auto scanned = ScanAll(cluster, request);
  ASSERT_TRUE(scanned.ok());
  EXPECT_EQ(static_cast<int64_t>(scanned->size()), request.limit);
  EXPECT_EQ(cluster.shard(1).calls("Scan"), 0);
}

TEST_F(ScanTest, AShardThatHasEndedIsLetGoOf) {
  FakeCluster cluster(2);
  Fill(&cluster, 30);
  ScanRequest request;
  request.collection = "c";
  auto stream = cluster.coordinator->Scan(request, {});
  while (cluster.shard(1).calls("Scan") == 0) {
    ASSERT_TRUE(Wait<ScanPage>([&](Done<ScanPage> done) {
                  stream->Next(std::move(done));
                }).ok());
  }
  EXPECT_EQ(cluster.shard(0).open_scans(), 0);
  EXPECT_EQ(cluster.shard(1).open_scans(), 1);
}

TEST_F(ScanTest, AFilterReachesTheShards) {
  FakeCluster cluster(3);
  Fill(&cluster, 40);
  ScanRequest request;
  request.filter.must.push_back(MatchCondition{"parity", {int64_t{1}}});
  auto scanned = ScanAll(cluster, request);
  ASSERT_TRUE(scanned.ok());
  std::vector<PointId> odd;
  for (PointId id : ids_) {
    if (id % 2 == 1) {
      odd.push_back(id);
    }
  }
  EXPECT_EQ(Sorted(*scanned), odd);
}

TEST_F(ScanTest, ErrorsArriveByNextAndNameTheShard) {
  FakeCluster cluster(3);
  Fill(&cluster, 30);
  cluster.shard(1).Fail("Next", absl::UnavailableError("gone"));
  EXPECT_EQ(ShardOf(ScanAll(cluster, {}).status()), 1);
  EXPECT_EQ(cluster.shard(2).calls("Scan"), 0);

  ScanRequest unknown;
  unknown.collection = "nope";
  EXPECT_EQ(
      ScanAll(cluster.coordinator->Scan(unknown, {}).get()).status().code(),
      absl::StatusCode::kNotFound);
  ScanRequest slice;
  slice.slice = 2;
  slice.slices = 2;
  EXPECT_EQ(ScanAll(cluster, slice).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ScanTest, CancellationEndsItAtTheNextPage) {
  FakeCluster cluster(2);
  Fill(&cluster, 30);
  auto token = std::make_shared<CancelToken>();
  CallContext call;
  call.cancel = token;
  ScanRequest request;
  request.collection = "c";
  auto stream = cluster.coordinator->Scan(request, call);
  auto next = [&] {
    return Wait<ScanPage>(
        [&](Done<ScanPage> done) { stream->Next(std::move(done)); });
  };
  EXPECT_TRUE(next().ok());
  token->Cancel();
  EXPECT_EQ(next().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cluster.shard(0).calls("Next"), 1);
}

TEST_F(ScanTest, DestroyingItEndsTheShardsScanEvenInTheMiddleOfAPage) {
  FakeCluster cluster(2);
  Fill(&cluster, 30);
  ScanRequest request;
  request.collection = "c";
  auto stream = cluster.coordinator->Scan(request, {});
  cluster.shard(0).Hold("Next");
  Outcome<ScanPage> outcome;
  stream->Next(outcome.done());
  EXPECT_EQ(cluster.shard(0).open_scans(), 1);
  stream.reset();
  cluster.shard(0).Release();
  EXPECT_TRUE(outcome.Wait().ok());
  EXPECT_EQ(cluster.shard(0).open_scans(), 0);
}

}  // namespace
}  // namespace coterie
