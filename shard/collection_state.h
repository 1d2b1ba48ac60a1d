// One collection on one shard, in memory: what the writer changes, and the
// immutable snapshots that readers see.
//
// CollectionState belongs to one writer thread; CollectionSnapshot to any
// number of readers. Between the two stands Publish(): the writer changes rows
// first, unseen, and a snapshot then shows all of it at once. The snapshot must
// be handed to readers with synchronisation (shard/partition.h swaps a pointer
// under a lock); nobody ever waits for the other.

#ifndef COTERIE_SHARD_COLLECTION_STATE_H_
#define COTERIE_SHARD_COLLECTION_STATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/collection.h"
#include "api/search.h"
#include "index/vectors.h"
#include "shard/request_table.h"
#include "shard/segment.h"

namespace coterie {

// When rows move between tail and sealed segments.
struct SegmentTuning {
  // A tail is sealed at this many rows or bytes, the smaller.
  int64_t tail_rows = 65536;
  int64_t tail_bytes = int64_t{64} << 20;
  // Sealed segments are not merged beyond this size, so that the writer pauses
  // briefly and memory peaks little.
  int64_t segment_bytes = int64_t{256} << 20;
};

// A collection at one sequence.
class CollectionSnapshot {
 public:
  const CollectionSpec& spec() const { return *spec_; }
  int64_t rows_live() const { return rows_live_; }
  // Sealed ones, then the tail if it has rows.
  const std::vector<std::shared_ptr<const SegmentView>>& segments() const {
    return segments_;
  }
  // Of every slot that the shard owns, by slot.
  const std::vector<SlotState>& slots() const { return slots_; }

  // The vector of a live point. O(segments x log rows).
  std::optional<VectorView> Find(PointId id) const;

  int64_t MemoryBytes() const;

 private:
  friend class CollectionState;

  std::shared_ptr<const CollectionSpec> spec_;
  int64_t rows_live_ = 0;
  std::vector<std::shared_ptr<const SegmentView>> segments_;
  std::vector<SlotState> slots_;
};

class CollectionState {
 public:
  // Empty; rows come by Upsert, or by Load before anything else.
  // REQUIRES: spec is valid and has owners.
  CollectionState(CollectionSpec spec, int32_t shard_id, SegmentTuning tuning);

  const CollectionSpec& spec() const { return *spec_; }
  int64_t rows_live() const { return rows_live_; }
  // Whether the shard owns the slot. REQUIRES: slot in range.
  bool Owns(int32_t slot) const;

  // Rows found at start, each id once, in any order; about `expected` will
  // come. FinishLoad ends it.
  void StartLoad(int64_t expected);
  void Load(PointId id, VectorView vector);
  void FinishLoad();
  // Counts of a slot's writes start here.
  void SetOffset(int32_t slot, int64_t offset);

  // Stores the point; whether it replaced one. Unseen until Publish.
  // REQUIRES: sequence exceeds that of the last published snapshot; as Delete.
  bool Upsert(PointId id, VectorView vector, int64_t sequence);
  // Removes the point; whether there was one.
  bool Delete(PointId id, int64_t sequence);
  bool Contains(PointId id) const { return Find(id).segment != nullptr; }
  // Counts one write to the slot; its offset.
  int64_t AdvanceOffset(int32_t slot);
  // As the writer sees it.
  const SlotState& slot(int32_t slot) const;

  // What the slots have applied; the writer keeps it in step with the rows.
  RequestTable& requests() { return requests_; }

  // The same collection with other owners.
  void SetSpec(CollectionSpec spec);

  // Merges small sealed segments (each row takes part O(log rows) times:
  // Bentley and Saxe 1980, the logarithmic method) and rewrites at most one
  // that is over a fifth dead. Readers of older snapshots keep what they hold.
  void Maintain();

  // Everything so far, as of `sequence`. Costs O(segments + slots).
  std::shared_ptr<const CollectionSnapshot> Publish(int64_t sequence);

 private:
  // The segment and row of a live id; a null segment if there is none.
  struct Place {
    Segment* segment = nullptr;
    int64_t row = 0;
  };
  Place Find(PointId id) const;
  void CountRow(PointId id, int sign);
  void SealTail();
  // Replaces sealed_[first, end) by one segment of their live rows.
  void Merge(size_t first, size_t end);
  std::shared_ptr<const SegmentView> View(
      const std::shared_ptr<Segment>& segment, int64_t sequence) const;

  std::shared_ptr<const CollectionSpec> spec_;
  const int32_t shard_id_;
  const SegmentTuning tuning_;
  const RowShape shape_;
  int64_t rows_live_ = 0;
  std::vector<SlotState> slots_;  // all, by slot
  RequestTable requests_;
  std::vector<std::shared_ptr<Segment>> sealed_;
  std::shared_ptr<Segment> tail_;  // null until the first row
  int64_t load_remaining_ = 0;
  // Its views are used again where nothing changed, with their bitmaps.
  std::shared_ptr<const CollectionSnapshot> last_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_COLLECTION_STATE_H_
