// Compiled with AVX2 and FMA enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "index/distance_kernels.h"

namespace coterie::internal_distance {
namespace {

// Lanes 0..3 and 4..7.
struct Lanes {
  __m256d low;
  __m256d high;
};

struct Dot {
  static __m256d Term(__m256d a, __m256d b) { return _mm256_mul_pd(a, b); }
};

struct SquaredL2 {
  static __m256d Term(__m256d a, __m256d b) {
    const __m256d t = _mm256_sub_pd(a, b);
    return _mm256_mul_pd(t, t);
  }
};

template <typename Op>
void Add(__m256 a, __m256 b, Lanes& sum) {
  const __m256d low = Op::Term(_mm256_cvtps_pd(_mm256_castps256_ps128(a)),
                               _mm256_cvtps_pd(_mm256_castps256_ps128(b)));
  const __m256d high = Op::Term(_mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)),
                                _mm256_cvtps_pd(_mm256_extractf128_ps(b, 1)));
  sum.low = _mm256_add_pd(sum.low, low);
  sum.high = _mm256_add_pd(sum.high, high);
}

__m256i FirstLanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

double AddLanes(const Lanes& sum) {
  const __m256d four = _mm256_add_pd(sum.low, sum.high);
  const __m128d two =
      _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

template <typename Op>
double Sum(const float* a, const float* b, int64_t d) {
  Lanes sum = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    Add<Op>(_mm256_loadu_ps(a + j), _mm256_loadu_ps(b + j), sum);
  }
  if (j < d) {
    const __m256i mask = FirstLanes(d - j);
    Add<Op>(_mm256_maskload_ps(a + j, mask), _mm256_maskload_ps(b + j, mask),
            sum);
  }
  return AddLanes(sum);
}

template <typename Op>
void Sums(const float* a, const float* const* rows, int64_t d, double* sums) {
  constexpr int kRows = 4;
  Lanes sum[kRows];
#pragma GCC unroll 4
  for (int i = 0; i < kRows; ++i) {
    sum[i] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  }
  int64_t j = 0;
  for (; j + 8 <= d; j += 8) {
    const __m256 x = _mm256_loadu_ps(a + j);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      Add<Op>(x, _mm256_loadu_ps(rows[i] + j), sum[i]);
    }
  }
  if (j < d) {
    const __m256i mask = FirstLanes(d - j);
    const __m256 x = _mm256_maskload_ps(a + j, mask);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i) {
      Add<Op>(x, _mm256_maskload_ps(rows[i] + j, mask), sum[i]);
    }
  }
  for (int i = 0; i < kRows; ++i) sums[i] = AddLanes(sum[i]);
}

}  // namespace

double DotAvx2(const float* a, const float* b, int64_t d) {
  return Sum<Dot>(a, b, d);
}

double SquaredL2Avx2(const float* a, const float* b, int64_t d) {
  return Sum<SquaredL2>(a, b, d);
}

void DotsAvx2(const float* a, const float* const* rows, int64_t d,
              double* sums) {
  Sums<Dot>(a, rows, d, sums);
}

void SquaredL2sAvx2(const float* a, const float* const* rows, int64_t d,
                    double* sums) {
  Sums<SquaredL2>(a, rows, d, sums);
}

}  // namespace coterie::internal_distance
