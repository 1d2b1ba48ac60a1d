// Inner loops of SGD gradients over float32 rows, one set per SIMD target.
// Pure functions of what they read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// All take d >= 1 and any alignment, use no FMA and give the same bits.
//
// A group of rows passes twice, `dots` one row after the other in the order of
// memory, `add` from the cache. Several rows side by side would read fewer
// weights, but as many streams as short as rows are more than the hardware
// foresees: half the speed from memory.

#ifndef COTERIE_TRAINING_SGD_KERNELS_H_
#define COTERIE_TRAINING_SGD_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_sgd {

// dots: out[r] = sum over j of w[j] rows[r][j], r < count, in the lane order of
// the canonical distance: term j to lane j mod 8, then 0+4, 1+5, 2+6, 3+7, then
// 0+2, 1+3, then 0+1. Meanwhile next[r], r < count, are fetched into the cache;
// `rows` again where none are wanted.
//
// add: sums[j] += factors[0] rows[0][j], then factors[1] rows[1][j], and so on
// for `count` rows.
//
// logistic, for i < count <= kLogisticRows, with y = 1 if labels[i] > 0, else
// -1, and m = y z[i]:
//   factor[i] = -y / (1 + e^m), what x is times in the gradient
//   linear[i] + log(growth[i]) = log(1 + e^-m), the loss: linear is
//   max(0, -m), growth 1 + e^-|m|
// NaN gives NaN in factor and growth. All arrays have kLogisticRows elements,
// of which those beyond `count` may be read and written.
constexpr int kLogisticRows = 16;

struct Kernels {
  void (*dots)(const double* w, const float* const* rows,
               const float* const* next, int count, int64_t d, double* out);
  void (*add)(const double* factors, const float* const* rows, int count,
              int64_t d, double* sums);
  void (*logistic)(const double* z, const double* labels, int count,
                   double* factor, double* linear, double* growth);
};

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace coterie::internal_sgd

#endif  // COTERIE_TRAINING_SGD_KERNELS_H_
