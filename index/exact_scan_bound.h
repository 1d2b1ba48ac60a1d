// When a float32 value proves that a row lies beyond a threshold.
//
// Pure functions; any thread. Valid for d <= kMaxDimension, finite float32
// rows and queries, round-to-nearest, no DAZ or FTZ.
//
// Notation: u = 2^-53, v = 2^-24, g_n = n v / (1 - n v). D, P: distance and
// inner product over the reals; D~: canonical distance; t: threshold. The
// kernels give floats V. Wanted: D~ <= t implies that V passes.
//
// A kernel adds ceil(d/8) terms per lane or fewer, the lanes in a tree of at
// most 4 levels, and rounds a term at most 3 times before. So each term meets
// at most n = ceil(d/8) + 8 roundings. A rounding to a subnormal also adds at
// most 2^-150, and less than d + 16 do, each grown by later roundings to at
// most twice: together H = (d + 16) 2^-149. (Sums and differences of float32
// have no such error; products do.) If V is finite no step overflowed: from
// infinity there is no way back but NaN.
//
// SQUARED_L2. Terms are >= 0, so V <= D (1 + g_n) + H, and D <= D~ / (1 -
// 2^-41) (index/distance.h). Hence V <= a, a = RU(t (1 + g_n)(1 + 2^-40) + H).
//
// INNER_PRODUCT. |V - P| <= g_n |q||x| + H by Cauchy-Schwarz, and canonical
// arithmetic adds less than 2^-41 |q||x|. D~ <= t means P~ >= -t, so
//   V >= A + B |x|,  A = -t - H,  B = -(g_n + 2^-39) |q|.
//
// COSINE. The canonical error is at most 2^-40, so D~ <= t < 2 means that
// P >= (1 - t - 2^-40) |q||x|, and t >= 2 makes this trivial. As before,
//   V >= A + B |x|,  A = -H,  B = (1 - t - g_n - 2^-39) |q|.
//
// The kernel computes fl(a + b m), m = fl(|x|), in float32, with or without
// FMA. For |x| in [2^-100, 2^120], |m - |x|| <= 1.01 v |x|; the product and the
// sum err by at most 2.1 v (|a| + |b| m) + 2^-150. So
//   a = RD(A - 2^-21 |A| - 2^-148),  b = RD(B - 2^-21 |B|)
// pay more than twice (2^-21 = 8 v) for everything, the double arithmetic of A
// and B included. Other norms give m = NaN, which rules nothing out, but
// |x| = 0, which is exact. Overflow is harmless: a + b m becomes +infinity only
// if A + B |x| is beyond every float; -infinity and NaN rule nothing out.

#ifndef COTERIE_INDEX_EXACT_SCAN_BOUND_H_
#define COTERIE_INDEX_EXACT_SCAN_BOUND_H_

#include <cstdint>

#include "index/metric.h"

namespace coterie::internal_scan {

// What a kernel compares with (index/exact_scan_kernels.h). Coefficients may be
// infinite.
struct CutOff {
  float a = 0;
  float b = 0;
};

// The cut-off of one query. `threshold` is inclusive and may be infinite.
CutOff CutOffFor(Metric metric, int64_t d, double q_squared_norm,
                 double threshold);

// m of the derivation above, from squared norms. REQUIRES: n is even.
void FilterNorms(const double* squared_norms, int64_t n, float* norms);

}  // namespace coterie::internal_scan

#endif  // COTERIE_INDEX_EXACT_SCAN_BOUND_H_
