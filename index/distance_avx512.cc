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
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(sum),
                                     _mm512_extractf64x4_pd(sum, 1));
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

}  // namespace

double DotAvx512(const float* a, const float* b, int64_t d) {
  return Sum<Dot>(a, b, d);
}

double SquaredL2Avx512(const float* a, const float* b, int64_t d) {
  return Sum<SquaredL2>(a, b, d);
}

}  // namespace coterie::internal_distance
