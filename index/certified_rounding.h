// Double to float32, rounded in a stated direction. Pure; any thread.

#ifndef COTERIE_INDEX_CERTIFIED_ROUNDING_H_
#define COTERIE_INDEX_CERTIFIED_ROUNDING_H_

#include <cmath>
#include <limits>

namespace coterie {

// The largest float32 <= v. REQUIRES: |v| <= 2^127. NaN stays NaN.
inline float RoundDown(double v) {
  const float f = static_cast<float>(v);
  if (!(static_cast<double>(f) > v)) return f;
  return std::nextafterf(f, -std::numeric_limits<float>::infinity());
}

}  // namespace coterie

#endif  // COTERIE_INDEX_CERTIFIED_ROUNDING_H_
