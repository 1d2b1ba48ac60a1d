// Structures over the rows of one sealed segment, by which a search reads few
// of them; and their files, beside that of the segment.
//
// A SegmentIndex is immutable but for MakeCodes and SetScales, SegmentIndexes
// are thread-safe, the functions are stateless.
//
// Layout of a file, numbers little-endian: a header of one page, then the
// arrays of which the structure consists, each from the next page on. Header:
// magic (16 bytes) | format byte 1 | whose the segment is, as in its file |
// checksum of the segment file | kind | numbers: count x 8 bytes | arrays:
// count x (bytes, CRC-32C) | zeros | CRC-32C of what is before it. The checksum
// of the segment file stands for its content, so a structure is never used over
// rows that it was not made of.
//
// A file is complete or not there, as a segment's. Whatever else is wrong with
// it is DATA_LOSS saying what, and costs no data: the structure is built again.

#ifndef COTERIE_SHARD_SEGMENT_INDEX_H_
#define COTERIE_SHARD_SEGMENT_INDEX_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/collection.h"
#include "index/certified_codes.h"
#include "index/faiss_index.h"
#include "index/lsh.h"
#include "index/metric.h"
#include "index/planner.h"
#include "index/tree.h"
#include "shard/segment_disk.h"
#include "shard/segment_file.h"
#include "sync/mutex.h"

namespace coterie {

class SegmentIndex {
 public:
  // The rows of the segment lie in the tree's order.
  explicit SegmentIndex(Tree tree) : structure_(std::move(tree)) {}
  explicit SegmentIndex(LshIndex lsh) : structure_(std::move(lsh)) {}
  explicit SegmentIndex(FaissIndex faiss) : structure_(std::move(faiss)) {}

  // Makes codes of the segment's rows, if these have none of their own and the
  // structure needs them. Before anybody else has it. O(n d).
  void MakeCodes(RowsView rows, const CertifiedCodes* segment_codes);
  // What the structure searches with: the segment's codes, or these.
  const CertifiedCodes* codes(const CertifiedCodes* segment_codes) const {
    return own_codes_ != nullptr ? own_codes_.get() : segment_codes;
  }

  // How its searches and scans of the segment compare with what is predicted,
  // on this machine (shard/plan_scales.h); scales of other kinds are 1. Before
  // anybody else has it.
  void SetScales(const PlanScales& scales) { scales_ = scales; }
  const PlanScales& scales() const { return scales_; }

  IndexKind kind() const;
  // The one that it is; the others are null.
  const Tree* tree() const { return std::get_if<Tree>(&structure_); }
  const LshIndex* lsh() const { return std::get_if<LshIndex>(&structure_); }
  const FaissIndex* faiss() const {
    return std::get_if<FaissIndex>(&structure_);
  }
  Metric metric() const;
  int64_t dimension() const;
  int64_t size() const;
  int64_t MemoryBytes() const;

 private:
  std::variant<Tree, LshIndex, FaissIndex> structure_;
  std::unique_ptr<const CertifiedCodes> own_codes_;
  PlanScales scales_;
};

// Those of one segment: none at first.
class SegmentIndexes {
 public:
  // Null until it was set.
  std::shared_ptr<const SegmentIndex> Get(IndexKind kind) const;
  void Set(std::shared_ptr<const SegmentIndex> index);
  int64_t MemoryBytes() const;

 private:
  static size_t At(IndexKind kind) { return static_cast<size_t>(kind) - 1; }

  mutable Mutex mutex_;
  std::array<std::shared_ptr<const SegmentIndex>, std::size(kIndexKinds)>
      indexes_ ABSL_GUARDED_BY(mutex_);
};

// Which structure a file holds.
struct IndexName {
  SegmentName segment;
  uint32_t segment_checksum = 0;  // SegmentFile::checksum
  IndexKind kind = IndexKind::kTree;

  friend bool operator==(const IndexName&, const IndexName&) = default;
};

// "0000000042.tree".
std::string IndexFileName(int64_t segment_number, IndexKind kind);

// In place of a file of this name, if there is one. After an error there may be
// a file of another name, "*.tmp". REQUIRES: cluster uuid of at most 1 KiB.
absl::Status WriteIndexFile(SegmentDisk* disk, const std::string& folder,
                            const IndexName& name, const SegmentIndex& index);

// A file's content. DATA_LOSS if it is damaged or another one. Takes any bytes.
// O(bytes) time and memory.
absl::StatusOr<std::shared_ptr<SegmentIndex>> DecodeIndexFile(
    absl::string_view bytes, const IndexName& name);

// The same of a file, with its path in the message, for a segment of this shape
// and size. NOT_FOUND if there is none.
absl::StatusOr<std::shared_ptr<SegmentIndex>> ReadIndexFile(
    SegmentDisk* disk, const std::string& folder, const IndexName& name,
    const RowShape& shape, int64_t rows);

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_INDEX_H_
