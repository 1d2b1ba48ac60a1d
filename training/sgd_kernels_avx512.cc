// Compiled with AVX-512 F, BW, DQ and VL enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/sgd_kernels.h"

namespace coterie::internal_sgd {
namespace {

double Sum(__m512d v) {
  const __m256d four =
      _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

__mmask8 FirstOf(int64_t count) {
  return static_cast<__mmask8>((1u << count) - 1);
}

void Dots(const double* w, const float* const* rows, int64_t d, double* out) {
  __m512d sum[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) sum[r] = _mm512_setzero_pd();
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    const __m512d weights = _mm512_loadu_pd(w + j);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(rows[r] + j));
      sum[r] = _mm512_add_pd(sum[r], _mm512_mul_pd(weights, x));
    }
  }
  if (j < d) {
    const __mmask8 mask = FirstOf(d - j);
    const __m512d weights = _mm512_maskz_loadu_pd(mask, w + j);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const __m512d x =
          _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, rows[r] + j));
      sum[r] = _mm512_add_pd(sum[r], _mm512_mul_pd(weights, x));
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) out[r] = Sum(sum[r]);
}

void Add(const double* factors, const float* const* rows,
         const float* const* next, int64_t d, double* sums) {
  __m512d factor[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) factor[r] = _mm512_set1_pd(factors[r]);
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      _mm_prefetch(reinterpret_cast<const char*>(next[r] + j), _MM_HINT_T0);
    }
    __m512d sum = _mm512_loadu_pd(sums + j);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(rows[r] + j));
      sum = _mm512_add_pd(sum, _mm512_mul_pd(factor[r], x));
    }
    _mm512_storeu_pd(sums + j, sum);
  }
  if (j < d) {
    const __mmask8 mask = FirstOf(d - j);
    __m512d sum = _mm512_maskz_loadu_pd(mask, sums + j);
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const __m512d x =
          _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, rows[r] + j));
      sum = _mm512_add_pd(sum, _mm512_mul_pd(factor[r], x));
    }
    _mm512_mask_storeu_pd(sums + j, mask, sum);
  }
}

}  // namespace

const Kernels kAvx512Kernels = {Dots, Add};

}  // namespace coterie::internal_sgd
