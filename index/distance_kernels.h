// Inner loops of the canonical distance, one set per SIMD target. Pure
// functions of what they read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// All take d >= 0 floats at any alignment and give the same bits. Lanes start
// at +0 and a lane is never -0 (x + -x and +0 + -0 are +0), so adding +0 for a
// term that is not there changes nothing.

#ifndef COTERIE_INDEX_DISTANCE_KERNELS_H_
#define COTERIE_INDEX_DISTANCE_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_distance {

double DotScalar(const float* a, const float* b, int64_t d);
double SquaredL2Scalar(const float* a, const float* b, int64_t d);

double DotAvx2(const float* a, const float* b, int64_t d);
double SquaredL2Avx2(const float* a, const float* b, int64_t d);

double DotAvx512(const float* a, const float* b, int64_t d);
double SquaredL2Avx512(const float* a, const float* b, int64_t d);

// Of `a` and each of four rows.
void DotsAvx2(const float* a, const float* const* rows, int64_t d,
              double* sums);
void SquaredL2sAvx2(const float* a, const float* const* rows, int64_t d,
                    double* sums);

void DotsAvx512(const float* a, const float* const* rows, int64_t d,
                double* sums);
void SquaredL2sAvx512(const float* a, const float* const* rows, int64_t d,
                      double* sums);

}  // namespace coterie::internal_distance

#endif  // COTERIE_INDEX_DISTANCE_KERNELS_H_
