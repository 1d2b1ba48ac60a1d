// What a group of log entries changes: rows in memory, where no reader sees
// them yet, and one batch for the disk.
//
// Not thread-safe; lives on the log's thread for one group, and nothing else
// changes the states meanwhile. An entry is applied whole or not at all. Slots
// that have applied an entry's request before are left alone.

#ifndef COTERIE_SHARD_GROUP_WRITER_H_
#define COTERIE_SHARD_GROUP_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/limits.h"
#include "api/point.h"
#include "api/shard_messages.h"
#include "shard/partition_load.h"
#include "shard/record_store.h"
#include "shard/write_log.h"

namespace coterie {

class GroupWriter {
 public:
  // `sequence` is that of the last entry before the group. All outlive it.
  GroupWriter(absl::Span<const LogEntry* const> entries, int64_t sequence,
              const Limits& limits, CollectionStates* states,
              RecordStore* store);

  // REQUIRES: one of the entries, in order; its collection and slots are the
  // shard's. INVALID_ARGUMENT naming point and limit if merged attributes are
  // over it; DATA_LOSS naming the record if stored ones are damaged. After an
  // error the entry changes nothing.
  absl::StatusOr<WriteReply> Apply(const LogEntry& entry);

  // Of the last entry applied.
  int64_t sequence() const { return sequence_; }

  // Whether nothing was changed.
  bool empty() const { return touched_.empty(); }
  // Completes the batch with the state of what was changed. To be called once.
  const StoreBatch& Finish();
  // The collections that were changed.
  std::vector<uint32_t> collections() const;

 private:
  // The whole new attributes of the points that an entry updates.
  struct Updates {
    absl::flat_hash_map<PointId, Attributes> attributes;
    std::vector<PointId> missing;  // in the entry's order
  };

  bool IsRepeat(const LogEntry& entry, const SlotMutations& slot) const;
  absl::StatusOr<Updates> Resolve(const LogEntry& entry) const;
  // Which of the entry's deletes its filter does not admit any more.
  absl::StatusOr<absl::flat_hash_set<PointId>> Spared(
      const LogEntry& entry) const;
  // Adds what `keys` have, by this group or on the disk, to `updates`.
  absl::Status ReadStored(const std::vector<PointId>& ids,
                          const std::vector<std::string>& keys,
                          Updates* updates) const;
  void ApplySlot(const LogEntry& entry, const SlotMutations& slot,
                 const absl::flat_hash_set<PointId>& spared, Updates* updates,
                 WriteReply* reply);
  void PutAttributes(const std::string& key, const Attributes& attributes);
  void NoteRequest(const LogEntry& entry, int32_t slot, int64_t offset);

  int64_t sequence_;
  const Limits& limits_;
  CollectionStates* const states_;
  RecordStore* const store_;
  StoreBatch batch_;
  // By collection number.
  absl::flat_hash_map<uint32_t, absl::btree_set<int32_t>> touched_;
  // Attributes that the group has written, by key; kept only if some entry
  // merges into what is there, or asks for it.
  const bool reads_;
  absl::flat_hash_map<std::string, Attributes> written_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_GROUP_WRITER_H_
