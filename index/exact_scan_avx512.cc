// Compiled with AVX-512 F, BW, DQ and VL enabled: include intrinsics only.
//
// 16 pairs of row and query at a time, an accumulator register each: 16 rows
// of one query, or 4 rows of 4 queries. A tree of shuffles and additions then
// turns 16 registers into one register of 16 sums, which is compared at once.

#include <immintrin.h>
#include <stdint.h>

#include "index/exact_scan_kernels.h"

namespace coterie::internal_scan {
namespace {

// Without it GCC keeps the arrays of accumulators in memory.
#define COTERIE_INLINE inline __attribute__((always_inline))

constexpr int kWidth = 16;

struct SquaredL2 {
  static __m512 Add(__m512 sum, __m512 q, __m512 x) {
    const __m512 t = _mm512_sub_ps(q, x);
    return _mm512_fmadd_ps(t, t, sum);
  }
  static __mmask16 RuledOut(__m512 v, __m512 a, __m512, __m512) {
    const __m512 infinity = _mm512_set1_ps(__builtin_inff());
    const __mmask16 above = _mm512_cmp_ps_mask(v, a, _CMP_GT_OQ);
    return _mm512_mask_cmp_ps_mask(above, v, infinity, _CMP_LT_OQ);
  }
};

struct Dot {
  static __m512 Add(__m512 sum, __m512 q, __m512 x) {
    return _mm512_fmadd_ps(q, x, sum);
  }
  static __mmask16 RuledOut(__m512 v, __m512 a, __m512 b, __m512 norm) {
    const __m512 infinity = _mm512_set1_ps(-__builtin_inff());
    const __m512 cut = _mm512_fmadd_ps(b, norm, a);
    const __mmask16 below = _mm512_cmp_ps_mask(v, cut, _CMP_LT_OQ);
    return _mm512_mask_cmp_ps_mask(below, v, infinity, _CMP_GT_OQ);
  }
};

// For each 128-bit block: {sum of x, of y, of z, of w} over the block.
COTERIE_INLINE __m512 SumBlocks(__m512 x, __m512 y, __m512 z, __m512 w) {
  const __m512 xy =
      _mm512_add_ps(_mm512_unpacklo_ps(x, y), _mm512_unpackhi_ps(x, y));
  const __m512 zw =
      _mm512_add_ps(_mm512_unpacklo_ps(z, w), _mm512_unpackhi_ps(z, w));
  const __m512d low =
      _mm512_unpacklo_pd(_mm512_castps_pd(xy), _mm512_castps_pd(zw));
  const __m512d high =
      _mm512_unpackhi_pd(_mm512_castps_pd(xy), _mm512_castps_pd(zw));
  return _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
}

// Blocks {x01, x23, y01, y23} of the sums of neighbouring blocks.
COTERIE_INLINE __m512 AddNeighbours(__m512 x, __m512 y) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88),
                       _mm512_shuffle_f32x4(x, y, 0xdd));
}

// Lane i of the result is the sum of all lanes of s[i].
COTERIE_INLINE __m512 Sums(const __m512 (&s)[16]) {
  const __m512 s0 = SumBlocks(s[0], s[1], s[2], s[3]);
  const __m512 s1 = SumBlocks(s[4], s[5], s[6], s[7]);
  const __m512 s2 = SumBlocks(s[8], s[9], s[10], s[11]);
  const __m512 s3 = SumBlocks(s[12], s[13], s[14], s[15]);
  return AddNeighbours(AddNeighbours(s0, s1), AddNeighbours(s2, s3));
}

// Lane R k + r of a register belongs to query k and row r, R = 16 / kQueries.
struct CutOff {
  __m512 a;
  __m512 b;
};

template <int kQueries>
COTERIE_INLINE CutOff Load(const FilterTile& tile) {
  if constexpr (kQueries == 1) {
    return {_mm512_set1_ps(tile.a[0]), _mm512_set1_ps(tile.b[0])};
  } else {
    const __m512i query =
        _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return {_mm512_permutexvar_ps(query,
                                  _mm512_castps128_ps512(_mm_loadu_ps(tile.a))),
            _mm512_permutexvar_ps(
                query, _mm512_castps128_ps512(_mm_loadu_ps(tile.b)))};
  }
}

// Adds the outcome for rows i, i + 1, ... to the words of survivors.
template <typename Op, int kQueries>
COTERIE_INLINE void Compare(const FilterTile& tile, CutOff cut, __m512 values,
                            int64_t i, uint64_t (&survivors)[kQueries]) {
  constexpr int kRows = 16 / kQueries;
  const float* norms = tile.row_norms + i;
  const __m512 norm = kQueries == 1
                          ? _mm512_loadu_ps(norms)
                          : _mm512_broadcast_f32x4(_mm_loadu_ps(norms));
  const uint32_t stay =
      static_cast<uint16_t>(~Op::RuledOut(values, cut.a, cut.b, norm));
#pragma GCC unroll 4
  for (int k = 0; k < kQueries; ++k) {
    const uint64_t bits = stay >> (kRows * k) & ((1u << kRows) - 1);
    survivors[k] |= bits << i;
  }
}

template <int kQueries>
COTERIE_INLINE void Store(const FilterTile& tile,
                          const uint64_t (&survivors)[kQueries]) {
  const uint64_t rows = ~uint64_t{0} >> (kMaxTileRows - tile.row_count);
  for (int k = 0; k < kQueries; ++k) tile.survivors[k] = survivors[k] & rows;
}

__mmask16 TailMask(int64_t d) {
  return static_cast<__mmask16>((1u << (d % kWidth)) - 1);
}

// The loop over rows is outside: memory is read in order. `kQueries` is 1 or 4.
template <typename Op, int kQueries>
void Stream(const FilterTile& tile) {
  constexpr int kRows = 16 / kQueries;
  const int64_t full = tile.d / kWidth * kWidth;
  const __mmask16 tail = TailMask(tile.d);
  const CutOff cut = Load<kQueries>(tile);
  uint64_t survivors[kQueries] = {};
  for (int64_t i = 0; i < tile.row_count; i += kRows) {
    __m512 sum[16];
#pragma GCC unroll 16
    for (int s = 0; s < 16; ++s) sum[s] = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float* row = tile.rows[i + r];
      const auto step = [&](int64_t j, __m512 x)
          __attribute__((always_inline)) {
        const float* q = tile.queries + j;
#pragma GCC unroll 4
        for (int k = 0; k < kQueries; ++k, q += tile.query_stride) {
          sum[kRows * k + r] =
              Op::Add(sum[kRows * k + r], _mm512_load_ps(q), x);
        }
      };
      for (int64_t j = 0; j < full; j += kWidth) {
        step(j, _mm512_loadu_ps(row + j));
      }
      if (tail != 0) step(full, _mm512_maskz_loadu_ps(tail, row + full));
    }
    Compare<Op, kQueries>(tile, cut, Sums(sum), i, survivors);
  }
  Store<kQueries>(tile, survivors);
}

// Four rows of four queries in registers: fewest loads.
template <typename Op>
void Batch(const FilterTile& tile) {
  const float* q0 = tile.queries;
  const float* q1 = q0 + tile.query_stride;
  const float* q2 = q1 + tile.query_stride;
  const float* q3 = q2 + tile.query_stride;
  const int64_t full = tile.d / kWidth * kWidth;
  const __mmask16 tail = TailMask(tile.d);
  const CutOff cut = Load<4>(tile);
  uint64_t survivors[4] = {};
  for (int64_t i = 0; i < tile.row_count; i += 4) {
    const float* const* rows = tile.rows + i;
    __m512 sum[16];
#pragma GCC unroll 16
    for (int s = 0; s < 16; ++s) sum[s] = _mm512_setzero_ps();
    const auto step = [&](int64_t j, auto load) __attribute__((always_inline)) {
      const __m512 q[4] = {_mm512_load_ps(q0 + j), _mm512_load_ps(q1 + j),
                           _mm512_load_ps(q2 + j), _mm512_load_ps(q3 + j)};
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const __m512 x = load(rows[r] + j);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          sum[4 * k + r] = Op::Add(sum[4 * k + r], q[k], x);
        }
      }
    };
    for (int64_t j = 0; j < full; j += kWidth) {
      step(j, [](const float* p) { return _mm512_loadu_ps(p); });
    }
    if (tail != 0) {
      step(full,
           [tail](const float* p) { return _mm512_maskz_loadu_ps(tail, p); });
    }
    Compare<Op, 4>(tile, cut, Sums(sum), i, survivors);
  }
  Store<4>(tile, survivors);
}

}  // namespace

void SquaredL2OneAvx512(const FilterTile& tile) { Stream<SquaredL2, 1>(tile); }
void SquaredL2StreamAvx512(const FilterTile& tile) {
  Stream<SquaredL2, 4>(tile);
}
void SquaredL2BatchAvx512(const FilterTile& tile) { Batch<SquaredL2>(tile); }
void DotOneAvx512(const FilterTile& tile) { Stream<Dot, 1>(tile); }
void DotStreamAvx512(const FilterTile& tile) { Stream<Dot, 4>(tile); }
void DotBatchAvx512(const FilterTile& tile) { Batch<Dot>(tile); }

}  // namespace coterie::internal_scan
