// Compiled with AVX-512 F, BW, DQ, VL and VNNI: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "training/code_look_kernels.h"

namespace coterie::internal_nearest {
namespace {

constexpr int kRows = 6;
constexpr int kBlocks = 4;  // of 16 centres

inline __attribute__((always_inline)) CodeLooked Greatest(
    const CodeLook& look, int row, const __m512i (&sum)[kBlocks]) {
  const __m512 inverse = _mm512_set1_ps(look.inverse_scales[row]);
  __m512 scores[kBlocks];
#pragma GCC unroll 4
  for (int k = 0; k < kBlocks; ++k) {
    scores[k] = _mm512_fmsub_ps(
        _mm512_cvtepi32_ps(sum[k]),
        _mm512_loadu_ps(look.doubled_scales + k * 16),
        _mm512_mul_ps(_mm512_loadu_ps(look.squares + k * 16), inverse));
  }
  const __m512 most = _mm512_set1_ps(
      _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(scores[0], scores[1]),
                                         _mm512_max_ps(scores[2], scores[3]))));
  alignas(64) int32_t products[kBlocks * 16];
  uint64_t at = 0;
#pragma GCC unroll 4
  for (int k = 0; k < kBlocks; ++k) {
    _mm512_store_si512(products + k * 16, sum[k]);
    at |= static_cast<uint64_t>(_mm512_cmp_ps_mask(scores[k], most, _CMP_EQ_OQ))
          << (k * 16);
  }
  const int centre = at == 0 ? 0 : __builtin_ctzll(at);
  return {centre, products[centre]};
}

}  // namespace

void CodeLookAvx512Vnni(const CodeLook& look, CodeLooked* looked) {
  const int32_t* rows[kRows];
  __m512i sum[kRows][kBlocks];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = r < look.rows ? r : look.rows - 1;
    rows[r] = look.row_codes + row * look.row_stride;
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) {
      sum[r][k] = _mm512_set1_epi32(look.starts[row]);
    }
  }
  for (int64_t i = 0; i < look.quads; ++i) {
    __m512i x[kBlocks];
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) {
      x[k] = _mm512_loadu_si512(look.codes + (k * look.quads + i) * 64);
    }
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m512i quad = _mm512_set1_epi32(rows[r][i]);
#pragma GCC unroll 4
      for (int k = 0; k < kBlocks; ++k) {
        sum[r][k] = _mm512_dpbusd_epi32(sum[r][k], x[k], quad);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    if (r < look.rows) looked[r] = Greatest(look, r, sum[r]);
  }
}

}  // namespace coterie::internal_nearest
