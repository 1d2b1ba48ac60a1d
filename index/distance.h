// The canonical distance: the one definition of how far two vectors are.
//
// Every answer is ordered by this value, whichever kernel or index proposed the
// candidate, so that results do not depend on CPU, batch, threads or shards.
// Stateless; any thread.
//
// In double, from float32 rows. Term j goes to lane j mod 8; each lane adds in
// order of j; lanes then add as 0+4, 1+5, 2+6, 3+7, then 0+2, 1+3, then 0+1.
// No FMA. Every SIMD target gives the same bits.
//
//   SQUARED_L2     sum of t*t, t = fl(q_j - x_j)
//   INNER_PRODUCT  0.0 - sum of q_j * x_j         (never -0)
//   COSINE         clamp(1 - <q,x> / sqrt(|q|^2 * |x|^2), 0, 2), one sqrt of
//                  the product, so that x = 2^e * q gets exactly 0
//
// Error against real arithmetic, u = 2^-53, g_n = n*u/(1-n*u): relative
// g_{ceil(d/8)+5} for squared L2; |q||x| * g_{ceil(d/8)+2} for inner product;
// absolute g_{2*ceil(d/8)+12} for cosine. For finite float32 input nothing
// overflows or underflows in double.
// Degenerate: d = 0 gives 0 (L2, inner product); a zero vector under cosine is
// refused before it gets here (ValidateVector) and gives distance 1 if it does.

#ifndef COTERIE_INDEX_DISTANCE_H_
#define COTERIE_INDEX_DISTANCE_H_

#include "index/metric.h"
#include "index/simd.h"
#include "index/vectors.h"

namespace coterie {

// Largest dimension for which the error bounds of this library are proven.
inline constexpr int64_t kMaxDimension = 16384;

// Canonical <a, b> in double, in the lane order above. REQUIRES: equal sizes.
double CanonicalDot(VectorView a, VectorView b);

// CanonicalDot(v, v), for the cosine overloads below.
inline double CanonicalSquaredNorm(VectorView v) { return CanonicalDot(v, v); }

// Canonical distance of q and x. REQUIRES: equal sizes. O(d).
double CanonicalDistance(Metric metric, VectorView q, VectorView x);

// As above with the squared norms known: the same bits, one pass instead of
// three under COSINE; norms are unused by the other metrics.
double CanonicalDistance(Metric metric, VectorView q, VectorView x,
                         double q_squared_norm, double x_squared_norm);

namespace internal_distance {
// For tests: one target's arithmetic. REQUIRES: the CPU has it.
double DotOn(SimdTarget target, VectorView a, VectorView b);
double SquaredL2On(SimdTarget target, VectorView a, VectorView b);
}  // namespace internal_distance

}  // namespace coterie

#endif  // COTERIE_INDEX_DISTANCE_H_
