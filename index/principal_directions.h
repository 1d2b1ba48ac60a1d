// The directions in which rows differ most: orthogonal iteration (Golub, Van
// Loan, Matrix Computations, 8.2.4) on a sample.
//
// Pure; any thread.

#ifndef COTERIE_INDEX_PRINCIPAL_DIRECTIONS_H_
#define COTERIE_INDEX_PRINCIPAL_DIRECTIONS_H_

#include <cstdint>
#include <vector>

#include "index/vectors.h"

namespace coterie {

// `count` x d, by falling share of the rows' square sum, near the leading right
// singular vectors of `rows`, orthonormal but for rounding to float32. For good
// proportions rows are centred before. After `rounds` a direction may still be
// mixed with others that matter about as much. Directions beyond the rank of
// the rows are zero. The same bits on every CPU.
// REQUIRES: finite rows whose square sum is below 2^200, rounds >= 1, count <=
// min(n, d). O(n d count rounds) time, O(d count) memory.
std::vector<float> PrincipalDirections(RowsView rows, int64_t count,
                                       int64_t rounds);

}  // namespace coterie

#endif  // COTERIE_INDEX_PRINCIPAL_DIRECTIONS_H_
