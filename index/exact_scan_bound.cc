#include "index/exact_scan_bound.h"

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "index/metric.h"

namespace coterie::internal_scan {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float RoundDown(double x) {
  const float f = static_cast<float>(x);
  return static_cast<double>(f) > x ? std::nextafterf(f, -kInfinity) : f;
}

float RoundUp(double x) { return -RoundDown(-x); }

// g_n of the header.
double Gamma(int64_t d) {
  const double nv = static_cast<double>((d + 7) / 8 + 8) * 0x1p-24;
  return nv / (1 - nv);
}

// Below a + b m for every m, whatever the rounding of the kernel.
CutOff Lowered(double a, double b) {
  return {RoundDown(a - 0x1p-21 * std::fabs(a) - 0x1p-148),
          RoundDown(b - 0x1p-21 * std::fabs(b))};
}

}  // namespace

CutOff CutOffFor(Metric metric, int64_t d, double q_squared_norm,
                 double threshold) {
  const double gamma = Gamma(d);
  const double subnormal = static_cast<double>(d + 16) * 0x1p-149;
  switch (metric) {
    case Metric::kSquaredL2:
      return {RoundUp(threshold * (1 + gamma) * (1 + 0x1p-40) + subnormal), 0};
    case Metric::kInnerProduct:
      return Lowered(-threshold - subnormal,
                     -(gamma + 0x1p-39) * std::sqrt(q_squared_norm));
    case Metric::kCosine:
      return Lowered(-subnormal, (1 - threshold - gamma - 0x1p-39) *
                                     std::sqrt(q_squared_norm));
  }
  return {};
}

void FilterNorms(const double* squared_norms, int64_t n, float* norms) {
  // SSE2, which every x86-64 has: a scalar loop costs a fifth of a scan.
  const __m128d least = _mm_set1_pd(0x1p-200);
  const __m128d most = _mm_set1_pd(0x1p240);
  const __m128d nan = _mm_set1_pd(std::numeric_limits<double>::quiet_NaN());
  for (int64_t i = 0; i < n; i += 2) {
    const __m128d s = _mm_loadu_pd(squared_norms + i);
    const __m128d usable =
        _mm_or_pd(_mm_cmpeq_pd(s, _mm_setzero_pd()),
                  _mm_and_pd(_mm_cmpge_pd(s, least), _mm_cmple_pd(s, most)));
    const __m128d norm = _mm_or_pd(_mm_and_pd(usable, _mm_sqrt_pd(s)),
                                   _mm_andnot_pd(usable, nan));
    _mm_storel_pi(reinterpret_cast<__m64*>(norms + i), _mm_cvtpd_ps(norm));
  }
}

}  // namespace coterie::internal_scan
