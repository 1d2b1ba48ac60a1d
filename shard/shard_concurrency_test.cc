// Many callers of one shard at the same time.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/segment_disk.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

// A point whose attributes repeat its vector, so that a reader can tell
// whether both are of the same write.
Point Twin(PointId id, int64_t value) {
  return {id, {static_cast<float>(value), 1}, {{"value", value}}};
}

// Counts what no snapshot may show: a pair (2i, 2i + 1) whose values do not
// add up to zero, and attributes of another write than the vector.
int64_t Contradictions(const std::map<PointId, Point>& points) {
  int64_t wrong = 0;
  for (const auto& [id, point] : points) {
    const auto partner = points.find(id ^ 1);
    if (partner == points.end() ||
        partner->second.vector[0] != -point.vector[0]) {
      ++wrong;
    }
    const auto value = point.attributes.find("value");
    if (value == point.attributes.end() ||
        static_cast<float>(std::get<int64_t>(value->second)) !=
            point.vector[0]) {
      ++wrong;
    }
  }
  return wrong;
}

std::map<PointId, Point> Searched(ShardHarness* shard) {
  SearchRequest request = SearchFor({0, 0}, 1000);
  request.with_vectors = true;
  request.with_attributes.all = true;
  std::map<PointId, Point> points;
  const auto reply = shard->Search(request);
  EXPECT_TRUE(reply.ok()) << reply.status();
  if (!reply.ok()) return points;
  int64_t slot_rows = 0;
  for (const SlotState& slot : reply->slots) slot_rows += slot.rows;
  EXPECT_EQ(slot_rows, reply->rows_live);
  EXPECT_EQ(static_cast<int64_t>(reply->results[0].size()), reply->rows_live);
  for (const Hit& hit : reply->results[0]) {
    points[hit.neighbor.id] = {hit.neighbor.id, hit.vector, hit.attributes};
  }
  return points;
}

std::map<PointId, Point> Scanned(ShardHarness* shard) {
  std::map<PointId, Point> points;
  const auto scanned = shard->ScanAll(WholeScan());
  EXPECT_TRUE(scanned.ok()) << scanned.status();
  if (!scanned.ok()) return points;
  for (const Point& point : *scanned) points[point.id] = point;
  return points;
}

TEST(ShardConcurrency, ReadersSeeWholeWrites) {
  constexpr int kWrites = 400;
  ShardHarness shard;
  shard.options()->threads = 2;
  shard.options()->tail_rows = 32;
  shard.options()->limits.scan_page_bytes = 300;
  shard.Open();
  ASSERT_TRUE(
      shard
          .PutCatalogue(
              0, TestCatalogue(
                     1, {TestCollection("c", 1, 2, Metric::kSquaredL2, 8)}))
          .ok());
  std::atomic<bool> finished{false};
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] {
      while (!finished.load()) {
        wrong +=
            Contradictions(reader == 0 ? Scanned(&shard) : Searched(&shard));
      }
    });
  }
  std::vector<std::thread> writers;
  for (uint64_t writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      Random random(TestSeed() + writer);
      for (int i = 0; i < kWrites; ++i) {
        // Each writer has pairs of its own.
        const PointId pair = 40 * writer + 2 * (random() % 20);
        const auto value = static_cast<int64_t>(random() % 1000);
        const auto reply =
            random() % 4 == 0
                ? shard.Write({}, {pair, pair + 1})
                : shard.Write({Twin(pair, value), Twin(pair + 1, -value)});
        EXPECT_TRUE(reply.ok()) << reply.status();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  finished.store(true);
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(shard.Describe().sequence, 2 * kWrites);
  shard.Reopen();
  EXPECT_EQ(Contradictions(Scanned(&shard)), 0);
}

TEST(ShardConcurrency, WritesRaceWithDroppingTheirCollection) {
  const auto shard = OpenWithCollection(2, Metric::kSquaredL2);
  std::atomic<bool> finished{false};
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      for (PointId id = caller; !finished.load(); id += 3) {
        const absl::Status written = shard->Write({Twin(id, 1)}).status();
        EXPECT_TRUE(written.ok() || absl::IsNotFound(written)) << written;
        const absl::Status found = shard->Search(SearchFor({1, 1}, 3)).status();
        EXPECT_TRUE(found.ok() || absl::IsNotFound(found)) << found;
        const absl::Status scanned = shard->ScanAll(WholeScan()).status();
        EXPECT_TRUE(scanned.ok() || absl::IsNotFound(scanned)) << scanned;
      }
    });
  }
  uint32_t number = 1;
  for (int64_t version = 1; version < 80; ++version) {
    // Present at odd versions, each time under a new number.
    Catalogue next;
    next.version = version + 1;
    if (next.version % 2 == 1) {
      next.collections = {
          TestCollection("c", ++number, 2, Metric::kSquaredL2, 8)};
    }
    next.next_number = number + 1;
    ASSERT_EQ(shard->PutCatalogue(version, next).value(), next.version);
  }
  finished.store(true);
  for (std::thread& caller : callers) caller.join();
  Catalogue last;
  last.version = 81;
  last.next_number = number + 2;
  last.collections = {
      TestCollection("c", number + 1, 2, Metric::kSquaredL2, 8)};
  ASSERT_TRUE(shard->PutCatalogue(80, last).ok());
  EXPECT_EQ(shard->Count().value(), 0) << "nothing of the dropped ones";
  ASSERT_TRUE(shard->Write({Twin(1, 1)}).ok());
  shard->Reopen();  // compares rows with slot states and log
  EXPECT_EQ(shard->Count().value(), 1);
}

TEST(ShardConcurrency, CatalogueChangesOneAtATime) {
  const auto shard = OpenWithCollection(2, Metric::kSquaredL2);
  std::atomic<int> won{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int64_t version = 1; version < 20; ++version) {
        const auto reply = shard->PutCatalogue(
            version,
            TestCatalogue(version + 1,
                          {TestCollection("c", 1, 2, Metric::kSquaredL2, 8)}));
        if (reply.ok()) {
          ++won;
        } else {
          EXPECT_TRUE(absl::IsAborted(reply.status())) << reply.status();
        }
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(won.load(), 19) << "one winner for each version";
}

TEST(ShardConcurrency, StopEndsWhatWasAdmittedAndAnswersEveryone) {
  for (int round = 0; round < 10; ++round) {
    const auto shard = OpenWithCollection(2, Metric::kSquaredL2);
    std::atomic<int64_t> written{0};
    std::vector<std::thread> callers;
    for (uint64_t caller = 0; caller < 3; ++caller) {
      callers.emplace_back([&, caller] {
        for (PointId id = caller;; id += 3) {
          const absl::Status write = shard->Write({Twin(id, 1)}).status();
          if (write.ok()) ++written;
          const absl::Status search =
              shard->Search(SearchFor({1, 1}, 3)).status();
          EXPECT_TRUE(search.ok() || absl::IsUnavailable(search)) << search;
          if (absl::IsUnavailable(write)) return;
          EXPECT_TRUE(write.ok()) << write;
        }
      });
    }
    while (written.load() < 5) std::this_thread::yield();
    (*shard)->Stop();
    for (std::thread& caller : callers) caller.join();
    shard->Reopen();
    EXPECT_EQ(shard->Count().value(), written.load());
  }
}

TEST(ShardConcurrency, AFullQueueAnswersAtOnce) {
  ShardHarness shard;
  shard.options()->queue_capacity = 2;
  shard.Open();
  ASSERT_TRUE(
      shard
          .PutCatalogue(
              0, TestCatalogue(
                     1, {TestCollection("c", 1, 1, Metric::kSquaredL2, 1)}))
          .ok());
  const auto nearest = std::make_shared<const SearchRequest>(SearchFor({1}, 1));
  Gate reads;
  Gate searches;
  Gate release;
  shard->Count({"c", {}}, {}, [&](const absl::StatusOr<CountReply>&) {
    reads.Open();
    release.Wait();
  });
  shard->Search(nearest, {}, [&](const absl::StatusOr<ShardSearchReply>&) {
    searches.Open();
    release.Wait();
  });
  reads.Wait();
  searches.Wait();
  std::vector<Answer<CountReply>> waiting(2);
  for (auto& answer : waiting) shard->Count({"c", {}}, {}, answer.done());
  std::vector<Answer<ShardSearchReply>> searching(2);
  for (auto& answer : searching) shard->Search(nearest, {}, answer.done());
  Answer<CountReply> count;
  Answer<GetReply> get;
  Answer<ShardSearchReply> search;
  Answer<ScanPage> page;
  shard->Count({"c", {}}, {}, count.done());
  shard->Get({"c", {1}, false, {}}, {}, get.done());
  shard->Search(nearest, {}, search.done());
  const auto scanner = shard->Scan(WholeScan(), {});
  scanner->Next(page.done());
  // Both threads are held, so whoever is answered was answered at once.
  ASSERT_TRUE(count.ready() && get.ready() && search.ready() && page.ready());
  EXPECT_TRUE(absl::IsResourceExhausted(count.Wait().status()));
  EXPECT_TRUE(absl::IsResourceExhausted(get.Wait().status()));
  EXPECT_TRUE(absl::IsResourceExhausted(page.Wait().status()));
  const absl::Status status = search.Wait().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(RetryAfterOf(status).has_value());
  const std::vector<QueueState> queues = shard.Describe().queues;
  ASSERT_EQ(queues.size(), static_cast<size_t>(kWorkClasses))
      << "Describe does not queue";
  EXPECT_EQ(queues[0].length, 2);
  EXPECT_EQ(queues[0].refused, 1);
  EXPECT_EQ(queues[1].length, 2);
  EXPECT_EQ(queues[1].refused, 3);
  release.Open();
  for (auto& answer : waiting) EXPECT_TRUE(answer.Wait().ok());
  for (auto& answer : searching) EXPECT_TRUE(answer.Wait().ok());
  // A scan that was refused a page can ask again.
  Answer<ScanPage> again;
  scanner->Next(again.done());
  EXPECT_TRUE(again.Wait().ok());
}

// The machine's disk, on which no file can be made while it is shut.
class ShutDisk final : public SegmentDisk {
 public:
  void Open() { gate_.Open(); }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path,
                                                  int64_t bytes) override {
    gate_.Wait();
    return Machine()->Create(path, bytes);
  }
  absl::Status MakeFolder(const std::string& path) override {
    return Machine()->MakeFolder(path);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override {
    return Machine()->List(folder);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Machine()->Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override {
    return Machine()->Remove(path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return Machine()->SyncFolder(path);
  }
  absl::Status Read(
      const std::string& path,
      absl::FunctionRef<absl::Status(absl::string_view)> piece) override {
    return Machine()->Read(path, piece);
  }
  absl::StatusOr<std::shared_ptr<const FileMapping>> Map(
      const std::string& path) override {
    return Machine()->Map(path);
  }

 private:
  Gate gate_;
};

TEST(ShardConcurrency, WritesThatOutrunSealingAreRefusedUntilItCatchesUp) {
  constexpr int64_t kTailRows = 8;
  constexpr int64_t kRowBytes = 4 + 16;
  ShutDisk disk;
  ShardHarness shard;
  shard.options()->segment_disk = &disk;
  shard.options()->tail_rows = kTailRows;
  shard.options()->unsealed_bytes = 3 * kTailRows * kRowBytes;
  shard.Open();
  ASSERT_TRUE(
      shard
          .PutCatalogue(
              0, TestCatalogue(
                     1, {TestCollection("c", 1, 1, Metric::kSquaredL2, 1)}))
          .ok());
  PointId stored = 0;
  absl::Status refused;
  while (refused.ok() && stored < 1000) {
    refused = shard.Write({{stored, {1}, {}}}).status();
    if (refused.ok()) ++stored;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  EXPECT_NE(refused.message().find("limit unsealed_bytes is 480"),
            absl::string_view::npos)
      << refused;
  // The fifth tail, and no more: four are more than three.
  EXPECT_LE(static_cast<int64_t>(stored), 5 * kTailRows + 1);
  EXPECT_GT(static_cast<int64_t>(stored), 3 * kTailRows);
  EXPECT_EQ(shard.Count().value(), static_cast<int64_t>(stored));
  EXPECT_TRUE(shard.Write({}, {0}).ok()) << "what makes nothing grow is taken";

  disk.Open();
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  absl::Status taken = refused;
  while (!taken.ok() && absl::Now() < deadline) {
    taken = shard.Write({{stored, {1}, {}}}).status();
    std::this_thread::yield();
  }
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(shard.Count().value(), static_cast<int64_t>(stored));
  shard.Close();  // before its disk
}

}  // namespace
}  // namespace coterie
