// Sums and maxima over scratch arrays of doubles, padded with zeros to whole
// lanes, in shapes that compilers turn into vector code without reordering.
// Pure; any thread. Not canonical: within the stated error of any order.

#ifndef COTERIE_INDEX_CERTIFIED_LANES_H_
#define COTERIE_INDEX_CERTIFIED_LANES_H_

#include <cmath>
#include <cstdint>

namespace coterie::internal_certified {

// Arrays have a multiple of this many elements.
inline constexpr int64_t kLanes = 8;

inline int64_t PadToLanes(int64_t d) {
  return (d + kLanes - 1) / kLanes * kLanes;
}

inline double AddLanes(const double (&lane)[kLanes]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
         ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

inline double LaneDot(const double* a, const double* b, int64_t padded) {
  double lane[kLanes] = {};
  for (int64_t j = 0; j < padded; j += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += a[j + l] * b[j + l];
  }
  return AddLanes(lane);
}

// |y - scale * code|.
inline double ResidualNorm(const double* y, const double* code, double scale,
                           int64_t padded) {
  double lane[kLanes] = {};
  for (int64_t j = 0; j < padded; j += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const double r = y[j + l] - scale * code[j + l];
      lane[l] += r * r;
    }
  }
  return std::sqrt(AddLanes(lane));
}

inline double MaxMagnitude(const double* y, int64_t padded) {
  double lane[kLanes] = {};
  for (int64_t j = 0; j < padded; j += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const double m = std::fabs(y[j + l]);
      lane[l] = lane[l] < m ? m : lane[l];
    }
  }
  double largest = 0;
  for (double m : lane) largest = largest < m ? m : largest;
  return largest;
}

// code = y * inverse, clamped to +-limit and rounded to the nearest integer.
// REQUIRES: limit <= 2^50.
inline void RoundToCodes(const double* y, double inverse, double limit,
                         int64_t padded, double* code) {
  constexpr double kShift = 0x1.8p52;
  for (int64_t j = 0; j < padded; ++j) {
    double v = y[j] * inverse;
    v = v > limit ? limit : v;
    v = v < -limit ? -limit : v;
    code[j] = (v + kShift) - kShift;
  }
}

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_LANES_H_
