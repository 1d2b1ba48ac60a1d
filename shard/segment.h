// Rows of a collection in memory: the append-only tail and sealed segments.
//
// One writer, any number of readers, no locks between them; the methods say
// who may call them. A reader knows of a row only through a SegmentView that
// was handed to it with synchronisation (shard/collection_state.h).
//
// Invariants: (1) a row, once appended, never changes, except that deleted_at
// goes from 0 to a sequence once; (2) rows of a tail lie in the order in which
// they were written, so a prefix of them is a moment in time; (3) ids of a
// sealed segment are distinct; its rows are sorted by id, or lie as its tree
// wants them (docs/adr/0010); (4) at each sequence an id has at most one live
// row in all segments of a collection together.
//
// Memory: one mapping of zeroed pages a segment, touched as it fills, laid out
// as ids | squared norms | deleted_at | older versions | hash table | rows,
// each part on a 64-byte boundary; row i starts at rows + i * dimension. Where
// it pays a sealed segment also has 8-bit codes of its rows, and a tail of its
// complete blocks; codes of many dimensions have a plane or a head. A segment
// over a file has only deleted_at, these and the order of ids of its own.

#ifndef COTERIE_SHARD_SEGMENT_H_
#define COTERIE_SHARD_SEGMENT_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_head.h"
#include "index/certified_plane.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "shard/attribute_index.h"
#include "shard/segment_file.h"
#include "shard/segment_index.h"
#include "shard/tail_codes.h"

namespace coterie {

class Segment {
 public:
  // An empty segment to append to. Its pages are zero and take no memory until
  // rows come. `indexed`: with a hash table, so that Find works.
  // REQUIRES: 1 <= capacity < 2^31.
  static std::shared_ptr<Segment> NewTail(RowShape shape, int64_t capacity,
                                          bool indexed = true);

  // A sealed segment of the live rows of `inputs`, in memory; null if there are
  // none. Coded if RowShape::CodesPay. As LiveRows; coding is O(n d).
  static std::shared_ptr<Segment> Seal(
      RowShape shape, absl::Span<const std::shared_ptr<Segment>> inputs);

  // A sealed segment over a file, all rows live. Plane or head are made anew;
  // there are no indexes.
  static std::shared_ptr<Segment> OverFile(
      std::shared_ptr<const SegmentFile> file);

  // The live rows of `inputs` by id, valid as long as these. Any thread, while
  // no input is appended to; a row that is deleted meanwhile may be among them
  // or not. O(n log n) for tails, O(n) for sealed inputs.
  static std::vector<SegmentRow> LiveRows(
      absl::Span<const std::shared_ptr<Segment>> inputs);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // --- Writer only ---

  int64_t size() const { return size_; }
  int64_t live() const { return live_; }
  int64_t capacity() const { return capacity_; }
  // Codes of most rows of an indexed tail, where it pays; null if there are
  // none.
  const std::shared_ptr<const CodedBlocks>& tail_blocks() const {
    return tail_codes_.blocks();
  }

  // REQUIRES: a tail, not full; no live row of this id in it. O(d), but
  // for a row that completes a block of codes (shard/tail_codes.h).
  void Append(PointId id, VectorView vector);

  // The row is not seen by readers at `sequence` or later.
  // REQUIRES: row is live; sequence >= 1.
  void MarkDeleted(int64_t row, int64_t sequence);

  // MarkDeleted for the row of `id`, if there is one and it is live.
  // REQUIRES: sealed.
  void MarkIfLive(PointId id, int64_t sequence);

  // MarkIfLive's sister: new attributes for the row of `id`, if there is one.
  // REQUIRES: sealed.
  void SetAttributesOf(PointId id, const Attributes& attributes);

  // Of its rows, by number.
  AttributeIndex* attributes() { return &attributes_; }

  // Takes over what the inputs' live rows had when `views` were taken, one an
  // input. Any thread, for a segment that nobody else knows; deletions
  // meanwhile do not matter. REQUIRES: sealed, of these inputs. O(rows x
  // (attributes + log rows)).
  void AdoptAttributes(
      absl::Span<const std::shared_ptr<Segment>> inputs,
      absl::Span<const std::shared_ptr<const AttributeView>> views);

  // --- Any thread, for the rows it knows of ---

  PointId id(int64_t row) const { return ids_[row]; }
  const PointId* ids() const { return ids_; }
  // Null unless the shape has norms.
  const double* squared_norms() const { return norms_; }
  RowsView rows(int64_t n) const {
    return {rows_, n, shape_.dimension, shape_.dimension};
  }
  bool sealed() const { return sealed_; }
  // Codes of all rows; null if the segment has none.
  const CertifiedCodes* codes() const {
    return file_ != nullptr ? file_->codes() : codes_.get();
  }
  // What one query asks before the codes: a head where it pays, else a plane;
  // both null if the codes are.
  const CertifiedPlane* plane() const { return plane_.get(); }
  const CertifiedHead* head() const { return head_.get(); }
  FirstLook first_look() const { return {plane(), head()}; }

  // Structures over the rows, that come when they are built. Of use only if
  // sealed.
  SegmentIndexes& indexes() const { return indexes_; }
  // Null if the rows are in memory only.
  const std::shared_ptr<const SegmentFile>& file() const { return file_; }
  // Rows that a reader at `sequence` does not see, ascending, among all of a
  // sealed segment. O(rows).
  std::vector<int64_t> DeadRows(int64_t sequence) const;

  // Whether a reader at `sequence` sees the row.
  bool IsLive(int64_t row, int64_t sequence) const;

  // Among the first `rows` rows the one of `id` that a reader at `sequence`
  // sees; -1 if there is none. Sealed: O(log n). Tail: O(1 + versions of the
  // id that are newer than the reader). REQUIRES: sealed or indexed.
  int64_t Find(PointId id, int64_t rows, int64_t sequence) const;

  // Of `rows` rows and what belongs to them, codes of a sealed segment and
  // indexes included, attributes not.
  int64_t MemoryBytes(int64_t rows) const;

 private:
  Segment(RowShape shape, int64_t capacity, int64_t buckets, bool sealed,
          std::shared_ptr<const SegmentFile> file);

  // The bucket of the id, or the empty one where it belongs.
  int64_t Bucket(PointId id) const;
  // Of a sealed segment: as SegmentFile::by_id.
  absl::Span<const int32_t> by_id() const {
    return file_ != nullptr ? file_->by_id() : absl::Span<const int32_t>();
  }
  // The row of the id in a sealed segment, dead or alive; -1 if there is none.
  int64_t RowOf(PointId id) const;
  // Makes the head of the rows or the plane of the codes, where it pays. O(n d
  // directions).
  void MakeFirstLook();
  // Adds a row at the end.
  void Put(PointId id, double squared_norm, const float* vector);

  const RowShape shape_;
  const int64_t capacity_;
  const int64_t buckets_;  // of the hash table: 0 or a power of two
  const bool sealed_;
  int64_t size_ = 0;
  int64_t live_ = 0;

  const std::shared_ptr<const SegmentFile> file_;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  // What is read, in the mapping or in the file; and the same to be written to,
  // null over a file.
  const PointId* ids_ = nullptr;
  const double* norms_ = nullptr;
  const float* rows_ = nullptr;
  PointId* new_ids_ = nullptr;
  double* new_norms_ = nullptr;
  float* new_rows_ = nullptr;
  int64_t* deleted_at_ = nullptr;  // 0: live. Through std::atomic_ref only.
  // Tail: the row of the id's previous version, plus one; 0: none.
  int32_t* older_ = nullptr;
  // Tail: row of the newest version plus one; 0: empty. Linear probing, at
  // most half full. Through std::atomic_ref only.
  int32_t* table_ = nullptr;
  std::unique_ptr<const CertifiedCodes> codes_;
  std::unique_ptr<const CertifiedPlane> plane_;
  std::unique_ptr<const CertifiedHead> head_;
  TailCodes tail_codes_;
  mutable SegmentIndexes indexes_;  // thread-safe
  AttributeIndex attributes_;       // the writer's
};

// What one snapshot sees of a segment. Any thread.
class SegmentView {
 public:
  // To be made by the segment's writer. REQUIRES: `live` of its rows are live
  // at `sequence`, and have `attributes` then.
  SegmentView(std::shared_ptr<const Segment> segment, int64_t sequence,
              std::shared_ptr<const AttributeView> attributes)
      : segment_(std::move(segment)),
        rows_(segment_->size()),
        live_(segment_->live()),
        sequence_(sequence),
        tail_blocks_(segment_->tail_blocks()),
        attributes_(std::move(attributes)) {}

  const std::shared_ptr<const Segment>& segment() const { return segment_; }
  int64_t rows() const { return rows_; }
  int64_t live() const { return live_; }
  // Of the first rows of a tail; null if none is coded.
  const CodedBlocks* tail_blocks() const { return tail_blocks_.get(); }
  const std::shared_ptr<const AttributeView>& attributes() const {
    return attributes_;
  }

  // Of the live rows those that the filter admits. Rows whose attributes are
  // not known, as their records were damaged at start, are in doubt.
  // O(rows / 64 x conditions, and the rows that pass one).
  Admission Evaluate(const Filter& filter) const;

  int64_t MemoryBytes() const {
    return segment_->MemoryBytes(rows_) +
           coterie::MemoryBytes(tail_blocks_.get()) +
           attributes_->MemoryBytes();
  }

  // The row of a live id; -1 if there is none.
  int64_t Find(PointId id) const {
    return segment_->Find(id, rows_, sequence_);
  }

  // What an exact scan reads. The first call after deletions marks live rows
  // in a bitmap, O(rows); concurrent first calls wait for one another.
  ScanRows Scannable() const { return Scannable(0, rows_); }
  // Of rows [begin, end). REQUIRES: begin is a multiple of 64.
  ScanRows Scannable(int64_t begin, int64_t end) const;

 private:
  const std::shared_ptr<const Segment> segment_;
  const int64_t rows_;
  const int64_t live_;
  const int64_t sequence_;
  const std::shared_ptr<const CodedBlocks> tail_blocks_;
  const std::shared_ptr<const AttributeView> attributes_;
  mutable std::once_flag marked_;
  mutable std::vector<uint64_t> bits_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_H_
