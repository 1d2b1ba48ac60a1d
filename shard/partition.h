// The points of one shard: on disk, in memory, and as readers see them.
//
// Reads are thread-safe and never wait for writers: they take a ReadView under
// a lock held for a few pointer copies. Changes come from one thread, the
// write log's (shard/write_log.h).
//
// A change goes to memory first, where no snapshot shows it, then to disk in
// one synced batch, and is then made visible by swapping snapshots. If the disk
// fails, what memory has in advance stays invisible for good.

#ifndef COTERIE_SHARD_PARTITION_H_
#define COTERIE_SHARD_PARTITION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/collection.h"
#include "api/limits.h"
#include "shard/collection_state.h"
#include "shard/partition_load.h"
#include "shard/record_codec.h"
#include "shard/record_store.h"
#include "shard/write_log.h"
#include "sync/mutex.h"

namespace coterie {

// One collection, in memory and on disk, at one sequence of the shard. Must not
// outlive the partition.
struct ReadView {
  int64_t sequence = 0;
  int64_t catalogue_version = 0;
  std::shared_ptr<const CollectionSnapshot> rows;
  std::shared_ptr<const RecordStore::Snapshot> records;
};

class Partition final : public LogSink {
 public:
  struct Options {
    ShardIdentity identity;  // without incarnation
    std::string path;
    // Null: RecordStore::Open.
    StoreOpener open_store = nullptr;
    Limits limits;
    SegmentTuning tuning;
  };

  // See Shard::Open.
  static absl::StatusOr<std::unique_ptr<Partition>> Open(Options options);

  // --- Any thread ---

  const ShardIdentity& identity() const { return identity_; }
  RecordStore* store() const { return store_.get(); }

  // NOT_FOUND naming the collection.
  absl::StatusOr<ReadView> View(absl::string_view collection) const;
  std::shared_ptr<const Catalogue> catalogue() const;

  struct Totals {
    int64_t sequence = 0;
    int64_t points = 0;
    int64_t memory_bytes = 0;
  };
  Totals totals() const;

  // --- The log's thread only ---

  absl::Status ApplyGroup(
      absl::Span<const LogEntry* const> entries,
      absl::Span<absl::StatusOr<WriteReply>> replies) override;

  // Replaces the catalogue if its version is `expected_version`; drops
  // collections that are gone with their records, adds new ones. `reply` is the
  // new version, or why the change was refused: ABORTED naming both versions;
  // INVALID_ARGUMENT for a catalogue that is none or that changes what a
  // collection is; FAILED_PRECONDITION if a slot that has points would be
  // taken away. An error returned means that the store failed.
  absl::Status PutCatalogue(int64_t expected_version, Catalogue next,
                            absl::StatusOr<int64_t>* reply);

 private:
  Partition(Options options, std::unique_ptr<RecordStore> store,
            ShardIdentity identity, LoadedPartition loaded);

  // Whether the entry still makes sense: its collection lives, its slots are
  // this shard's.
  absl::Status CheckEntry(const LogEntry& entry) const;
  // Makes the collections' present state what readers see.
  void Publish(const std::vector<uint32_t>& numbers);
  absl::Status CheckChange(const Catalogue& next) const;
  void AdoptCatalogue(Catalogue next);

  const Options options_;
  const std::unique_ptr<RecordStore> store_;
  const ShardIdentity identity_;

  // Of the log's thread.
  CollectionStates states_;
  int64_t sequence_ = 0;

  mutable Mutex view_mutex_;
  std::shared_ptr<const Catalogue> catalogue_ ABSL_GUARDED_BY(view_mutex_);
  int64_t visible_sequence_ ABSL_GUARDED_BY(view_mutex_) = 0;
  std::shared_ptr<const RecordStore::Snapshot> records_
      ABSL_GUARDED_BY(view_mutex_);
  // By name.
  absl::flat_hash_map<std::string, std::shared_ptr<const CollectionSnapshot>>
      visible_ ABSL_GUARDED_BY(view_mutex_);
};

}  // namespace coterie

#endif  // COTERIE_SHARD_PARTITION_H_
