// A disk that fails to sync: what the shard promises then, and that it syncs
// at all before it says OK.
//
// This program's fdatasync stands in front of the C library's, for RocksDB
// too.

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "shard/record_store.h"
#include "shard/shard_harness.h"
#include "shard/shard_testing.h"

namespace {

std::atomic<int64_t> syncs{0};
std::atomic<int> sync_error{0};  // errno of every sync; 0: they work

}  // namespace

extern "C" int fdatasync(int file) {
  ++syncs;
  if (sync_error != 0) {
    errno = sync_error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

namespace coterie {
namespace {

class DiskFailure : public ::testing::TestWithParam<int> {
 protected:
  ~DiskFailure() override { sync_error = 0; }
};

INSTANTIATE_TEST_SUITE_P(Errors, DiskFailure, ::testing::Values(EIO, ENOSPC));

Point At(PointId id) { return {id, {1}, {}}; }

TEST(RecordStoreSync, EveryWriteIsSyncedBeforeItReturns) {
  const TempFolder folder;
  const auto store = RecordStore::Open(folder.path());
  ASSERT_TRUE(store.ok()) << store.status();
  for (int i = 0; i < 5; ++i) {
    const int64_t before = syncs;
    StoreBatch batch;
    batch.Put(Family::kRows, "key", "value");
    ASSERT_TRUE((*store)->Write(batch).ok());
    EXPECT_GE(syncs, before + 1);
  }
}

TEST_P(DiskFailure, MakesTheShardReadOnlyUntilItIsOpenedAgain) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(1), At(2)}).ok());

  sync_error = GetParam();
  const absl::Status failed = shard->Write({At(3), At(4)}, {1}).status();
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_TRUE(absl::StrContains(failed.message(), "read-only")) << failed;
  EXPECT_TRUE(absl::StrContains(failed.message(), shard->path())) << failed;

  // Even if the disk works again: what it holds is unknown.
  sync_error = 0;
  EXPECT_TRUE(absl::IsUnavailable(shard->Write({At(5)}).status()));
  EXPECT_TRUE(absl::IsUnavailable(
      shard->PutCatalogue(1, Catalogue{2, 2, {}}).status()));
  EXPECT_TRUE(absl::StrContains(shard->Describe().reason, "read-only"));

  // Reads go on, at the last sequence that was acknowledged.
  const auto found = shard->Search(SearchFor({1}, 10));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(IdsOf(found->results[0]), (std::vector<PointId>{1, 2}));
  EXPECT_EQ(found->sequence, 1);
  EXPECT_EQ(shard->Count().value(), 2);
  const auto scanned = shard->ScanAll(WholeScan());
  ASSERT_TRUE(scanned.ok()) << scanned.status();
  EXPECT_EQ(scanned->size(), 2u);

  // The failed write is there whole or not at all; the refused ones are not.
  shard->Reopen();
  const auto after = shard->Search(SearchFor({1}, 10));
  ASSERT_TRUE(after.ok()) << after.status();
  const std::vector<PointId> ids = IdsOf(after->results[0]);
  EXPECT_TRUE(ids == (std::vector<PointId>{1, 2}) ||
              ids == (std::vector<PointId>{2, 3, 4}))
      << ids.size();
  EXPECT_TRUE(shard->Write({At(6)}).ok());
  EXPECT_EQ(shard->Describe().reason, "");
}

TEST_P(DiskFailure, DuringACatalogueChangeMakesTheShardReadOnly) {
  const auto shard = OpenWithCollection(1, Metric::kSquaredL2);
  ASSERT_TRUE(shard->Write({At(1)}).ok());
  sync_error = GetParam();
  EXPECT_FALSE(shard->PutCatalogue(1, Catalogue{2, 2, {}}).ok());
  sync_error = 0;
  EXPECT_TRUE(absl::IsUnavailable(shard->Write({At(2)}).status()));
  EXPECT_EQ(shard->Count().value(), 1) << "the collection is still served";
  shard->Reopen();
  const auto count = shard->Count();
  EXPECT_TRUE(count.ok() ? *count == 1 : absl::IsNotFound(count.status()))
      << count.status();
}

TEST_P(DiskFailure, AtStartRefusesToOpen) {
  ShardHarness shard;
  sync_error = GetParam();
  const auto opened = Shard::Open(*shard.options());
  EXPECT_FALSE(opened.ok());
  EXPECT_TRUE(absl::StrContains(opened.status().message(), shard.path()))
      << opened.status();
}

}  // namespace
}  // namespace coterie
