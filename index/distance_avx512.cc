// Compiled with AVX-512 F, BW, DQ and VL enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "index/distance_kernels.h"

namespace coterie::internal_distance {
namespace {

struct Dot {
  static __m512d Term(__m512d a, __m512d b) { return _mm512_mul_pd(a, b); }
};

struct SquaredL2 {
  static __m512d Term(__m512d a, __m512d b) {
    const __m512d t = _mm512_sub_pd(a, b);
    return _mm512_mul_pd(t, t);
  }
};

double AddLanes(__m512d sum) {
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(sum),
                                     _mm512_extractf64x4_pd(sum, 1));
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

template <typename Op>
double Sum(const float* a, const float* b, int64_t d) {
  __m512d sum = _mm512_setzero_pd();
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    sum = _mm512_add_pd(sum, Op::Term(_mm512_cvtps_pd(_mm256_loadu_ps(a + j)),
                                      _mm512_cvtps_pd(_mm256_loadu_ps(b + j))));
  }
  if (j < d) {
    const __mmask8 mask = static_cast<__mmask8>((1u << (d - j)) - 1);
    sum = _mm512_add_pd(
        sum, Op::Term(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, a + j)),
                      _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, b + j))));
  }
  return AddLanes(sum);
}

template <typename Op>
void Sums(const float* a, const float* const* rows, int64_t d, double* sums) {
  constexpr int kRows = 4;
  __m512d sum[kRows];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) sum[i] = _mm512_setzero_pd();
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    const __m512d x = _mm512_cvtps_pd(_mm256_loadu_ps(a + j));
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      sum[i] = _mm512_add_pd(
          sum[i], Op::Term(x, _mm512_cvtps_pd(_mm256_loadu_ps(rows[i] + j))));
    }
  }
  if (j < d) {
    const __mmask8 mask = static_cast<__mmask8>((1u << (d - j)) - 1);
    const __m512d x = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, a + j));
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      sum[i] = _mm512_add_pd(
          sum[i], Op::Term(x, _mm512_cvtps_pd(
                                  _mm256_maskz_loadu_ps(mask, rows[i] + j))));
    }
  }
  for (int i = 0; i < kRows; ++i) sums[i] = AddLanes(sum[i]);
}

}  // namespace

double DotAvx512(const float* a, const float* b, int64_t d) {
  return Sum<Dot>(a, b, d);
}

double SquaredL2Avx512(const float* a, const float* b, int64_t d) {
  return Sum<SquaredL2>(a, b, d);
}

void DotsAvx512(const float* a, const float* const* rows, int64_t d,
                double* sums) {
  Sums<Dot>(a, rows, d, sums);
}

void SquaredL2sAvx512(const float* a, const float* const* rows, int64_t d,
                      double* sums) {
  Sums<SquaredL2>(a, rows, d, sums);
}

}  // namespace coterie::internal_distance
