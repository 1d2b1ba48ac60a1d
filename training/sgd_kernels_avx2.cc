// Compiled with AVX2 enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/sgd_kernels.h"

namespace coterie::internal_sgd {
namespace {

// Lanes 0 to 3 in `low`, 4 to 7 in `high`.
double Sum(__m256d low, __m256d high) {
  const __m256d four = _mm256_add_pd(low, high);
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

__m256d Four(const float* x) { return _mm256_cvtps_pd(_mm_loadu_ps(x)); }

// Terms beyond the last whole eight, with zeros after them: a lane is never -0,
// so that adding +0 leaves it as it is.
struct Tail {
  Tail(const double* w, const float* const* rows, int64_t j, int64_t d) {
    for (int64_t i = 0; i < d - j; ++i) {
      if (w != nullptr) weights[i] = w[j + i];
      for (int r = 0; r < 4; ++r) x[r][i] = rows[r][j + i];
    }
  }
  double weights[8] = {};
  float x[4][8] = {};
};

void Dots(const double* w, const float* const* rows, int64_t d, double* out) {
  __m256d low[4], high[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) low[r] = high[r] = _mm256_setzero_pd();
  const auto step = [&low, &high](const double* weights,
                                  const float* const* x) {
    const __m256d first = _mm256_loadu_pd(weights);
    const __m256d second = _mm256_loadu_pd(weights + 4);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      low[r] = _mm256_add_pd(low[r], _mm256_mul_pd(first, Four(x[r])));
      high[r] = _mm256_add_pd(high[r], _mm256_mul_pd(second, Four(x[r] + 4)));
    }
  };
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    const float* const at[4] = {rows[0] + j, rows[1] + j, rows[2] + j,
                                rows[3] + j};
    step(w + j, at);
  }
  if (j < d) {
    const Tail tail(w, rows, j, d);
    const float* const at[4] = {tail.x[0], tail.x[1], tail.x[2], tail.x[3]};
    step(tail.weights, at);
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) out[r] = Sum(low[r], high[r]);
}

void Add(const double* factors, const float* const* rows,
         const float* const* next, int64_t d, double* sums) {
  __m256d factor[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) factor[r] = _mm256_set1_pd(factors[r]);
  int64_t j = 0;
  for (; j + 4 <= d; j += 4) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(next[r] + j), _MM_HINT_T0);
    }
    __m256d sum = _mm256_loadu_pd(sums + j);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      sum = _mm256_add_pd(sum, _mm256_mul_pd(factor[r], Four(rows[r] + j)));
    }
    _mm256_storeu_pd(sums + j, sum);
  }
  for (; j < d; ++j) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      sums[j] += factors[r] * static_cast<double>(rows[r][j]);
    }
  }
}

}  // namespace

const Kernels kAvx2Kernels = {Dots, Add};

}  // namespace coterie::internal_sgd
