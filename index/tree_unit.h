// Rows of unit length, rounded to float32. Pure; any thread.

#ifndef COTERIE_INDEX_TREE_UNIT_H_
#define COTERIE_INDEX_TREE_UNIT_H_

#include <cmath>
#include <cstddef>

#include "index/distance.h"
#include "index/vectors.h"

namespace coterie::internal_tree {

// v / |v| component by component, by one division in double and one rounding
// to float32: within 2^-24 (1 + 2^-12) of the true unit vector.
// REQUIRES: v is not zero.
inline void ToUnit(VectorView v, float* unit) {
  const double norm = std::sqrt(CanonicalSquaredNorm(v));
  for (size_t j = 0; j < v.size(); ++j) {
    unit[j] = static_cast<float>(static_cast<double>(v[j]) / norm);
  }
}

}  // namespace coterie::internal_tree

#endif  // COTERIE_INDEX_TREE_UNIT_H_
