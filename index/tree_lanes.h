// Distances of one query to 16 boxes or 16 rows at a time, a lane each: the
// kernels of the tree, one set per SIMD target. Pure functions; any thread.
//
// Plain declarations only: files compiled for one instruction set include
// this. Every target computes the same bits: terms are added in order of j, one
// rounding per operation, no FMA. Rounding is monotone, and the gap of a box,
// max(lo - q, q - hi, 0), is never above |q - x| for an x inside; so the value
// of a box is never above the value of any row inside it, in floats. The same
// holds of max(q lo, q hi) and q x. Hence one cut serves boxes and rows.

#ifndef COTERIE_INDEX_TREE_LANES_H_
#define COTERIE_INDEX_TREE_LANES_H_

#include <stdint.h>

namespace coterie::internal_tree {

// Lanes of a block.
inline constexpr int64_t kLanes = 16;
// Blocks of rows a call may take: 64 rows.
inline constexpr int64_t kMaxBlocks = 4;

struct LaneKernels {
  // boxes: for each of m coordinates 16 lower, then 16 upper limits, aligned to
  // 64 bytes. Writes 16 values; -infinity in place of one that is not finite,
  // which proves nothing. L2: squared distance. Dot: -(greatest product).
  void (*box_l2)(const float* boxes, int64_t m, const float* q, float* values);
  void (*box_dot)(const float* boxes, int64_t m, const float* q, float* values);

  // rows: `blocks` blocks (1 .. kMaxBlocks) of d x 16 floats, aligned to 64
  // bytes. Bit i of the result is clear iff the value of row i lies strictly
  // between `cut` and infinity. Value: |q - x|^2 or -<q, x>.
  uint64_t (*keep_l2)(const float* rows, int64_t blocks, int64_t d,
                      const float* q, float cut);
  uint64_t (*keep_dot)(const float* rows, int64_t blocks, int64_t d,
                       const float* q, float cut);

  // As above, but writes the 16 * blocks values as they are.
  void (*values_l2)(const float* rows, int64_t blocks, int64_t d,
                    const float* q, float* values);
  void (*values_dot)(const float* rows, int64_t blocks, int64_t d,
                     const float* q, float* values);
};

extern const LaneKernels kLaneKernelsScalar;
// REQUIRES, when called: the CPU has the instructions.
extern const LaneKernels kLaneKernelsAvx2;
extern const LaneKernels kLaneKernelsAvx512;

}  // namespace coterie::internal_tree

#endif  // COTERIE_INDEX_TREE_LANES_H_
