// What the value of a cell's mean says of its rows. Pure; any thread.
//
// V is a float32 value (index/tree_lanes.h) of the working query q and a mean
// c, a sum of d terms, each rounded at most d + 3 times: with g = (d + 3) v /
// (1 - (d + 3) v), v = 2^-24, and H = (d + 16) 2^-149 for subnormals,
//   L2   |q - c|^2 >= (V - H) / (1 + g)
//   dot  -<q, c> >= V - g |q||c| - H
// Working vectors of COSINE are unit vectors rounded to float32: that of the
// query is within 2^-23 of the true one, and radii count the same for rows.
// What double arithmetic and canonical distances add is below 2^-36, relatively
// (L2), to |q||x| (INNER_PRODUCT), or absolutely (COSINE).

#ifndef COTERIE_INDEX_TREE_CELL_BOUND_H_
#define COTERIE_INDEX_TREE_CELL_BOUND_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "index/metric.h"

namespace coterie::internal_tree {

class CellBound {
 public:
  // `max_norm` as in CellTree::Parts.
  CellBound(Metric metric, int64_t d, double q_squared_norm, float max_norm)
      : metric_(metric), subnormal_(static_cast<double>(d + 16) * 0x1p-149) {
    const double nv = static_cast<double>(d + 3) * 0x1p-24;
    const double gamma = nv / (1 - nv);
    shrink_ = (1 - 0x1p-36) / (1 + gamma);
    q_norm_ = std::sqrt(q_squared_norm) * (1 + 0x1p-36);
    dot_error_ = q_norm_ * (gamma + 0x1p-36) * static_cast<double>(max_norm) +
                 subnormal_;
  }

  // <= the canonical distance of every row within `radius` of the mean.
  double Proven(float value, float radius) const {
    const double v = value;
    if (!std::isfinite(v)) return -std::numeric_limits<double>::infinity();
    if (metric_ == Metric::kInnerProduct) {
      const double reach =
          q_norm_ * static_cast<double>(radius) * (1 + 0x1p-36) + dot_error_;
      return v - reach - 0x1p-40 * (std::fabs(v) + reach);
    }
    const bool unit = metric_ == Metric::kCosine;
    const double far = std::sqrt(std::max(0.0, (v - subnormal_) * shrink_));
    const double gap =
        std::max(0.0, far * (1 - 0x1p-40) - radius - (unit ? 0x1p-23 : 0.0));
    const double square = gap * gap * (1 - 0x1p-36);
    return unit ? 0.5 * square - 0x1p-36 : square;
  }

  // V + rho^2 - 2 z rho sqrt(V) as a canonical distance; a guess.
  double Promised(float value, float spread, double z) const {
    const double v = value;
    if (!std::isfinite(v)) return -std::numeric_limits<double>::infinity();
    if (metric_ == Metric::kInnerProduct) return v - q_norm_ * z * spread;
    const double square = v + static_cast<double>(spread) * spread -
                          2 * z * spread * std::sqrt(v);
    return metric_ == Metric::kCosine ? 0.5 * square : square;
  }

 private:
  Metric metric_;
  double subnormal_;
  double shrink_;
  double q_norm_;
  double dot_error_;
};

}  // namespace coterie::internal_tree

#endif  // COTERIE_INDEX_TREE_CELL_BOUND_H_
