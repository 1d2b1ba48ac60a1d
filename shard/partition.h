// The points of one shard: on disk, in memory, and as readers see them.
//
// Reads are thread-safe and never wait for writers: they take a ReadView under
// a lock held for a few pointer copies. Changes come from one thread, the
// write log's (shard/write_log.h); another, the keeper
// (shard/segment_keeper.h), seals and merges segments between groups of writes.
// Neither holds the other up for longer than it takes to choose segments or to
// swap them.
//
// A change goes to memory first, where no snapshot shows it, then to disk in
// one synced batch, and is then made visible by swapping snapshots. If the disk
// fails, what memory has in advance stays invisible for good.

#ifndef COTERIE_SHARD_PARTITION_H_
#define COTERIE_SHARD_PARTITION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/collection.h"
#include "api/job_messages.h"
#include "api/limits.h"
#include "shard/collection_state.h"
#include "shard/partition_load.h"
#include "shard/record_codec.h"
#include "shard/record_store.h"
#include "shard/segment_disk.h"
#include "shard/segment_folder.h"
#include "shard/segment_manifest.h"
#include "shard/turn_mutex.h"
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
    // What segment files lie on; null: the machine's disk. Outlives this.
    SegmentDisk* segment_disk = nullptr;
  };

  // See Shard::Open.
  static absl::StatusOr<std::unique_ptr<Partition>> Open(Options options);

  // --- Any thread ---

  const ShardIdentity& identity() const { return identity_; }
  RecordStore* store() const { return store_.get(); }

  // NOT_FOUND naming the collection.
  absl::StatusOr<ReadView> View(absl::string_view collection) const;
  // Also ABORTED if the collection's number is not the one expected (0: any).
  absl::StatusOr<ReadView> View(absl::string_view collection,
                                uint32_t number) const;
  std::shared_ptr<const Catalogue> catalogue() const;

  // Named records of the collection whose names begin so, as they are now, by
  // name. DATA_LOSS naming the key of one that is damaged; RESOURCE_EXHAUSTED
  // if they are more than
  // limits.message_bytes together.
  absl::StatusOr<std::vector<StoredRecord>> ReadRecords(
      uint32_t collection, absl::string_view prefix, bool with_values) const;

  struct Totals {
    int64_t sequence = 0;
    int64_t points = 0;
    int64_t memory_bytes = 0;
  };
  Totals totals() const;

  // Of rows in full tails of all collections, which are yet to be sealed.
  int64_t unsealed_bytes() const {
    return unsealed_bytes_.load(std::memory_order_relaxed);
  }

  // Which segment files were refused at start, and why.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // --- The keeper's thread only ---

  // The builder's thread as well, as far as the folder allows.
  SegmentFolder* segment_folder() { return &segment_folder_; }
  // What start found and uses.
  const SegmentManifest& manifest_at_start() const { return manifest_; }
  // Called by the log's thread when there may be something to merge; before
  // any write.
  void OnMergeWanted(std::function<void()> wake) { wake_ = std::move(wake); }

  // As CollectionState, of the next collection that has something to merge.
  // Nothing once the store has failed: memory may be ahead of it.
  struct Merge {
    uint32_t collection = 0;
    RowShape shape;
    std::vector<std::shared_ptr<Segment>> inputs;
    std::vector<std::shared_ptr<const AttributeView>> attributes;  // of each
  };
  std::optional<Merge> StartMerge(bool files);
  // These do nothing if the collection was dropped or the store has failed.
  CollectionState::Changes TakeChanges(uint32_t collection);
  void FinishMerge(uint32_t collection, std::shared_ptr<Segment> merged);
  void AbandonMerge(uint32_t collection);

  // Whether there may be other segments than before; called by the keeper's and
  // the log's threads; to be set before either works.
  void OnSegmentsChanged(std::function<void()> wake) {
    segments_changed_ = std::move(wake);
  }

  // --- The index builder's thread only ---

  // Segments in files that lack an index that their collection is to have, the
  // tree first, since it moves rows; those that merge or soon will are left
  // out. Nothing once the store has failed.
  struct MissingIndex {
    uint32_t collection = 0;
    RowShape shape;
    IndexSpec spec;
    std::shared_ptr<Segment> segment;
  };
  std::vector<MissingIndex> MissingIndexes();
  // Whether it is one of a collection's now.
  bool Counts(const std::shared_ptr<Segment>& segment);
  // Memory of all indexes that there are.
  int64_t IndexBytes();
  // As CollectionState. StartRelay is null, and the others change nothing, if
  // the collection was dropped or the store has failed. FinishRelay releases
  // the file of `relaid` (segment_folder.h): from then on what segments hold
  // says whether it counts.
  std::shared_ptr<const AttributeView> StartRelay(
      uint32_t collection, const std::shared_ptr<Segment>& segment);
  CollectionState::Changes TakeRelayChanges(uint32_t collection);
  void FinishRelay(uint32_t collection, std::shared_ptr<Segment> relaid);

  // --- The keeper's thread only ---

  // What all collections' segments hold, by number, at one sequence, which is
  // durable. Nothing once the store has failed.
  struct Coverage {
    int64_t sequence = 0;
    absl::btree_map<uint32_t, CollectionState::Coverage> collections;
  };
  std::optional<Coverage> SegmentCoverage();

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

  // Sets or deletes a named record of the collection with the number of `put`.
  // `reply` is the version now stored (0: none), or why there is no change:
  // ABORTED naming both versions, NOT_FOUND if the collection is gone. Versions
  // are microseconds since the epoch, made to rise. An error returned means
  // that the store failed.
  absl::Status PutRecord(const RecordPut& put, absl::StatusOr<int64_t>* reply);

 private:
  Partition(Options options, std::unique_ptr<RecordStore> store,
            ShardIdentity identity, SegmentFolder folder,
            LoadedPartition loaded);

  // Whether the entry still makes sense: its collection lives, its slots are
  // this shard's.
  absl::Status CheckEntry(const LogEntry& entry) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  // Makes the collections' present state what readers see.
  void Publish(const std::vector<uint32_t>& numbers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  absl::Status CheckChange(const Catalogue& next) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  void AdoptCatalogue(Catalogue next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  void CountUnsealed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  // Null if it was dropped or the store has failed.
  CollectionState* Mergeable(uint32_t collection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_mutex_);
  void WakeKeeper() const {
    if (wake_ != nullptr) wake_();
  }
  void WakeBuilder() const {
    if (segments_changed_ != nullptr) segments_changed_();
  }

  const Options options_;
  const std::unique_ptr<RecordStore> store_;
  const ShardIdentity identity_;
  SegmentFolder segment_folder_;
  const SegmentManifest manifest_;
  const std::vector<std::string> warnings_;
  std::function<void()> wake_;
  std::function<void()> segments_changed_;

  // Held by the log's thread for a group, also while it is synced; by the
  // keeper between groups.
  TurnMutex state_mutex_;
  CollectionStates states_ ABSL_GUARDED_BY(state_mutex_);
  int64_t sequence_ ABSL_GUARDED_BY(state_mutex_) = 0;
  bool store_failed_ ABSL_GUARDED_BY(state_mutex_) = false;
  std::atomic<int64_t> unsealed_bytes_{0};

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
