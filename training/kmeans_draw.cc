#include "training/kmeans_draw.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "training/draw.h"

namespace coterie {

double NegativeLog(double u) {
  int exponent = 0;
  double m = std::frexp(u, &exponent);  // u = m 2^exponent, m in [1/2, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  // ln m = 2 atanh(t); |t| <= 0.1716, so the term left out is below 2^-60.
  const double t = (m - 1) / (m + 1);
  const double square = t * t;
  double series = 0;
  for (int power = 23; power >= 1; power -= 2) {
    series = series * square + 1.0 / power;
  }
  constexpr double kLn2 = 0.69314718055994531;
  return -(exponent * kLn2 + 2 * t * series);
}

double RaceKey(uint64_t hash, double mass) {
  if (!(mass > 0)) return std::numeric_limits<double>::infinity();
  return NegativeLog(UniformOf(hash)) / mass;
}

}  // namespace coterie
