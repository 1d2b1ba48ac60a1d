#include "index/distance.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "index/distance_kernels.h"
#include "index/distances.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/vectors.h"

namespace coterie {
namespace internal_distance {
namespace {

constexpr int kLanes = 8;

double AddLanes(const double (&lane)[kLanes]) {
  const double s0 = lane[0] + lane[4];
  const double s1 = lane[1] + lane[5];
  const double s2 = lane[2] + lane[6];
  const double s3 = lane[3] + lane[7];
  return (s0 + s2) + (s1 + s3);
}

}  // namespace

double DotScalar(const float* a, const float* b, int64_t d) {
  double lane[kLanes] = {};
  for (int64_t j = 0; j < d; ++j) {
    lane[j % kLanes] += static_cast<double>(a[j]) * static_cast<double>(b[j]);
  }
  return AddLanes(lane);
}

double SquaredL2Scalar(const float* a, const float* b, int64_t d) {
  double lane[kLanes] = {};
  for (int64_t j = 0; j < d; ++j) {
    const double t = static_cast<double>(a[j]) - static_cast<double>(b[j]);
    lane[j % kLanes] += t * t;
  }
  return AddLanes(lane);
}

double DotOn(SimdTarget target, VectorView a, VectorView b) {
  assert(a.size() == b.size());
  const int64_t d = static_cast<int64_t>(a.size());
  switch (target) {
    case SimdTarget::kAvx512:
      return DotAvx512(a.data(), b.data(), d);
    case SimdTarget::kAvx2:
      return DotAvx2(a.data(), b.data(), d);
    case SimdTarget::kScalar:
      break;
  }
  return DotScalar(a.data(), b.data(), d);
}

double SquaredL2On(SimdTarget target, VectorView a, VectorView b) {
  assert(a.size() == b.size());
  const int64_t d = static_cast<int64_t>(a.size());
  switch (target) {
    case SimdTarget::kAvx512:
      return SquaredL2Avx512(a.data(), b.data(), d);
    case SimdTarget::kAvx2:
      return SquaredL2Avx2(a.data(), b.data(), d);
    case SimdTarget::kScalar:
      break;
  }
  return SquaredL2Scalar(a.data(), b.data(), d);
}

}  // namespace internal_distance

namespace {

// INNER_PRODUCT or COSINE.
double OfDot(Metric metric, double dot, double q_squared_norm,
             double x_squared_norm) {
  if (metric == Metric::kInnerProduct) return 0.0 - dot;
  // Norms of nonzero float32 vectors lie in [2^-298, 2^270]: their product
  // neither under- nor overflows.
  const double scale = q_squared_norm * x_squared_norm;
  if (scale == 0) return 1;
  return std::clamp(1 - dot / std::sqrt(scale), 0.0, 2.0);
}

// SQUARED_L2 as it is; else inner products.
void SumsOfFour(Metric metric, VectorView q, const float* const* rows,
                double* sums) {
  const auto d = static_cast<int64_t>(q.size());
  const bool square = metric == Metric::kSquaredL2;
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      (square ? internal_distance::SquaredL2sAvx512
              : internal_distance::DotsAvx512)(q.data(), rows, d, sums);
      break;
    case SimdTarget::kAvx2:
      (square ? internal_distance::SquaredL2sAvx2
              : internal_distance::DotsAvx2)(q.data(), rows, d, sums);
      break;
    case SimdTarget::kScalar:
      for (int i = 0; i < kRowsAtOnce; ++i) {
        sums[i] = (square ? internal_distance::SquaredL2Scalar
                          : internal_distance::DotScalar)(q.data(), rows[i], d);
      }
  }
}

}  // namespace

double CanonicalDot(VectorView a, VectorView b) {
  return internal_distance::DotOn(ActiveSimdTarget(), a, b);
}

double CanonicalDistance(Metric metric, VectorView q, VectorView x) {
  if (metric != Metric::kCosine) {
    return CanonicalDistance(metric, q, x, 0, 0);
  }
  return CanonicalDistance(metric, q, x, CanonicalSquaredNorm(q),
                           CanonicalSquaredNorm(x));
}

double CanonicalDistance(Metric metric, VectorView q, VectorView x,
                         double q_squared_norm, double x_squared_norm) {
  const SimdTarget target = ActiveSimdTarget();
  if (metric == Metric::kSquaredL2) {
    return internal_distance::SquaredL2On(target, q, x);
  }
  return OfDot(metric, internal_distance::DotOn(target, q, x), q_squared_norm,
               x_squared_norm);
}

void CanonicalDistances(Metric metric, VectorView q,
                        const float* const (&rows)[kRowsAtOnce],
                        double q_squared_norm,
                        const double (&squared_norms)[kRowsAtOnce],
                        double (&distances)[kRowsAtOnce]) {
  SumsOfFour(metric, q, rows, distances);
  if (metric == Metric::kSquaredL2) return;
  for (int i = 0; i < kRowsAtOnce; ++i) {
    distances[i] =
        OfDot(metric, distances[i], q_squared_norm, squared_norms[i]);
  }
}

void CanonicalDots(VectorView q, RowsView rows, double* dots) {
  for (int64_t i = 0; i < rows.n; i += kRowsAtOnce) {
    const float* four[kRowsAtOnce];
    for (int64_t r = 0; r < kRowsAtOnce; ++r) {
      four[r] = rows.row(std::min(i + r, rows.n - 1)).data();
    }
    double products[kRowsAtOnce];
    SumsOfFour(Metric::kInnerProduct, q, four, products);
    const int64_t count = std::min<int64_t>(kRowsAtOnce, rows.n - i);
    std::copy_n(products, count, dots + i);
  }
}

}  // namespace coterie
