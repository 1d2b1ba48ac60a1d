// Codes of the rows of a tail, made as it grows.
//
// One writer; the lists that it hands out never change and may be read on any
// thread. Rows are coded in small blocks as they complete them, so that few are
// not; small blocks that fill a large one are coded anew, as one: each block
// costs a query something of its own. So a row is coded twice at most, and a
// list has (rows / kLarge) + 3 blocks at most.

#ifndef COTERIE_SHARD_TAIL_CODES_H_
#define COTERIE_SHARD_TAIL_CODES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "index/certified_codes.h"
#include "index/certified_plane.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

// Rows [first, first + codes.size()) of a tail.
struct CodedBlock {
  int64_t first;
  CertifiedCodes codes;
  std::unique_ptr<const CertifiedPlane> plane;  // null: too few dimensions
};

// By row, without gaps from row 0 on.
using CodedBlocks = std::vector<std::shared_ptr<const CodedBlock>>;

class TailCodes {
 public:
  static constexpr int64_t kSmall = 2048;
  static constexpr int64_t kLarge = 4 * kSmall;
  // Below so many dimensions the 8 bytes a row of a plane eat up what its half
  // codes save.
  static constexpr int64_t kPlaneFrom = 32;

  // To be called for each row that is added; `rows` are all of the tail, of
  // which those that were there before have not moved. O(kLarge d) if the last
  // completes a block, O(1) otherwise.
  void Grow(Metric metric, RowsView rows);

  // Of the rows so far; null if none is coded.
  const std::shared_ptr<const CodedBlocks>& blocks() const { return blocks_; }

 private:
  std::shared_ptr<const CodedBlocks> blocks_;
};

// On the heap; 0 for null.
int64_t MemoryBytes(const CodedBlocks* blocks);

}  // namespace coterie

#endif  // COTERIE_SHARD_TAIL_CODES_H_
