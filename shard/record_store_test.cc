#include "shard/record_store.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

using Records = std::map<std::string, std::string>;

std::unique_ptr<RecordStore> OpenOrDie(const std::string& path) {
  auto store = RecordStore::Open(path);
  EXPECT_TRUE(store.ok()) << store.status();
  return std::move(*store);
}

Records Content(RecordStore* store, Family family, std::string begin = "",
                std::string end = "\xff",
                const RecordStore::Snapshot* snapshot = nullptr) {
  Records records;
  const auto cursor = store->Walk(family, begin, end, snapshot);
  for (; cursor->Valid(); cursor->Next()) {
    records[std::string(cursor->key())] = std::string(cursor->value());
  }
  EXPECT_TRUE(cursor->status().ok()) << cursor->status();
  return records;
}

void Put(RecordStore* store, const Records& records,
         Family family = Family::kRows) {
  StoreBatch batch;
  for (const auto& [key, value] : records) batch.Put(family, key, value);
  const absl::Status status = store->Write(batch);
  ASSERT_TRUE(status.ok()) << status;
}

std::vector<fs::path> FilesWith(const std::string& folder,
                                const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

std::string ReadFile(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void FlipByte(const fs::path& file, int64_t at, int mask = 0x40) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const int byte = stream.get();
  stream.seekp(at);
  stream.put(static_cast<char>(byte ^ mask));
}

TEST(RecordStore, KeepsFamiliesApart) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  Put(store.get(), {{"k", "row"}}, Family::kRows);
  Put(store.get(), {{"k", "attributes"}}, Family::kAttributes);
  Put(store.get(), {{"k", "log"}}, Family::kLog);
  EXPECT_EQ(Content(store.get(), Family::kRows), (Records{{"k", "row"}}));
  EXPECT_EQ(Content(store.get(), Family::kAttributes),
            (Records{{"k", "attributes"}}));
  EXPECT_EQ(Content(store.get(), Family::kLog), (Records{{"k", "log"}}));
  EXPECT_TRUE(Content(store.get(), Family::kMeta).empty());
}

TEST(RecordStore, AppliesABatchInOrder) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  Put(store.get(), {{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}});
  StoreBatch batch;
  batch.DeleteRange(Family::kRows, "b", "d");
  batch.Put(Family::kRows, "c", "again");
  batch.Delete(Family::kRows, "d");
  ASSERT_TRUE(store->Write(batch).ok());
  EXPECT_EQ(Content(store.get(), Family::kRows),
            (Records{{"a", "1"}, {"c", "again"}}));
}

TEST(RecordStore, WalksHalfOpenRanges) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  Put(store.get(), {{"a", "1"}, {"b", "2"}, {"c", "3"}});
  EXPECT_EQ(Content(store.get(), Family::kRows, "a", "c"),
            (Records{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(Content(store.get(), Family::kRows, "aa", "cc"),
            (Records{{"b", "2"}, {"c", "3"}}));
  EXPECT_TRUE(Content(store.get(), Family::kRows, "d", "e").empty());
}

TEST(RecordStore, ReadsInTheOrderAsked) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  Put(store.get(), {{"a", "1"}, {"b", ""}});
  const auto values = store->Read(Family::kRows, {"b", "x", "a", "b"}, nullptr);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (std::vector<std::optional<std::string>>{"", std::nullopt,
                                                              "1", ""}));
}

TEST(RecordStore, SnapshotsDoNotChange) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  Put(store.get(), {{"a", "1"}, {"b", "2"}});
  const auto snapshot = store->TakeSnapshot();
  StoreBatch batch;
  batch.Put(Family::kRows, "a", "new");
  batch.DeleteRange(Family::kRows, "b", "c");
  batch.Put(Family::kRows, "c", "3");
  ASSERT_TRUE(store->Write(batch).ok());
  store->Reclaim(Family::kRows, "b", "c");
  EXPECT_EQ(Content(store.get(), Family::kRows, "", "z", snapshot.get()),
            (Records{{"a", "1"}, {"b", "2"}}));
  const auto values = store->Read(Family::kRows, {"a", "c"}, snapshot.get());
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0], "1");
  EXPECT_FALSE((*values)[1].has_value());
  EXPECT_EQ(Content(store.get(), Family::kRows),
            (Records{{"a", "new"}, {"c", "3"}}));
}

TEST(RecordStore, IsThereAfterReopening) {
  const TempFolder folder;
  Put(OpenOrDie(folder.path()).get(), {{"a", "1"}});
  Put(OpenOrDie(folder.path()).get(), {{"b", std::string(100000, 'x')}});
  EXPECT_EQ(Content(OpenOrDie(folder.path()).get(), Family::kRows).size(), 2u);
}

TEST(RecordStore, BoundsItsMemory) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  for (int i = 0; i < 60; ++i) {
    Put(store.get(), {{absl::StrCat("k", i), std::string(1 << 20, 'x')}});
  }
  Content(store.get(), Family::kRows);
  EXPECT_LT(store->MemoryBytes(), int64_t{70} << 20);
}

// --- Refusals ---------------------------------------------------------------

TEST(RecordStore, RefusesAFolderOpenInThisProcess) {
  const TempFolder folder;
  const auto store = OpenOrDie(folder.path());
  const absl::Status status = RecordStore::Open(folder.path()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), folder.path())) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "in use")) << status;
}

TEST(RecordStore, RefusesAFolderOpenInAnotherProcess) {
  const TempFolder folder;
  OpenOrDie(folder.path());
  const std::string lock = folder.path() + "/LOCK";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {  // system calls only: other threads were not copied
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    const int file = open(lock.c_str(), O_RDWR);
    const char ok = fcntl(file, F_SETLK, &whole) == 0 ? 'y' : 'n';
    (void)!write(ready[1], &ok, 1);
    pause();
    _exit(0);
  }
  char locked = 0;
  ASSERT_EQ(read(ready[0], &locked, 1), 1);
  EXPECT_EQ(locked, 'y');
  const absl::Status status = RecordStore::Open(folder.path()).status();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "in use")) << status;
  OpenOrDie(folder.path());
}

TEST(RecordStore, RefusesAPlaceThatIsNoFolder) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/file") << "x";
  const absl::Status status =
      RecordStore::Open(folder.path() + "/file/store").status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "file/store")) << status;
}

TEST(RecordStore, DoesNotTakeAHeadlessFolderForANewOne) {
  const TempFolder folder;
  Put(OpenOrDie(folder.path()).get(), {{"a", "1"}});
  fs::remove(folder.path() + "/CURRENT");
  const absl::Status status = RecordStore::Open(folder.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "CURRENT")) << status;
}

TEST(RecordStore, RefusesAMissingTable) {
  const TempFolder folder;
  Put(OpenOrDie(folder.path()).get(), {{"a", "1"}});
  OpenOrDie(folder.path());  // replays the log into a table
  const auto tables = FilesWith(folder.path(), ".sst");
  ASSERT_FALSE(tables.empty());
  fs::remove(tables[0]);
  const absl::Status status = RecordStore::Open(folder.path()).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), tables[0].stem().string()))
      << status;
}

TEST(RecordStore, NoticesADamagedTableWhenItReadsIt) {
  const TempFolder folder;
  Put(OpenOrDie(folder.path()).get(), {{"a", std::string(1000, 'x')}});
  OpenOrDie(folder.path());
  const auto tables = FilesWith(folder.path(), ".sst");
  ASSERT_EQ(tables.size(), 1u);
  FlipByte(tables[0], 500);
  const auto store = OpenOrDie(folder.path());
  const auto cursor = store->Walk(Family::kRows, "", "z", nullptr);
  EXPECT_FALSE(cursor->Valid());
  EXPECT_TRUE(absl::IsDataLoss(cursor->status())) << cursor->status();
  EXPECT_TRUE(absl::StrContains(cursor->status().message(),
                                tables[0].filename().string()))
      << cursor->status();
  const auto read = store->Read(Family::kRows, {"a"}, nullptr);
  EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
}

// A folder with one table and then some batches that are only in the log.
class RecordStoreLog : public ::testing::Test {
 protected:
  RecordStoreLog() {
    const auto store = OpenOrDie(folder_.path());
    for (char c = 'a'; c <= 'e'; ++c) {
      StoreBatch batch;  // two families: a batch must not come back in part
      batch.Put(Family::kRows, std::string(1, c), std::string(100, c));
      batch.Put(Family::kLog, std::string(1, c), "x");
      EXPECT_TRUE(store->Write(batch).ok());
    }
  }

  // A copy of the folder; its log.
  fs::path Copy(const std::string& to) {
    fs::remove_all(to);
    fs::copy(folder_.path(), to);
    for (const fs::path& log : FilesWith(to, ".log")) {
      if (fs::file_size(log) > 0) return log;
    }
    return {};
  }

  // Where the batches' records begin in the log, and its size.
  std::vector<int64_t> Starts() {
    return StartsIn(Copy(copies_.path() + "/whole"));
  }
  static std::vector<int64_t> StartsIn(const fs::path& file) {
    const std::string log = ReadFile(file);
    std::vector<int64_t> starts = {0};
    while (starts.back() < static_cast<int64_t>(log.size())) {
      const auto at = static_cast<size_t>(starts.back());
      starts.push_back(starts.back() + kHeaderBytes +
                       static_cast<uint8_t>(log[at + 4]) +
                       256 * static_cast<uint8_t>(log[at + 5]));
    }
    return starts;
  }
  bool IsBatchEnd(int64_t at) {
    const std::vector<int64_t> starts = Starts();
    return std::find(starts.begin(), starts.end(), at) != starts.end();
  }

  // The damaged copy is refused, naming its log.
  static void ExpectRefused(const std::string& copy, const fs::path& log) {
    const absl::Status status = RecordStore::Open(copy).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), log.filename().string()))
        << status;
  }

  static constexpr int64_t kHeaderBytes = 7;

  TempFolder folder_;
  TempFolder copies_;
};

TEST_F(RecordStoreLog, ATornTailLosesOnlyWhatWasTorn) {
  const std::string copy = copies_.path() + "/copy";
  const auto size = static_cast<int64_t>(fs::file_size(Copy(copy)));
  int64_t previous = 5;
  for (int64_t keep = size; keep >= 0; keep -= 23) {
    const fs::path log = Copy(copy);
    fs::resize_file(log, static_cast<uintmax_t>(keep));
    const auto store = OpenOrDie(copy);
    const Records rows = Content(store.get(), Family::kRows);
    const Records logs = Content(store.get(), Family::kLog);
    const auto count = static_cast<int64_t>(rows.size());
    ASSERT_LE(count, previous) << keep;
    ASSERT_GE(count, previous - 1) << "more than the torn batch is lost";
    ASSERT_EQ(rows.size(), logs.size()) << "half a batch, kept " << keep;
    const bool whole = keep == 0 || IsBatchEnd(keep);
    ASSERT_EQ(store->torn_tail().empty(), whole) << store->torn_tail();
    for (const auto& [key, value] : rows) {
      ASSERT_EQ(value, std::string(100, key[0]));
    }
    previous = count;
  }
  EXPECT_EQ(previous, 0);
}

TEST_F(RecordStoreLog, DamageBeforeTheTailIsRefused) {
  const std::string copy = copies_.path() + "/copy";
  const fs::path log = Copy(copy);
  FlipByte(log, static_cast<int64_t>(fs::file_size(log)) / 2);
  const absl::Status status = RecordStore::Open(copy).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), copy)) << status;
}

// Lengths and types are what RocksDB believes: one bit, and it takes what
// follows for a tail that a crash has left.
TEST_F(RecordStoreLog, EveryBitOfAHeaderIsNoticed) {
  const std::string copy = copies_.path() + "/copy";
  const std::vector<int64_t> starts = Starts();
  ASSERT_EQ(starts.size(), 6u);
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    for (int bit = 0; bit < 8 * kHeaderBytes; ++bit) {
      const fs::path log = Copy(copy);
      FlipByte(log, starts[i] + bit / 8, 1 << bit % 8);
      SCOPED_TRACE(absl::StrCat("record ", i, " bit ", bit));
      ExpectRefused(copy, log);
    }
  }
}

// What the manifest loses, RocksDB removes as files that nothing names.
TEST_F(RecordStoreLog, EveryBitOfAManifestsHeaderIsNoticed) {
  const std::string copy = copies_.path() + "/copy";
  Copy(copy);
  const auto manifest = [&] {
    std::string name = ReadFile(copy + "/CURRENT");
    return fs::path(copy) / name.substr(0, name.size() - 1);
  };
  const std::vector<int64_t> starts = StartsIn(manifest());
  ASSERT_GT(starts.size(), 4u);
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    for (int bit = 0; bit < 8 * kHeaderBytes; ++bit) {
      Copy(copy);
      FlipByte(manifest(), starts[i] + bit / 8, 1 << bit % 8);
      SCOPED_TRACE(absl::StrCat("record ", i, " bit ", bit));
      ExpectRefused(copy, manifest());
    }
  }
}

TEST_F(RecordStoreLog, ZerosWithMoreBehindThemAreRefused) {
  const std::string copy = copies_.path() + "/copy";
  const std::vector<int64_t> starts = Starts();
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    const fs::path log = Copy(copy);
    std::fstream(log, std::ios::in | std::ios::out | std::ios::binary)
            .seekp(starts[i])
        << std::string(16, '\0');
    SCOPED_TRACE(i);
    ExpectRefused(copy, log);
  }
  // With nothing behind them they are the room that a crash left unused.
  const fs::path log = Copy(copy);
  fs::resize_file(log, fs::file_size(log) + 4096);
  EXPECT_EQ(Content(OpenOrDie(copy).get(), Family::kRows).size(), 5u);
}

TEST_F(RecordStoreLog, AMissingLogIsRefused) {
  { OpenOrDie(folder_.path()); }  // what it had is in tables now
  const std::string copy = copies_.path() + "/copy";
  Copy(copy);
  for (const fs::path& log : FilesWith(copy, ".log")) fs::remove(log);
  const absl::Status status = RecordStore::Open(copy).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "log")) << status;
}

TEST_F(RecordStoreLog, BatchesThatSpanBlocksAreCutWholeOrRefused) {
  {
    const auto store = OpenOrDie(folder_.path());
    for (char c = 'f'; c <= 'h'; ++c) {
      Put(store.get(), {{std::string(1, c), std::string(50000, c)}});
    }
  }
  const std::string copy = copies_.path() + "/copy";
  const auto size = static_cast<int64_t>(fs::file_size(Copy(copy)));
  for (int64_t keep = size; keep >= 0; keep -= 7919) {
    fs::resize_file(Copy(copy), static_cast<uintmax_t>(keep));
    const auto store = OpenOrDie(copy);
    EXPECT_EQ(static_cast<int64_t>(Content(store.get(), Family::kRows).size()),
              5 + keep / 50000);
    EXPECT_EQ(store->torn_tail().empty(), keep == size);
  }
  for (const int64_t block : {0, 1, 2, 3}) {
    const fs::path log = Copy(copy);
    std::fstream(log, std::ios::in | std::ios::out | std::ios::binary)
            .seekp(block * 32768)
        << std::string(512, '\0');
    SCOPED_TRACE(block);
    ExpectRefused(copy, log);
  }
}

}  // namespace
}  // namespace coterie
