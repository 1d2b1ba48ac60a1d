// Inner loops of SGD gradients over four float32 rows at a time, one set per
// SIMD target. Pure functions of what they read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// All take d >= 0 at any alignment, use no FMA and give the same bits. Four
// rows at once read the weights, or read and write the sums, once for four; the
// order of additions into each sum is that of one row after the other.

#ifndef COTERIE_TRAINING_SGD_KERNELS_H_
#define COTERIE_TRAINING_SGD_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_sgd {

// out[r] = sum over j of w[j] rows[r][j], r < 4, in the lane order of the
// canonical distance: term j to lane j mod 8, then 0+4, 1+5, 2+6, 3+7, then
// 0+2, 1+3, then 0+1.
// sums[j] += factors[0] rows[0][j], then factors[1] rows[1][j], and so on;
// meanwhile `next`, four more rows of d, are fetched into the cache: streams as
// short as rows are too short for the hardware to foresee.
struct Kernels {
  void (*dots)(const double* w, const float* const* rows, int64_t d,
               double* out);
  void (*add)(const double* factors, const float* const* rows,
              const float* const* next, int64_t d, double* sums);
};

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace coterie::internal_sgd

#endif  // COTERIE_TRAINING_SGD_KERNELS_H_
