// Views of vectors in memory: one row, or n x d rows.
//
// Views do not own; they are as thread-safe as the memory they show. All sizes
// are 64-bit: n * d exceeds 2^31 in ordinary use.

#ifndef COTERIE_INDEX_VECTORS_H_
#define COTERIE_INDEX_VECTORS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace coterie {

// Identity of a point. All 2^64 values are legal.
using PointId = uint64_t;

// One vector of d float32 components.
using VectorView = absl::Span<const float>;

// n x d float32 rows, row-major, `stride` floats from row to row (>= d).
struct RowsView {
  const float* data = nullptr;
  int64_t n = 0;
  int64_t d = 0;
  int64_t stride = 0;

  VectorView row(int64_t i) const {
    return VectorView(data + i * stride, static_cast<size_t>(d));
  }
};

}  // namespace coterie

#endif  // COTERIE_INDEX_VECTORS_H_
