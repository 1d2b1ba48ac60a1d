#include "shard/shard.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "shard/record_codec.h"
#include "shard/record_store.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

Point At(PointId id, std::vector<float> vector) {
  return {id, std::move(vector), {}};
}

// The id nearest to a query.
PointId Nearest(ShardHarness* harness, std::vector<float> query) {
  const auto reply = harness->Search(SearchFor(std::move(query), 1));
  EXPECT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->results[0].size(), 1u);
  return reply->results[0][0].neighbor.id;
}

// --- Points -----------------------------------------------------------------

TEST(Shard, KeepsIdsThatDoublesCannotTellApart) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  constexpr PointId kOdd = 9007199254740993;
  constexpr PointId kEven = 9007199254740992;
  ASSERT_TRUE(shard
                  ->Write({At(kOdd, {1}), At(kEven, {2}), At(0, {3}),
                           At(~uint64_t{0}, {4})})
                  .ok());
  EXPECT_EQ(Nearest(shard.get(), {1}), kOdd);
  EXPECT_EQ(Nearest(shard.get(), {2}), kEven);
  EXPECT_EQ(Nearest(shard.get(), {3}), 0u);
  EXPECT_EQ(Nearest(shard.get(), {4}), ~uint64_t{0});
  EXPECT_EQ(shard->Write({}, {kOdd})->deleted, 1);
  const auto left = shard->Get({kOdd, kEven});
  ASSERT_EQ(left->points.size(), 1u);
  EXPECT_EQ(left->points[0].id, kEven);
  EXPECT_EQ(left->points[0].vector, std::vector<float>{2});
  EXPECT_EQ(left->missing, std::vector<PointId>{kOdd});
}

TEST(Shard, ShowsAnIdThatIsAddedAgainAfterItWasDeleted) {
  const auto shard = OpenWithCollection(2, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(3, {1, 1})}).ok());
  ASSERT_TRUE(shard->Write({}, {3}).ok());
  EXPECT_EQ(shard->Count().value(), 0);
  ASSERT_TRUE(shard->Write({At(3, {2, 2})}).ok());
  const auto reply = shard->Search(SearchFor({2, 2}, 5));
  ASSERT_EQ(IdsOf(reply->results[0]), std::vector<PointId>{3});
  EXPECT_EQ(reply->results[0][0].neighbor.distance, 0);
  EXPECT_EQ(shard->Count().value(), 1);
}

TEST(Shard, AnUpdateReplacesVectorAndAllAttributes) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({{1, {1}, {{"a", true}, {"b", true}}}}).ok());
  ASSERT_TRUE(shard->Write({{1, {5}, {{"c", int64_t{2}}}}}).ok());
  const auto reply = shard->Get({1});
  ASSERT_EQ(reply->points.size(), 1u);
  EXPECT_EQ(reply->points[0].vector, std::vector<float>{5});
  EXPECT_EQ(reply->points[0].attributes, (Attributes{{"c", int64_t{2}}}));
  EXPECT_EQ(shard->Count().value(), 1);
}

TEST(Shard, TheLastOfEqualIdsInABatchCounts) {
  const auto shard = OpenWithCollection(2, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(7, {0, 0}), At(7, {9, 9})}).ok());
  const auto reply = shard->Search(SearchFor({0, 0}, 5));
  ASSERT_EQ(IdsOf(reply->results[0]), std::vector<PointId>{7});
  EXPECT_EQ(reply->results[0][0].neighbor.distance, 162);
  EXPECT_EQ(shard->Count().value(), 1);
  EXPECT_EQ(shard->Write({At(7, {1, 1})}, {7})->deleted, 1)
      << "deletes follow upserts";
  EXPECT_EQ(shard->Count().value(), 0);
}

TEST(Shard, ABadVectorRefusesItsBatchWholeAndIsNamed) {
  const auto shard = OpenWithCollection(2, Metric::kCosine);
  const std::vector<std::vector<float>> bad = {
      {NAN, 1}, {INFINITY, 0}, {0, 0}, {1}, {1, 2, 3}};
  for (const auto& vector : bad) {
    const absl::Status status =
        shard->Write({At(1, {1, 2}), At(2, vector), At(3, {1, 1})}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(FieldOf(status), "points[1].vector");
    EXPECT_EQ(shard->Count().value(), 0);
  }
}

TEST(Shard, SelectsAttributes) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({{1, {1}, {{"a", true}, {"b", false}}}}).ok());
  SearchRequest request = SearchFor({1}, 1);
  request.with_attributes.names = {"b", "absent"};
  const auto reply = shard->Search(request);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->results[0][0].attributes, (Attributes{{"b", false}}));
  EXPECT_TRUE(reply->results[0][0].vector.empty());
}

// --- What a reply says about the shard --------------------------------------

TEST(Shard, AWriteIsVisibleToTheNextSearchAtItsSequence) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  for (int64_t i = 1; i <= 20; ++i) {
    const auto written = shard->Write({At(static_cast<PointId>(i), {1})});
    ASSERT_TRUE(written.ok());
    const auto reply = shard->Search(SearchFor({1}, 100));
    EXPECT_EQ(reply->sequence, written->sequence);
    EXPECT_EQ(reply->rows_live, i);
    EXPECT_EQ(reply->catalogue_version, 1);
    EXPECT_EQ(reply->shard_id, 0);
  }
}

TEST(Shard, AnEmptyWriteChangesNothing) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(1, {1})}).ok());
  const auto reply = shard->Write({});
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->sequence, 1);
  EXPECT_EQ(shard->Describe().sequence, 1);
}

TEST(Shard, DescribesItself) {
  const auto shard = OpenWithCollection(2, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(1, {1, 1}), At(2, {1, 1})}, {2}).ok());
  shard->Reopen();
  const ShardDescription description = shard->Describe();
  EXPECT_EQ(description.cluster_uuid, "cluster");
  EXPECT_EQ(description.shards_total, 1);
  EXPECT_EQ(description.incarnation, 2);
  EXPECT_EQ(description.catalogue_version, 1);
  EXPECT_EQ(description.points, 1);
  EXPECT_EQ(description.queue_capacity, 256);
  EXPECT_EQ(description.threads, 1);
  EXPECT_EQ(description.reason, "");
  EXPECT_GT(description.memory_bytes, 0);
  const auto stats = shard->Stats();
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->points, 1);
  EXPECT_EQ(stats->dead_rows, 0);
  EXPECT_EQ(stats->sealed_segments, 1) << "loaded rows are sealed";
  EXPECT_EQ(stats->tail_rows, 0);
  EXPECT_EQ(stats->slots, 8);
  EXPECT_EQ(stats->sequence, 1);
}

TEST(Shard, RefusesSearchesInAnUnknownCollection) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  SearchRequest request = SearchFor({1}, 1);
  request.collection = "other";
  EXPECT_TRUE(absl::IsNotFound(shard->Search(request).status()));
  EXPECT_TRUE(absl::IsNotFound(shard->Write({}, {}, "other").status()));
  ScanRequest scan = WholeScan();
  scan.collection = "other";
  EXPECT_TRUE(absl::IsNotFound(shard->ScanAll(scan).status()));
}

TEST(Shard, BoundsTheBytesOfAReply) {
  ShardHarness shard;
  shard.options()->limits.message_bytes = 1000;
  shard.Open();
  ASSERT_TRUE(
      shard
          .PutCatalogue(
              0, TestCatalogue(
                     1, {TestCollection("c", 1, 100, Metric::kSquaredL2, 1)}))
          .ok());
  ASSERT_TRUE(shard
                  .Write({At(1, std::vector<float>(100, 1)),
                          At(2, std::vector<float>(100, 1)),
                          At(3, std::vector<float>(100, 1))})
                  .ok());
  EXPECT_TRUE(shard.Get({1, 2}).ok());
  const absl::Status status = shard.Get({1, 2, 3}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "message_bytes")) << status;
}

// --- Slots ------------------------------------------------------------------

TEST(Shard, RefusesPointsOfOtherShardsNamingIdSlotAndOwner) {
  ShardHarness shard;
  shard.options()->shards_total = 3;
  shard.Open();
  CollectionSpec spec = TestCollection("c", 1, 1, Metric::kSquaredL2, 4);
  spec.owner = {0, 1, 2, 0};
  ASSERT_TRUE(shard.PutCatalogue(0, TestCatalogue(1, {spec})).ok());
  PointId foreign = 0;
  while (SlotOf(foreign, 4) != 2) ++foreign;
  const absl::Status status = shard.Write({At(foreign, {1})}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(
      status.message(), absl::StrCat("point ", foreign,
                                     " of collection 'c' is "
                                     "in slot 2, which belongs to shard 2")))
      << status;
  EXPECT_TRUE(absl::IsFailedPrecondition(shard.Write({}, {foreign}).status()));
  EXPECT_EQ(shard.Search(SearchFor({1}, 1))->slots.size(), 2u);
}

TEST(Shard, SlicesOfAllShardsAreDisjointAndComplete) {
  constexpr int32_t kShards = 3;
  constexpr int32_t kSlots = 10;
  constexpr PointId kPoints = 500;
  for (const int32_t slices : {1, 2, 3, 7, 64}) {
    std::multiset<PointId> scanned;
    for (int32_t id = 0; id < kShards; ++id) {
      ShardHarness shard;
      shard.options()->shard_id = id;
      shard.options()->shards_total = kShards;
      shard.Open();
      CollectionSpec spec =
          TestCollection("c", 1, 1, Metric::kSquaredL2, kSlots);
      spec.owner = EvenPlacement(kSlots, kShards);
      ASSERT_TRUE(shard.PutCatalogue(0, TestCatalogue(1, {spec})).ok());
      std::vector<Point> mine;
      for (PointId point = 0; point < kPoints; ++point) {
        if (spec.owner[static_cast<size_t>(SlotOf(point, kSlots))] == id) {
          mine.push_back(At(point, {1}));
        }
      }
      ASSERT_TRUE(shard.Write(mine).ok());
      ScanRequest request = WholeScan();
      request.slices = slices;
      for (request.slice = 0; request.slice < slices; ++request.slice) {
        const auto points = shard.ScanAll(request);
        ASSERT_TRUE(points.ok()) << points.status();
        for (const Point& point : *points) scanned.insert(point.id);
      }
    }
    ASSERT_EQ(scanned.size(), kPoints) << slices;
    ASSERT_EQ(std::set<PointId>(scanned.begin(), scanned.end()).size(), kPoints)
        << slices;
  }
}

// --- Scans ------------------------------------------------------------------

TEST(Shard, AScanStaysAtItsSequence) {
  ShardHarness shard;
  shard.options()->limits.scan_page_bytes = 30;  // two points
  shard.Open();
  ASSERT_TRUE(
      shard
          .PutCatalogue(
              0, TestCatalogue(
                     1, {TestCollection("c", 1, 1, Metric::kSquaredL2, 4)}))
          .ok());
  std::vector<Point> points;
  for (PointId id = 0; id < 9; ++id) points.push_back(At(id, {1}));
  ASSERT_TRUE(shard.Write(points).ok());
  const auto scanner = shard->Scan(WholeScan(), {});
  ASSERT_TRUE(shard.Write({At(100, {1}), At(3, {7})}, {0, 8}).ok());
  std::map<PointId, float> seen;
  size_t pages = 0;
  for (bool end = false; !end; ++pages) {
    Answer<ScanPage> answer;
    scanner->Next(answer.done());
    const auto page = answer.Wait();
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->points.size(), 2u);
    for (const Point& point : page->points) seen[point.id] = point.vector[0];
    end = page->end;
    ASSERT_TRUE(shard.Write({At(200 + pages, {1})}).ok());
  }
  EXPECT_GE(pages, 5u);
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_EQ(seen[3], 1) << "the vector of then";
  EXPECT_EQ(seen.count(100), 0u);
}

TEST(Shard, AScanOutlivesItsCollection) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(1, {1}), At(2, {2})}).ok());
  const auto scanner = (*shard)->Scan(WholeScan(), {});
  Catalogue empty;
  empty.version = 2;
  empty.next_number = 2;
  ASSERT_TRUE(shard->PutCatalogue(1, empty).ok());
  Answer<ScanPage> answer;
  scanner->Next(answer.done());
  const auto page = answer.Wait();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->points.size(), 2u);
}

TEST(Shard, AScanEndsAtItsLimit) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  std::vector<Point> points;
  for (PointId id = 0; id < 30; ++id) points.push_back(At(id, {1}));
  ASSERT_TRUE(shard->Write(points).ok());
  ScanRequest request = WholeScan();
  request.limit = 11;
  request.with_vectors = false;
  const auto scanned = shard->ScanAll(request);
  ASSERT_TRUE(scanned.ok());
  EXPECT_EQ(scanned->size(), 11u);
  EXPECT_TRUE((*scanned)[0].vector.empty());
}

TEST(Shard, RefusesSlicesThatDoNotExist) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  for (const auto& [slice, slices] : std::vector<std::pair<int32_t, int32_t>>{
           {-1, 2}, {2, 2}, {0, 0}, {0, -1}}) {
    ScanRequest request = WholeScan();
    request.slice = slice;
    request.slices = slices;
    const absl::Status status = shard->ScanAll(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  }
}

// --- Load, cancellation, end ------------------------------------------------

TEST(Shard, AFullWriteQueueAnswersAtOnce) {
  ShardHarness shard;
  shard.options()->write_queue_bytes = 1;  // one write at a time
  shard.Open();
  ASSERT_TRUE(
      shard
          .PutCatalogue(
              0, TestCatalogue(
                     1, {TestCollection("c", 1, 1, Metric::kSquaredL2, 1)}))
          .ok());
  Gate started;
  Gate release;
  shard->Write({"c", {At(1, {1})}, {}}, {},
               [&](const absl::StatusOr<WriteReply>& reply) {
                 EXPECT_TRUE(reply.ok()) << reply.status();
                 started.Open();
                 release.Wait();
               });
  started.Wait();
  Answer<WriteReply> second;
  Answer<WriteReply> refused;
  shard->Write({"c", {At(2, {1})}, {}}, {}, second.done());
  shard->Write({"c", {At(3, {1})}, {}}, {}, refused.done());
  ASSERT_TRUE(refused.ready());
  const absl::Status status = refused.Wait().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_EQ(shard.Count().value(), 1) << "reads do not wait for writers";
  release.Open();
  EXPECT_TRUE(second.Wait().ok());
}

TEST(Shard, DoesNothingForCallsThatEnded) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  const auto token = std::make_shared<CancelToken>();
  token->Cancel();
  const CallContext cancelled{absl::InfiniteFuture(), token};
  const CallContext late{absl::InfinitePast(), nullptr};
  EXPECT_TRUE(
      absl::IsCancelled(shard->Search(SearchFor({1}, 1), cancelled).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      shard->Search(SearchFor({1}, 1), late).status()));
  Answer<WriteReply> write;
  (*shard)->Write({"c", {At(1, {1})}, {}}, cancelled, write.done());
  EXPECT_TRUE(absl::IsCancelled(write.Wait().status()));
  Answer<int64_t> put;
  (*shard)->PutCatalogue(1, Catalogue{2, 2, {}}, late, put.done());
  EXPECT_TRUE(absl::IsDeadlineExceeded(put.Wait().status()));
  EXPECT_EQ(shard->Count().value(), 0);
}

TEST(Shard, IsUnavailableAfterStop) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  const auto scanner = (*shard)->Scan(WholeScan(), {});
  (*shard)->Stop();
  (*shard)->Stop();
  EXPECT_TRUE(absl::IsUnavailable(shard->Search(SearchFor({1}, 1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(shard->Write({At(1, {1})}).status()));
  EXPECT_TRUE(absl::IsUnavailable(shard->Get({1}).status()));
  EXPECT_TRUE(absl::IsUnavailable(shard->Count().status()));
  EXPECT_TRUE(absl::IsUnavailable(shard->Stats().status()));
  EXPECT_TRUE(absl::IsUnavailable(
      shard->PutCatalogue(1, Catalogue{2, 2, {}}).status()));
  Answer<Catalogue> catalogue;
  (*shard)->ReadCatalogue({}, catalogue.done());
  EXPECT_TRUE(absl::IsUnavailable(catalogue.Wait().status()));
  Answer<ShardDescription> description;
  (*shard)->Describe({}, description.done());
  EXPECT_TRUE(absl::IsUnavailable(description.Wait().status()));
  Answer<ScanPage> page;
  scanner->Next(page.done());
  EXPECT_TRUE(absl::IsUnavailable(page.Wait().status()));
}

TEST(Shard, RefusesOptionsThatMakeNoShard) {
  const auto refused = [](auto change) {
    const TempFolder folder;
    ShardOptions options;
    options.cluster_uuid = "cluster";
    options.path = folder.path();
    change(&options);
    return absl::IsInvalidArgument(Shard::Open(options).status());
  };
  EXPECT_TRUE(refused([](ShardOptions* o) { o->threads = 0; }));
  EXPECT_TRUE(refused([](ShardOptions* o) { o->queue_capacity = 0; }));
  EXPECT_TRUE(refused([](ShardOptions* o) { o->shard_id = 1; }));
  EXPECT_TRUE(refused([](ShardOptions* o) { o->cluster_uuid = ""; }));
  EXPECT_TRUE(refused([](ShardOptions* o) { o->path = ""; }));
  EXPECT_TRUE(refused([](ShardOptions* o) { o->tail_rows = 0; }));
  EXPECT_TRUE(refused([](ShardOptions* o) { o->limits.k = 0; }));
}

// --- Records lost behind the shard's back -----------------------------------

TEST(Shard, MissingAttributesAreDataLossNotAbsence) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(1, {1}), At(2, {2})}).ok());
  shard->Close();
  {
    const auto store = RecordStore::Open(shard->options()->path);
    ASSERT_TRUE(store.ok()) << store.status();
    StoreBatch batch;
    batch.Delete(Family::kAttributes, EncodeKey({1, SlotOf(2, 8), 2}));
    ASSERT_TRUE((*store)->Write(batch).ok());
  }
  shard->Open();
  Filter filter;
  filter.must_not.push_back(HasAttributeCondition{"x"});
  ScanRequest scan = WholeScan();
  scan.with_vectors = false;
  SearchRequest search = SearchFor({2}, 1);
  EXPECT_TRUE(shard->Search(search).ok()) << "vectors alone are whole";
  SearchRequest filtered = search;
  filtered.filter = filter;
  search.with_attributes.all = true;
  for (const absl::Status& status :
       {shard->Search(search).status(), shard->Search(filtered).status(),
        shard->Get({2}).status(), shard->Count(filter).status(),
        shard->ScanAll(WholeScan()).status(), shard->ScanAll(scan).status()}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
  EXPECT_TRUE(absl::StrContains(shard->Get({2}).status().message(), "id 2"));
}

}  // namespace
}  // namespace coterie
