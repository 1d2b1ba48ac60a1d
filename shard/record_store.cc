#include "shard/record_store.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/experimental.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "shard/store_log.h"
#include "shard/store_medium.h"
#include "shard/store_wal.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

constexpr size_t kCacheBytes = size_t{32} << 20;
constexpr size_t kUnflushedBytes = size_t{32} << 20;
constexpr uint64_t kLogBytes = uint64_t{64} << 20;
constexpr int kOpenFiles = 128;
constexpr size_t kReadAheadBytes = size_t{1} << 20;

// By Family. "default" must exist in every RocksDB.
constexpr std::array<const char*, 4> kFamilyNames = {"default", "rows",
                                                     "attributes", "log"};

absl::string_view View(const rocksdb::Slice& slice) {
  return absl::string_view(slice.data(), slice.size());
}

rocksdb::Slice Slice(absl::string_view bytes) {
  return rocksdb::Slice(bytes.data(), bytes.size());
}

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view path) {
  if (status.ok()) return absl::OkStatus();
  const std::string message =
      absl::StrCat("store ", path, ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace()) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::UnavailableError(message);
}

rocksdb::DBOptions DatabaseOptions() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  // Refuses damage in the middle of the log; the default drops what follows.
  options.wal_recovery_mode =
      rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.db_write_buffer_size = kUnflushedBytes;
  options.max_total_wal_size = kLogBytes;
  options.max_open_files = kOpenFiles;
  options.max_background_jobs = 2;
  options.bytes_per_sync = uint64_t{1} << 20;
  // A failed sync must not be retried: the pages may be marked clean.
  options.max_bgerror_resume_count = 0;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::ColumnFamilyOptions FamilyOptions(
    Family family, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;

  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = size_t{4} << 20;
  options.arena_block_size = size_t{256} << 10;
  options.level_compaction_dynamic_level_bytes = true;
  options.compression = rocksdb::CompressionType::kLZ4Compression;
  options.memtable_protection_bytes_per_key = 8;
  if (family == Family::kRows) {
    // Floats hardly compress, and rows are read in long runs.
    options.compression = rocksdb::CompressionType::kNoCompression;
    options.write_buffer_size = size_t{16} << 20;
    table.block_size = size_t{64} << 10;
  }
  if (family == Family::kAttributes) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.block_size = size_t{8} << 10;
    options.write_buffer_size = size_t{8} << 20;
  }
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// RocksDB would take a folder without CURRENT for a new one and start empty,
// and one without a log for one whose log was empty.
absl::Status RefuseHeadlessFolder(const std::filesystem::path& folder) {
  std::error_code error;
  const bool current = std::filesystem::exists(folder / "CURRENT", error);
  std::string table;
  std::string log;
  for (std::filesystem::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    const std::string name = it->path().filename().string();
    if (extension == ".sst") table = name;
    if (extension == ".log") log = name;
  }
  const auto missing = [&](absl::string_view what, const std::string& found) {
    return absl::DataLossError(absl::StrCat("store ", folder.string(), ": ",
                                            what, " is missing, but ", found,
                                            " is there"));
  };
  if (!current && !(table.empty() && log.empty())) {
    return missing("file CURRENT", log.empty() ? table : log);
  }
  if (current && log.empty() && !table.empty()) {
    return missing("the write-ahead log (*.log)", table);
  }
  return absl::OkStatus();
}

class RocksSnapshot final : public RecordStore::Snapshot {
 public:
  explicit RocksSnapshot(rocksdb::DB* db)
      : db_(db), snapshot_(db->GetSnapshot()) {}
  ~RocksSnapshot() override { db_->ReleaseSnapshot(snapshot_); }
  RocksSnapshot(const RocksSnapshot&) = delete;
  RocksSnapshot& operator=(const RocksSnapshot&) = delete;

  const rocksdb::Snapshot* get() const { return snapshot_; }

 private:
  rocksdb::DB* const db_;
  const rocksdb::Snapshot* const snapshot_;
};

rocksdb::ReadOptions ReadAt(const RecordStore::Snapshot* snapshot) {
  rocksdb::ReadOptions options;
  if (snapshot != nullptr) {
    options.snapshot = static_cast<const RocksSnapshot*>(snapshot)->get();
  }
  return options;
}

class RocksCursor final : public RecordStore::Cursor {
 public:
  RocksCursor(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family,
              std::string begin, std::string end,
              const RecordStore::Snapshot* snapshot, std::string path)
      : end_(std::move(end)), end_slice_(Slice(end_)), path_(std::move(path)) {
    rocksdb::ReadOptions options = ReadAt(snapshot);
    options.iterate_upper_bound = &end_slice_;
    options.readahead_size = kReadAheadBytes;
    // A long walk must not push out what point reads use.
    options.fill_cache = false;
    iterator_.reset(db->NewIterator(options, family));
    iterator_->Seek(Slice(begin));
  }

  bool Valid() const override { return iterator_->Valid(); }
  void Next() override { iterator_->Next(); }
  absl::string_view key() const override { return View(iterator_->key()); }
  absl::string_view value() const override { return View(iterator_->value()); }
  absl::Status status() const override {
    return FromRocks(iterator_->status(), path_);
  }

 private:
  const std::string end_;
  const rocksdb::Slice end_slice_;
  const std::string path_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksStore final : public RecordStore {
 public:
  RocksStore(std::string path, std::unique_ptr<rocksdb::DB> db,
             std::vector<rocksdb::ColumnFamilyHandle*> families,
             std::shared_ptr<rocksdb::Cache> cache, bool sync,
             std::string torn_tail)
      : path_(std::move(path)),
        torn_tail_(std::move(torn_tail)),
        sync_(sync),
        cache_(std::move(cache)),
        db_(std::move(db)),
        families_(std::move(families)) {}

  ~RocksStore() override {
    for (rocksdb::ColumnFamilyHandle* family : families_) {
      db_->DestroyColumnFamilyHandle(family);
    }
    db_->Close();
  }

  absl::Status Write(const StoreBatch& batch) override;

  std::shared_ptr<const Snapshot> TakeSnapshot() override {
    return std::make_shared<RocksSnapshot>(db_.get());
  }

  absl::StatusOr<std::vector<std::optional<std::string>>> Read(
      Family family, absl::Span<const std::string> keys,
      const Snapshot* snapshot) override;

  std::unique_ptr<Cursor> Walk(Family family, std::string begin,
                               std::string end,
                               const Snapshot* snapshot) override {
    return std::make_unique<RocksCursor>(db_.get(), Handle(family),
                                         std::move(begin), std::move(end),
                                         snapshot, path_);
  }

  void Reclaim(Family family, std::string begin, std::string end) override {
    const rocksdb::Slice from = Slice(begin);
    const rocksdb::Slice to = Slice(end);
    // A hint: what it does not reach, later compactions do.
    rocksdb::experimental::SuggestCompactRange(db_.get(), Handle(family), &from,
                                               &to)
        .PermitUncheckedError();
  }

  const std::string& torn_tail() const override { return torn_tail_; }

  int64_t MemoryBytes() const override {
    uint64_t tables = 0;
    db_->GetAggregatedIntProperty("rocksdb.cur-size-all-mem-tables", &tables);
    return static_cast<int64_t>(tables + cache_->GetUsage());
  }

 private:
  rocksdb::ColumnFamilyHandle* Handle(Family family) const {
    return families_[static_cast<size_t>(family)];
  }

  const std::string path_;
  const std::string torn_tail_;
  const bool sync_;
  Mutex writing_;
  const std::shared_ptr<rocksdb::Cache> cache_;
  const std::unique_ptr<rocksdb::DB> db_;
  const std::vector<rocksdb::ColumnFamilyHandle*> families_;
};

absl::Status RocksStore::Write(const StoreBatch& batch) {
  size_t bytes = 64;
  for (const StoreBatch::Op& op : batch.ops()) {
    bytes += 16 + op.key.size() + op.value.size();
  }
  rocksdb::WriteBatch out(bytes, /*max_bytes=*/0, /*protection_bytes_per_key=*/
                          8, /*default_cf_ts_sz=*/0);
  for (const StoreBatch::Op& op : batch.ops()) {
    rocksdb::Status status;
    switch (op.kind) {
      case StoreBatch::Kind::kPut:
        status = out.Put(Handle(op.family), op.key, op.value);
        break;
      case StoreBatch::Kind::kDelete:
        status = out.Delete(Handle(op.family), op.key);
        break;
      case StoreBatch::Kind::kDeleteRange:
        status = out.DeleteRange(Handle(op.family), op.key, op.value);
        break;
    }
    if (!status.ok()) return FromRocks(status, path_);
  }
  rocksdb::WriteOptions options;
  options.sync = sync_;
  // RocksDB would let one thread write another's batch, by means that
  // ThreadSanitizer cannot see; waiting for its turn takes as long.
  MutexLock lock(&writing_);
  return FromRocks(db_->Write(options, &out), path_);
}

absl::StatusOr<std::vector<std::optional<std::string>>> RocksStore::Read(
    Family family, absl::Span<const std::string> keys,
    const Snapshot* snapshot) {
  const std::vector<rocksdb::Slice> slices(keys.begin(), keys.end());
  std::vector<rocksdb::PinnableSlice> found(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  db_->MultiGet(ReadAt(snapshot), Handle(family), slices.size(), slices.data(),
                found.data(), statuses.data());
  std::vector<std::optional<std::string>> values(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    if (!statuses[i].ok()) return FromRocks(statuses[i], path_);
    values[i] = found[i].ToString();
  }
  return values;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordStore>> RecordStore::Open(
    absl::string_view path) {
  return OpenRecordStoreOn({}, path);
}

absl::StatusOr<std::unique_ptr<RecordStore>> OpenRecordStoreOn(
    const StoreMedium& medium, absl::string_view path) {
  const std::string folder(path);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(
        "store ", path, ": cannot create the folder: ", error.message()));
  }
  absl::Status status = RefuseHeadlessFolder(folder);
  if (!status.ok()) return status;

  auto cache = rocksdb::NewLRUCache(kCacheBytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (size_t i = 0; i < kFamilyNames.size(); ++i) {
    descriptors.emplace_back(kFamilyNames[i],
                             FamilyOptions(static_cast<Family>(i), cache));
  }
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::DB* db = nullptr;
  rocksdb::DBOptions options = DatabaseOptions();
  if (medium.env != nullptr) options.env = medium.env;
  auto torn_tail = CheckStoreLogs(options.env, folder);
  if (!torn_tail.ok()) {
    return absl::Status(
        torn_tail.status().code(),
        absl::StrCat("store ", path, ": ", torn_tail.status().message()));
  }
  options.info_log = MakeStoreLog(options.env, folder);
  const rocksdb::Status opened =
      rocksdb::DB::Open(options, folder, descriptors, &families, &db);
  if (!opened.ok()) {
    if (opened.IsIOError() && absl::StrContains(opened.ToString(), "LOCK")) {
      return absl::FailedPreconditionError(
          absl::StrCat("store ", path, " is in use by another process or by ",
                       "another shard of this one: ", opened.ToString()));
    }
    return FromRocks(opened, path);
  }
  return std::make_unique<RocksStore>(folder, std::unique_ptr<rocksdb::DB>(db),
                                      std::move(families), std::move(cache),
                                      medium.sync, *std::move(torn_tail));
}

}  // namespace coterie
