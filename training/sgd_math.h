// exp and log(1 + x) with the same bits on every machine: the C library's
// depend on the CPU that picks their variant. Pure functions; any thread.

#ifndef COTERIE_TRAINING_SGD_MATH_H_
#define COTERIE_TRAINING_SGD_MATH_H_

#include <bit>
#include <cstdint>

namespace coterie {

// e^x, relative error below 2^-50; x below -708 gives e^-708, above 709 e^709.
// REQUIRES: not NaN.
inline double SgdExp(double x) {
  if (x < -708) x = -708;
  if (x > 709) x = 709;
  constexpr double kShift = 0x1.8p52;  // rounds to an integer when added
  const double k = (x * 1.4426950408889634 + kShift) - kShift;
  const double r = (x - k * 0x1.62e42fefap-1) - k * 0x1.cf79abc9e3b39p-40;
  // Taylor to degree 13, |r| <= 0.35: the term left out is below 2^-57. In
  // pairs, for the sake of instruction-level parallelism.
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double a = (1 + r) + r2 * (0.5 + r * (1.0 / 6));
  const double b =
      (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
  const double c = (1.0 / 40320 + r * (1.0 / 362880)) +
                   r2 * (1.0 / 3628800 + r * (1.0 / 39916800));
  const double d = 1.0 / 479001600 + r * (1.0 / 6227020800.0);
  const double p = a + r4 * (b + r4 * (c + r4 * d));
  const uint64_t bits = static_cast<uint64_t>(1023 + static_cast<int64_t>(k));
  return p * std::bit_cast<double>(bits << 52);
}

// log of a normal x > 0, absolute error below 2^-50 (1 + |log x|).
inline double SgdLog(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double m =
      std::bit_cast<double>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  // ln m = 2 atanh t, |t| <= 0.172: the term left out is below 2^-60.
  const double t = (m - 1) / (m + 1);
  const double square = t * t;
  double series = 0;
  for (int power = 23; power >= 1; power -= 2) {
    series = series * square + 1.0 / power;
  }
  return static_cast<double>(exponent) * 0.69314718055994531 + 2 * t * series;
}

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_MATH_H_
