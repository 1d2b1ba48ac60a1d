// One collection on one shard, in memory: what the writer changes, and the
// immutable snapshots that readers see.
//
// CollectionState belongs to one writer at a time; CollectionSnapshot to any
// number of readers. Between the two stands Publish(): the writer changes rows
// first, unseen, and a snapshot then shows all of it at once. The snapshot must
// be handed to readers with synchronisation (shard/partition.h swaps a pointer
// under a lock); nobody ever waits for the other.
//
// A full tail is frozen and a new one begun. Sealing frozen tails and merging
// sealed segments is work for another thread: StartMerge says what to merge,
// FinishMerge puts the result in its place; between the two writes go on.

#ifndef COTERIE_SHARD_COLLECTION_STATE_H_
#define COTERIE_SHARD_COLLECTION_STATE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "api/collection.h"
#include "api/point.h"
#include "api/search.h"
#include "index/tree_boxes.h"
#include "index/vectors.h"
#include "shard/attribute_columns.h"
#include "shard/attribute_index.h"
#include "shard/request_table.h"
#include "shard/segment.h"

namespace coterie {

// When rows move between tail and sealed segments.
struct SegmentTuning {
  // A tail is frozen at this many rows or bytes, the smaller; also when so many
  // changes were made since the last one was.
  int64_t tail_rows = 65536;
  int64_t tail_bytes = int64_t{64} << 20;
  // Sealed segments are not merged beyond this size.
  int64_t segment_bytes = int64_t{256} << 20;
  // What a merge may take beside the rows it reads and the file it writes: 24
  // bytes a row, and D + 8 if the result is coded. Larger ones are not done.
  int64_t merge_bytes = int64_t{256} << 20;
  // Sealed segments of fewer rows get no index.
  int64_t index_rows = 4096;

  // Whether a sealed segment of so many rows gets indexes. A tree over codes
  // needs as many rows as these.
  bool IndexPays(const RowShape& shape, int64_t rows) const {
    return rows >= index_rows &&
           (shape.dimension <= BoxTree::kMaxDimension || shape.CodesPay(rows));
  }
};

// A collection at one sequence.
class CollectionSnapshot {
 public:
  const CollectionSpec& spec() const { return *spec_; }
  int64_t rows_live() const { return rows_live_; }
  // Sealed ones, then frozen tails, then the tail if it has rows.
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
  // come. FinishLoad ends it. Their attributes come later, see below.
  void StartLoad(int64_t expected);
  void Load(PointId id, VectorView vector);
  void FinishLoad();
  // A sealed segment found at start, without its rows `dead`. REQUIRES: these
  // are rows of it, distinct; no other segment has a live row of its ids.
  void Adopt(std::shared_ptr<Segment> segment, absl::Span<const int64_t> dead);
  // Attributes found at start, once all rows are there, of each live point
  // once, in any order; others are ignored. FinishLoadAttributes ends it.
  // Points whose attributes do not come are in doubt to every filter.
  void LoadAttributes(PointId id, const Attributes& attributes);
  void FinishLoadAttributes();
  // The slots' offsets now are what the segments that were loaded hold.
  void CoverOffsets();
  // Counts of a slot's writes start here.
  void SetOffset(int32_t slot, int64_t offset);

  // Stores the point; whether it replaced one. Unseen until Publish.
  // REQUIRES: sequence exceeds that of the last published snapshot; as Delete.
  bool Upsert(PointId id, VectorView vector, int64_t sequence,
              const Attributes& attributes = {});
  // Gives a live point other attributes; whether there is one.
  bool SetAttributes(PointId id, const Attributes& attributes);
  // Removes the point; whether there was one.
  bool Delete(PointId id, int64_t sequence);
  bool Contains(PointId id) const { return Find(id).segment != nullptr; }
  // Counts one write to the slot, of so many points; its offset.
  int64_t AdvanceOffset(int32_t slot, int64_t points = 1);
  // As the writer sees it.
  const SlotState& slot(int32_t slot) const;

  // What the slots have applied; the writer keeps it in step with the rows.
  RequestTable& requests() { return requests_; }

  // The same collection with other owners.
  void SetSpec(CollectionSpec spec);

  // --- Sealing and merging ---

  // Segments whose live rows are to become one sealed segment: frozen tails;
  // small sealed ones (each row takes part O(log rows) times: Bentley and Saxe
  // 1980, the logarithmic method); one that is over a fifth dead; with `files`,
  // one that is in memory only. Empty if there is nothing to do or a merge is
  // under way.
  std::vector<std::shared_ptr<Segment>> StartMerge(bool files);
  // Whether StartMerge would have something to do.
  bool WantsMerge(bool files) const;
  // The attributes of these inputs now; any thread may read them.
  std::vector<std::shared_ptr<const AttributeView>> MergedAttributes();
  // Rows of the merge's inputs that were deleted since StartMerge or the last
  // call, with the sequences, and those that got other attributes.
  struct Death {
    PointId id = 0;
    int64_t sequence = 0;
  };
  struct Update {
    PointId id = 0;
    Attributes attributes;
  };
  struct Changes {
    std::vector<Death> deaths;
    std::vector<Update> updates;  // the last one of an id counts

    size_t size() const { return deaths.size() + updates.size(); }
    // REQUIRES: sealed, of the merge's rows.
    void ApplyTo(Segment* merged) const;
  };
  Changes TakeChanges();
  // Ends the merge: `merged` takes the place of its inputs; null if they have
  // no live row. Readers of older snapshots keep what they hold. REQUIRES:
  // `merged` has the inputs' live rows and attributes as of the last
  // TakeChanges.
  void FinishMerge(std::shared_ptr<Segment> merged);
  void AbandonMerge();

  // Of rows in frozen tails, which are yet to be sealed. O(frozen tails).
  int64_t unsealed_bytes() const;

  // --- Another order of rows ---

  // Starts to lay the rows of a sealed segment out anew, for a tree; merges
  // leave it alone meanwhile. Its rows' attributes as they are; null if it
  // counts no more, or merges. REQUIRES: none is under way.
  std::shared_ptr<const AttributeView> StartRelay(
      const std::shared_ptr<Segment>& segment);
  // Sealed segments that neither merge nor soon will.
  std::vector<std::shared_ptr<Segment>> Settled() const;
  // As TakeChanges, of the segment's rows.
  Changes TakeRelayChanges();
  // Ends it: `relaid`, which has the segment's rows with the changes as of the
  // last call, takes its place; null: all stays as it is.
  void FinishRelay(std::shared_ptr<Segment> relaid);

  // Does all merges, in memory.
  void Maintain();

  // The sealed segments, and the offsets by slot of which they hold all rows
  // and deaths. Later writes may show in them too.
  struct Coverage {
    std::vector<std::shared_ptr<Segment>> segments;
    std::vector<int64_t> offsets;
  };
  Coverage coverage() const { return {sealed_, covered_}; }

  // Everything so far, as of `sequence`. Costs O(segments + slots).
  std::shared_ptr<const CollectionSnapshot> Publish(int64_t sequence);

 private:
  // The segment and row of a live id; a null segment if there is none.
  struct Place {
    Segment* segment = nullptr;
    int64_t row = 0;
  };
  Place Find(PointId id) const;
  bool IsMerging(const Segment* segment) const;
  void CountRow(PointId id, int sign);
  // Whether so many changes are in no sealed segment that it is time.
  bool WantsFreeze() const { return unsealed_ >= tuning_.tail_rows; }
  // Ends the tail; what was written so far will be covered once it is sealed.
  void Freeze();
  std::vector<int64_t> Offsets() const;
  // Whether sealed_[i] is laid out anew.
  bool Relays(size_t i) const { return sealed_[i] == relaying_; }
  // Which to merge; [first, end) of sealed_, empty if none.
  std::pair<size_t, size_t> NextMerge(bool files) const;
  bool Affordable(int64_t rows) const;
  // Whether so many rows may become one segment.
  bool Fits(int64_t rows) const;
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
  std::vector<int64_t> covered_;  // by slot: what sealed_ holds
  // Full tails, oldest first, with the offsets by slot when each was frozen.
  struct Frozen {
    std::shared_ptr<Segment> tail;
    std::vector<int64_t> offsets;
  };
  std::deque<Frozen> frozen_;
  std::shared_ptr<Segment> tail_;  // null until the first row
  int64_t unsealed_ = 0;           // changes since the last Freeze
  // Inputs of the merge under way: sealed ones, or the oldest frozen tails.
  std::vector<std::shared_ptr<Segment>> merging_;
  Changes changes_;  // of their rows
  // The segment that is laid out anew.
  std::shared_ptr<Segment> relaying_;
  Changes relay_changes_;
  int64_t load_remaining_ = 0;
  // By segment: what LoadAttributes was told.
  absl::flat_hash_map<Segment*, std::unique_ptr<AttributeColumnsBuilder>>
      loading_;
  // Its views are used again where nothing changed, with their bitmaps.
  std::shared_ptr<const CollectionSnapshot> last_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_COLLECTION_STATE_H_
