// Vectors as 8-bit codes, in double: of centres, and of rows that float32
// arithmetic does not hold (coded_nearest.h). Pure functions; any thread.

#ifndef COTERIE_TRAINING_CODE_VECTOR_H_
#define COTERIE_TRAINING_CODE_VECTOR_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "index/metric.h"
#include "index/vectors.h"

namespace coterie::internal_nearest {

// y = (x - offset) / 2^unit (COSINE: x/|x|); relative error below 2^-50, or
// 2^-40 under COSINE.
inline void Centre(Metric metric, VectorView x, double squared_norm,
                   const std::vector<float>& offset, int unit,
                   std::vector<double>& y) {
  if (metric == Metric::kCosine) {
    const double inverse = 1 / std::sqrt(squared_norm);
    for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse;
    return;
  }
  const double scale = std::ldexp(1.0, -unit);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (static_cast<double>(x[i]) - offset[i]) * scale;
  }
}

inline double MaxOf(const std::vector<double>& y) {
  double most = 0;
  for (double v : y) most = std::max(most, std::fabs(v));
  return most;
}

struct Coded {
  double error;         // >= |y - scale code|
  int64_t code_square;  // sum of squared codes
  int32_t sum;          // of codes
};

// Codes of y, to the nearest, at most `limit`.
template <typename Store>
Coded CodeVector(const std::vector<double>& y, double scale, int limit,
                 Store store) {
  constexpr double kShift = 0x1.8p52;
  const double inverse = 1 / scale;
  const double most = limit;
  double residual = 0;
  double norm = 0;
  Coded coded = {0, 0, 0};
  for (size_t i = 0; i < y.size(); ++i) {
    const double v = std::min(std::max(y[i] * inverse, -most), most);
    const double code = (v + kShift) - kShift;
    const double r = y[i] - scale * code;
    residual += r * r;
    norm += y[i] * y[i];
    const int32_t c = static_cast<int32_t>(code);
    coded.code_square += c * c;
    coded.sum += c;
    store(i, c);
  }
  coded.error = std::sqrt(residual) * (1 + 0x1p-30) + std::sqrt(norm) * 0x1p-38;
  return coded;
}

inline float FloatAtLeast(double v) {
  const float f = static_cast<float>(v);
  return f < v ? std::nextafterf(f, std::numeric_limits<float>::infinity()) : f;
}

}  // namespace coterie::internal_nearest

#endif  // COTERIE_TRAINING_CODE_VECTOR_H_
