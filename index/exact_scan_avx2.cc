// Compiled with AVX2 and FMA enabled: include intrinsics only.
//
// 8 pairs of row and query at a time, an accumulator register each: 8 rows of
// one query, or 4 rows of 2 queries. A tree of shuffles and additions then
// turns 8 registers into one register of 8 sums, which is compared at once.

#include <immintrin.h>
#include <stdint.h>

#include "index/exact_scan_kernels.h"

namespace coterie::internal_scan {
namespace {

// Without it GCC keeps the arrays of accumulators in memory.
#define COTERIE_INLINE inline __attribute__((always_inline))

constexpr int kWidth = 8;

struct SquaredL2 {
  static __m256 Add(__m256 sum, __m256 q, __m256 x) {
    const __m256 t = _mm256_sub_ps(q, x);
    return _mm256_fmadd_ps(t, t, sum);
  }
  static __m256 RuledOut(__m256 v, __m256 a, __m256, __m256) {
    const __m256 infinity = _mm256_set1_ps(__builtin_inff());
    return _mm256_and_ps(_mm256_cmp_ps(v, a, _CMP_GT_OQ),
                         _mm256_cmp_ps(v, infinity, _CMP_LT_OQ));
  }
};

struct Dot {
  static __m256 Add(__m256 sum, __m256 q, __m256 x) {
    return _mm256_fmadd_ps(q, x, sum);
  }
  static __m256 RuledOut(__m256 v, __m256 a, __m256 b, __m256 norm) {
    const __m256 infinity = _mm256_set1_ps(-__builtin_inff());
    const __m256 cut = _mm256_fmadd_ps(b, norm, a);
    return _mm256_and_ps(_mm256_cmp_ps(v, cut, _CMP_LT_OQ),
                         _mm256_cmp_ps(v, infinity, _CMP_GT_OQ));
  }
};

// For each 128-bit block: {sum of x, of y, of z, of w} over the block.
COTERIE_INLINE __m256 SumBlocks(__m256 x, __m256 y, __m256 z, __m256 w) {
  const __m256 xy =
      _mm256_add_ps(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
  const __m256 zw =
      _mm256_add_ps(_mm256_unpacklo_ps(z, w), _mm256_unpackhi_ps(z, w));
  const __m256d low =
      _mm256_unpacklo_pd(_mm256_castps_pd(xy), _mm256_castps_pd(zw));
  const __m256d high =
      _mm256_unpackhi_pd(_mm256_castps_pd(xy), _mm256_castps_pd(zw));
  return _mm256_add_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
}

// Lane i of the result is the sum of all lanes of s[i].
COTERIE_INLINE __m256 Sums(const __m256 (&s)[8]) {
  const __m256 s0 = SumBlocks(s[0], s[1], s[2], s[3]);
  const __m256 s1 = SumBlocks(s[4], s[5], s[6], s[7]);
  return _mm256_add_ps(_mm256_permute2f128_ps(s0, s1, 0x20),
                       _mm256_permute2f128_ps(s0, s1, 0x31));
}

// Lane R k + r of a register belongs to query k and row r, R = 8 / kQueries.
struct CutOff {
  __m256 a;
  __m256 b;
};

template <int kQueries>
COTERIE_INLINE CutOff Load(const FilterTile& tile, int first) {
  const float* a = tile.a + first;
  const float* b = tile.b + first;
  if constexpr (kQueries == 1) {
    return {_mm256_set1_ps(*a), _mm256_set1_ps(*b)};
  } else {
    return {_mm256_set_m128(_mm_set1_ps(a[1]), _mm_set1_ps(a[0])),
            _mm256_set_m128(_mm_set1_ps(b[1]), _mm_set1_ps(b[0]))};
  }
}

// Adds the outcome for rows i, i + 1, ... to the words of survivors.
template <typename Op, int kQueries>
COTERIE_INLINE void Compare(const FilterTile& tile, CutOff cut, __m256 values,
                            int64_t i, uint64_t (&survivors)[kQueries]) {
  constexpr int kRows = 8 / kQueries;
  const float* norms = tile.row_norms + i;
  const __m256 norm = kQueries == 1 ? _mm256_loadu_ps(norms)
                                    : _mm256_broadcast_ps((const __m128*)norms);
  const uint32_t stay = ~static_cast<uint32_t>(
      _mm256_movemask_ps(Op::RuledOut(values, cut.a, cut.b, norm)));
#pragma GCC unroll 2
  for (int k = 0; k < kQueries; ++k) {
    const uint64_t bits = stay >> (kRows * k) & ((1u << kRows) - 1);
    survivors[k] |= bits << i;
  }
}

template <int kQueries>
COTERIE_INLINE void Store(const FilterTile& tile, int first,
                          const uint64_t (&survivors)[kQueries]) {
  const uint64_t rows = ~uint64_t{0} >> (kMaxTileRows - tile.row_count);
  for (int k = 0; k < kQueries; ++k) {
    tile.survivors[first + k] = survivors[k] & rows;
  }
}

// All ones in the first d % 8 lanes.
__m256i TailMask(int64_t d) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(d % kWidth)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The loop over rows is outside: memory is read in order. `kQueries` is 1 or 2.
template <typename Op, int kQueries>
COTERIE_INLINE void Stream(const FilterTile& tile, int first) {
  constexpr int kRows = 8 / kQueries;
  const float* queries = tile.queries + first * tile.query_stride;
  const int64_t full = tile.d / kWidth * kWidth;
  const __m256i tail = TailMask(tile.d);
  const CutOff cut = Load<kQueries>(tile, first);
  uint64_t survivors[kQueries] = {};
  for (int64_t i = 0; i < tile.row_count; i += kRows) {
    __m256 sum[8];
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) sum[s] = _mm256_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float* row = tile.rows[i + r];
      const auto step = [&](int64_t j, __m256 x)
          __attribute__((always_inline)) {
        const float* q = queries + j;
#pragma GCC unroll 2
        for (int k = 0; k < kQueries; ++k, q += tile.query_stride) {
          sum[kRows * k + r] =
              Op::Add(sum[kRows * k + r], _mm256_load_ps(q), x);
        }
      };
      for (int64_t j = 0; j < full; j += kWidth) {
        step(j, _mm256_loadu_ps(row + j));
      }
      if (full < tile.d) step(full, _mm256_maskload_ps(row + full, tail));
    }
    Compare<Op, kQueries>(tile, cut, Sums(sum), i, survivors);
  }
  Store<kQueries>(tile, first, survivors);
}

// Four rows of two queries in registers: fewest loads.
template <typename Op>
COTERIE_INLINE void Block(const FilterTile& tile, int first) {
  const float* q0 = tile.queries + first * tile.query_stride;
  const float* q1 = q0 + tile.query_stride;
  const int64_t full = tile.d / kWidth * kWidth;
  const __m256i tail = TailMask(tile.d);
  const CutOff cut = Load<2>(tile, first);
  uint64_t survivors[2] = {};
  for (int64_t i = 0; i < tile.row_count; i += 4) {
    const float* const* rows = tile.rows + i;
    __m256 sum[8];
#pragma GCC unroll 8
    for (int s = 0; s < 8; ++s) sum[s] = _mm256_setzero_ps();
    const auto step = [&](int64_t j, auto load) __attribute__((always_inline)) {
      const __m256 qj0 = _mm256_load_ps(q0 + j);
      const __m256 qj1 = _mm256_load_ps(q1 + j);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const __m256 x = load(rows[r] + j);
        sum[r] = Op::Add(sum[r], qj0, x);
        sum[4 + r] = Op::Add(sum[4 + r], qj1, x);
      }
    };
    for (int64_t j = 0; j < full; j += kWidth) {
      step(j, [](const float* p) { return _mm256_loadu_ps(p); });
    }
    if (full < tile.d) {
      step(full,
           [tail](const float* p) { return _mm256_maskload_ps(p, tail); });
    }
    Compare<Op, 2>(tile, cut, Sums(sum), i, survivors);
  }
  Store<2>(tile, first, survivors);
}

template <typename Op>
void One(const FilterTile& tile) {
  Stream<Op, 1>(tile, 0);
}

template <typename Op>
void StreamFour(const FilterTile& tile) {
  Stream<Op, 2>(tile, 0);
  Block<Op>(tile, 2);
}

template <typename Op>
void Batch(const FilterTile& tile) {
  Block<Op>(tile, 0);
  Block<Op>(tile, 2);
}

}  // namespace

void SquaredL2OneAvx2(const FilterTile& tile) { One<SquaredL2>(tile); }
void SquaredL2StreamAvx2(const FilterTile& tile) {
  StreamFour<SquaredL2>(tile);
}
void SquaredL2BatchAvx2(const FilterTile& tile) { Batch<SquaredL2>(tile); }
void DotOneAvx2(const FilterTile& tile) { One<Dot>(tile); }
void DotStreamAvx2(const FilterTile& tile) { StreamFour<Dot>(tile); }
void DotBatchAvx2(const FilterTile& tile) { Batch<Dot>(tile); }

}  // namespace coterie::internal_scan
