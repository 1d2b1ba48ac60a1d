// Compiled with AVX2 enabled: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/sgd_kernels.h"
#include "training/sgd_logistic_body.h"

namespace coterie::internal_sgd {
namespace {

void Fetch(const float* line) {
  _mm_prefetch(reinterpret_cast<const char*>(line), _MM_HINT_T0);
}

__m256d Four(const float* x) { return _mm256_cvtps_pd(_mm_loadu_ps(x)); }

// Lanes 0 to 3 in `low`, 4 to 7 in `high`.
struct Lanes {
  void Step(const double* w, const float* x) {
    low = _mm256_add_pd(low, _mm256_mul_pd(_mm256_loadu_pd(w), Four(x)));
    high =
        _mm256_add_pd(high, _mm256_mul_pd(_mm256_loadu_pd(w + 4), Four(x + 4)));
  }

  double Sum() const {
    const __m256d four = _mm256_add_pd(low, high);
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four),
                                   _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
  }

  __m256d low = _mm256_setzero_pd();
  __m256d high = _mm256_setzero_pd();
};

// Terms beyond the last whole eight, with zeros after them: a lane is never -0,
// so that adding +0 leaves it as it is.
void StepTail(const double* w, const float* x, int64_t count, Lanes& lanes) {
  double weights[8] = {};
  float row[8] = {};
  for (int64_t i = 0; i < count; ++i) {
    weights[i] = w[i];
    row[i] = x[i];
  }
  lanes.Step(weights, row);
}

void Dots(const double* w, const float* const* rows, const float* const* next,
          int count, int64_t d, double* out) {
  for (int r = 0; r < count; ++r) {
    const float* const row = rows[r];
    Lanes lanes;
    int64_t j = 0;
    for (; j + 16 <= d; j += 16) {
      Fetch(next[r] + j);
      lanes.Step(w + j, row + j);
      lanes.Step(w + j + 8, row + j + 8);
    }
    Fetch(next[r] + d - 1);
    if (j + 8 <= d) {
      lanes.Step(w + j, row + j);
      j += 8;
    }
    if (j < d) StepTail(w + j, row + j, d - j, lanes);
    out[r] = lanes.Sum();
  }
}

// Sums j to j + 4 kSteps stay in registers while rows pass.
template <int kSteps>
inline __attribute__((always_inline)) void AddSteps(const double* factors,
                                                    const float* const* rows,
                                                    int count, int64_t j,
                                                    double* sums) {
  __m256d sum[kSteps];
#pragma GCC unroll 8
  for (int v = 0; v < kSteps; ++v) sum[v] = _mm256_loadu_pd(sums + j + 4 * v);
  for (int r = 0; r < count; ++r) {
    const __m256d factor = _mm256_set1_pd(factors[r]);
    const float* const row = rows[r] + j;
#pragma GCC unroll 8
    for (int v = 0; v < kSteps; ++v) {
      sum[v] = _mm256_add_pd(sum[v], _mm256_mul_pd(factor, Four(row + 4 * v)));
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kSteps; ++v) _mm256_storeu_pd(sums + j + 4 * v, sum[v]);
}

void Add(const double* factors, const float* const* rows, int count, int64_t d,
         double* sums) {
  int64_t j = 0;
  for (; j + 32 <= d; j += 32) AddSteps<8>(factors, rows, count, j, sums);
  for (; j + 4 <= d; j += 4) AddSteps<1>(factors, rows, count, j, sums);
  for (; j < d; ++j) {
    for (int r = 0; r < count; ++r) {
      sums[j] += factors[r] * static_cast<double>(rows[r][j]);
    }
  }
}

}  // namespace

const Kernels kAvx2Kernels = {Dots, Add, Logistic<Vector<32>>};

}  // namespace coterie::internal_sgd
