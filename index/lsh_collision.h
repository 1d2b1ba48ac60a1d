// How likely a vector at an angle from the query has a given cross-polytope
// hash. Immutable after construction; any thread.
//
// A hash is the largest of D coordinates, with its sign, of a randomly rotated
// vector. Of the query's rotated coordinates only the gap matters here: how far
// below the largest (in magnitude) the coordinate of the hash lies, coordinates
// having variance 1. The share of hits is counted over pairs of normal vectors,
// once per D and process: seeded, so the same everywhere.

#ifndef COTERIE_INDEX_LSH_COLLISION_H_
#define COTERIE_INDEX_LSH_COLLISION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace coterie::internal_lsh {

class CollisionTable {
 public:
  static constexpr int64_t kAngles = 96;  // over [0, pi/2]
  static constexpr int64_t kGaps = 33;    // none, then 32 over (0, kMaxGap)
  static constexpr double kMaxGap = 2;

  // The table for D = 2^log2_dims, which is made at first use (about 30 ms for
  // 128) and lives as long as the process. REQUIRES: 0 <= log2_dims < 24.
  static const CollisionTable& For(int64_t log2_dims);

  // Row of the table for an angle in radians: that of the next larger angle
  // counted, whose probabilities are less. kAngles if there is none.
  static int64_t AngleRow(double angle);
  // Column for a gap >= 0. kGaps if it is too large to be probed.
  static int64_t GapColumn(float gap);

  // REQUIRES: row < kAngles, column < kGaps.
  float At(int64_t row, int64_t column) const {
    return probabilities_[static_cast<size_t>(row * kGaps + column)];
  }

 private:
  explicit CollisionTable(int64_t dims);

  std::vector<float> probabilities_;
};

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_COLLISION_H_
