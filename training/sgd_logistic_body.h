// Kernels::logistic of sgd_kernels.h over a vector type. Included only by files
// compiled for one instruction set: everything here is local to the file that
// includes it.

#ifndef COTERIE_TRAINING_SGD_LOGISTIC_BODY_H_
#define COTERIE_TRAINING_SGD_LOGISTIC_BODY_H_

#include <stdint.h>

#include "training/sgd_kernels.h"

namespace coterie::internal_sgd {
namespace {

// Vectors of kBytes, with GCC's operators.
template <int kBytes>
struct Vector {
  typedef double Double __attribute__((vector_size(kBytes)));
  typedef int64_t Integer __attribute__((vector_size(kBytes)));
  static constexpr int kLanes = kBytes / 8;

  static Double Load(const double* from) {
    Double v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  }
  static void Store(Double v, double* to) {
    __builtin_memcpy(to, &v, sizeof v);
  }
};

// SgdExp of training/sgd_math.h for x <= 0, operation by operation; anything
// for NaN.
template <typename V>
inline __attribute__((always_inline)) typename V::Double ExpOfNegative(
    typename V::Double x) {
  using Double = typename V::Double;
  using Integer = typename V::Integer;
  constexpr double kShift = 0x1.8p52;
  x = x < -708.0 ? Double{} - 708.0 : x;
  const Double shifted = x * 1.4426950408889634 + kShift;
  const Double k = shifted - kShift;
  const Double r = (x - k * 0x1.62e42fefap-1) - k * 0x1.cf79abc9e3b39p-40;
  const Double r2 = r * r;
  const Double r4 = r2 * r2;
  const Double a = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6));
  const Double b =
      (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
  const Double c = (1.0 / 40320 + r * (1.0 / 362880)) +
                   r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
  const Double d = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
  const Double p = a + r4 * (b + r4 * (c + r4 * d));
  // The last bits of `shifted` are k.
  const Integer exponent =
      ((Integer)shifted - __builtin_bit_cast(int64_t, kShift) + 1023) << 52;
  return p * (Double)exponent;
}

template <typename V>
void Logistic(const double* z, const double* labels, int count, double* factor,
              double* linear, double* growth) {
  using Double = typename V::Double;
  using Integer = typename V::Integer;
  for (int i = 0; i < count; i += V::kLanes) {
    const Double one = Double{} + 1.0;
    const Double y = V::Load(labels + i) > 0.0 ? one : -one;
    const Double m = y * V::Load(z + i);
    const Double minus = (Double)((Integer)m | INT64_MIN);
    const Double rest = m == m ? ExpOfNegative<V>(minus) : m;
    V::Store(m < 0.0 ? -m : Double{}, linear + i);
    V::Store(1.0 + rest, growth + i);
    V::Store(-y * (m < 0.0 ? one : rest) / (1.0 + rest), factor + i);
  }
}

}  // namespace
}  // namespace coterie::internal_sgd

#endif  // COTERIE_TRAINING_SGD_LOGISTIC_BODY_H_
