// The upper halves of 8-bit codes as codes of their own: a first look at a row
// for half the memory traffic.
//
// Immutable after construction; any number of threads may share it.
//
// Of a stored code byte c + 128 = 16 H + L the plane holds H, read as the odd
// integer c4 = 2 H - 15 in -15 .. 15. The row then has a scale, an error that
// is measured and a norm of its own, by the rules of index/certified_codes.h
// with c4 in place of c: a = (1 - delta) / max(<y,c4> / <c4,c4>, 4 S), S the
// scale of the 8-bit code, rounded down, and so on. So index/certified_bound.h
// holds for its score word for word, but for UpperBound. Dimensions beyond d
// count as c4 = 0, as query codes are 0 there.
//
// Layout: 16 rows x 8 dimensions in 64 bytes; byte 4 r + j of line i of a block
// holds the H of row r, dimension 8 i + j, in its low half and that of
// dimension 8 i + 4 + j in its high half. The last line of an odd number of
// quads has no high half.
// Memory: d / 2 + 8 bytes a row.

#ifndef COTERIE_INDEX_CERTIFIED_PLANE_H_
#define COTERIE_INDEX_CERTIFIED_PLANE_H_

#include <cstdint>
#include <vector>

#include "index/certified_codes.h"
#include "index/certified_memory.h"
#include "index/vectors.h"

namespace coterie {

class CertifiedPlane {
 public:
  // Keeps nothing of either. REQUIRES: `codes` were made from `rows`. O(n d).
  CertifiedPlane(const CertifiedCodes& codes, RowsView rows);

  // Lines of a block of 16 rows.
  int64_t lines() const { return lines_a_block_; }
  // The block that starts at `row`, a multiple of CertifiedCodes::kBlockRows.
  const uint8_t* block(int64_t row) const {
    return lines_.data()->bytes + row * 4 * lines_a_block_;
  }
  // Fields from `row` on, readable to the end of its group.
  const float* a(int64_t row) const { return a_.data() + row; }
  const float* b(int64_t row) const { return b_.data() + row; }
  // Of the rows of panel i of the codes.
  const CertifiedPanel& panel(int64_t i) const {
    return panels_[static_cast<size_t>(i)];
  }

  // Bytes on the heap.
  int64_t MemoryBytes() const;

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  class Encoder;

  template <typename T>
  using Array = std::vector<T, internal_certified::StreamAllocator<T>>;

  int64_t lines_a_block_;
  Array<Line> lines_;
  Array<float> a_;
  Array<float> b_;
  std::vector<CertifiedPanel> panels_;
};

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_PLANE_H_
