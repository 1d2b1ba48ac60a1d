// Compiled with AVX-512 F, BW, DQ and VL enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/sgd_kernels.h"
#include "training/sgd_logistic_body.h"

namespace coterie::internal_sgd {
namespace {

void Fetch(const float* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

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

// sum + w[0..8) x[0..8) lane by lane.
__m512d Step(const double* w, const float* x, __m512d sum) {
  return _mm512_add_pd(sum, _mm512_mul_pd(_mm512_loadu_pd(w),
                                          _mm512_cvtps_pd(_mm256_loadu_ps(x))));
}

void Dots(const double* w, const float* const* rows, const float* const* next,
          int count, int64_t d, double* out) {
  const __mmask8 mask = FirstOf(d % 8);
  for (int r = 0; r < count; ++r) {
    const float* const row = rows[r];
    __m512d sum = _mm512_setzero_pd();
    int64_t j = 0;
    for (; j + 16 <= d; j += 16) {
      Fetch(next[r] + j);
      sum = Step(w + j, row + j, sum);
      sum = Step(w + j + 8, row + j + 8, sum);
    }
    Fetch(next[r] + d - 1);
    if (j + 8 <= d) {
      sum = Step(w + j, row + j, sum);
      j += 8;
    }
    if (j < d) {
      const __m512d x = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, row + j));
      sum = _mm512_add_pd(sum,
                          _mm512_mul_pd(_mm512_maskz_loadu_pd(mask, w + j), x));
    }
    out[r] = Sum(sum);
  }
}

// Sums j to j + 8 kSteps stay in registers while rows pass. Masked: of the last
// step `mask` alone.
template <int kSteps, bool kMasked>
inline __attribute__((always_inline)) void AddSteps(const double* factors,
                                                    const float* const* rows,
                                                    int count, int64_t j,
                                                    __mmask8 mask,
                                                    double* sums) {
  __m512d sum[kSteps];
#pragma GCC unroll 4
  for (int v = 0; v < kSteps; ++v) {
    sum[v] = kMasked && v == kSteps - 1
                 ? _mm512_maskz_loadu_pd(mask, sums + j + 8 * v)
                 : _mm512_loadu_pd(sums + j + 8 * v);
  }
  for (int r = 0; r < count; ++r) {
    const __m512d factor = _mm512_set1_pd(factors[r]);
    const float* const row = rows[r] + j;
#pragma GCC unroll 4
    for (int v = 0; v < kSteps; ++v) {
      const __m256 x = kMasked && v == kSteps - 1
                           ? _mm256_maskz_loadu_ps(mask, row + 8 * v)
                           : _mm256_loadu_ps(row + 8 * v);
      sum[v] = _mm512_add_pd(sum[v], _mm512_mul_pd(factor, _mm512_cvtps_pd(x)));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kSteps; ++v) {
    if (kMasked && v == kSteps - 1) {
      _mm512_mask_storeu_pd(sums + j + 8 * v, mask, sum[v]);
    } else {
      _mm512_storeu_pd(sums + j + 8 * v, sum[v]);
    }
  }
}

void Add(const double* factors, const float* const* rows, int count, int64_t d,
         double* sums) {
  int64_t j = 0;
  for (; j + 32 <= d; j += 32) {
    AddSteps<4, false>(factors, rows, count, j, 0, sums);
  }
  const int64_t rest = d - j;
  const __mmask8 mask = FirstOf(rest % 8);
  if (rest >= 24) {
    AddSteps<4, true>(factors, rows, count, j, mask, sums);
  } else if (rest >= 16) {
    AddSteps<3, true>(factors, rows, count, j, mask, sums);
  } else if (rest >= 8) {
    AddSteps<2, true>(factors, rows, count, j, mask, sums);
  } else if (rest > 0) {
    AddSteps<1, true>(factors, rows, count, j, mask, sums);
  }
}

}  // namespace

const Kernels kAvx512Kernels = {Dots, Add, Logistic<Vector<64>>};

}  // namespace coterie::internal_sgd
