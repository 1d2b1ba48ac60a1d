// The kernels of 256-bit registers, over a dot product of four bytes. Included
// only by files compiled for one instruction set: everything here is local to
// the file that includes it.
//
// `Dot` has  static __m256i Add(__m256i sum, __m256i u8, __m256i s8).

#ifndef COTERIE_INDEX_CERTIFIED_KERNELS_256_H_
#define COTERIE_INDEX_CERTIFIED_KERNELS_256_H_

#include <immintrin.h>
#include <stdint.h>

#include "index/certified_kernels.h"

namespace coterie::internal_certified {
namespace {

// A block of 16 rows is two registers wide.
constexpr int kHalves = 2;
constexpr int kHalfRows = 8;
constexpr int kBlockRows = 16;

inline __m256i Broadcast(int32_t v) { return _mm256_set1_epi32(v); }

inline __m256i LoadCodes(const uint8_t* codes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes));
}

// What a query asks of rows.
struct Cut {
  __m256 a;
  __m256 b;
  __m256 k;
};

inline Cut CutOf(const CodeTile& tile, int64_t query) {
  return {_mm256_set1_ps(tile.cut_a[query]), _mm256_set1_ps(tile.cut_b[query]),
          _mm256_set1_ps(tile.cut_k[query])};
}

// Bits of the 8 rows from `row` on that stay.
inline uint32_t Stay(const Cut& cut, const float* a, const float* b,
                     int64_t row, __m256i ip) {
  const __m256 least =
      _mm256_fmadd_ps(cut.a, _mm256_loadu_ps(a + row),
                      _mm256_fmadd_ps(cut.b, _mm256_loadu_ps(b + row), cut.k));
  return static_cast<uint32_t>(_mm256_movemask_ps(
      _mm256_cmp_ps(_mm256_cvtepi32_ps(ip), least, _CMP_NLT_UQ)));
}

// `Tile` is CodeTile or PlaneTile.
template <typename Tile>
inline int64_t Emit(const Tile& tile, const Cut& cut, int64_t query,
                    int64_t row, __m256i ip, CodeHit* hits) {
  const uint32_t live = static_cast<uint32_t>(
      tile.live[row / kGroupRows] >> (row % kGroupRows) & 0xff);
  uint32_t stay = Stay(cut, tile.a, tile.b, row, ip) & live;
  if (stay == 0) return 0;
  alignas(32) int32_t scores[kHalfRows];
  _mm256_store_si256(reinterpret_cast<__m256i*>(scores), ip);
  int64_t count = 0;
  for (; stay != 0; stay &= stay - 1) {
    const int i = __builtin_ctz(stay);
    hits[count++] = {static_cast<uint16_t>(row + i),
                     static_cast<uint16_t>(query), scores[i]};
  }
  return count;
}

// kQueries queries from `first` on against the two blocks from `row` on.
template <typename Dot, int kQueries>
inline int64_t TwoBlocks(const CodeTile& tile, int64_t first, int64_t row,
                         CodeHit* hits) {
  constexpr int kRegisters = 2 * kHalves;
  const int64_t block_bytes = tile.quads * 64;
  const uint8_t* codes = tile.codes + row / kBlockRows * block_bytes;
  const int32_t* queries = tile.queries + first * tile.query_stride;
  __m256i sum[kQueries][kRegisters];
#pragma GCC unroll 2
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int k = 0; k < kRegisters; ++k) {
      sum[q][k] = Broadcast(tile.starts[first + q]);
    }
  }
  for (int64_t i = 0; i < tile.quads; ++i) {
    __m256i quad[kQueries];
#pragma GCC unroll 2
    for (int q = 0; q < kQueries; ++q) {
      quad[q] = Broadcast(queries[q * tile.query_stride + i]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kRegisters; ++k) {
      const __m256i x = LoadCodes(codes + k / kHalves * block_bytes + i * 64 +
                                  k % kHalves * 32);
#pragma GCC unroll 2
      for (int q = 0; q < kQueries; ++q) {
        sum[q][k] = Dot::Add(sum[q][k], x, quad[q]);
      }
    }
  }
  int64_t count = 0;
#pragma GCC unroll 2
  for (int q = 0; q < kQueries; ++q) {
    const Cut cut = CutOf(tile, first + q);
#pragma GCC unroll 4
    for (int k = 0; k < kRegisters; ++k) {
      count += Emit(tile, cut, first + q, row + k * kHalfRows, sum[q][k],
                    hits + count);
    }
  }
  return count;
}

template <typename Dot>
int64_t Batch256(const CodeTile& tile, int64_t queries, CodeHit* hits) {
  int64_t count = 0;
  for (int64_t row = 0; row < tile.groups * kGroupRows; row += 2 * kBlockRows) {
    if (tile.live[row / kGroupRows] == 0) continue;
    int64_t q = 0;
    for (; q + 2 <= queries; q += 2) {
      count += TwoBlocks<Dot, 2>(tile, q, row, hits + count);
    }
    if (q < queries) count += TwoBlocks<Dot, 1>(tile, q, row, hits + count);
  }
  return count;
}

template <typename Dot>
int64_t Fine256(const CodeTile& tile, int low_bits, CodeHit* hits) {
  const int32_t* high = tile.queries;
  const int32_t* low = tile.queries + tile.query_stride;
  const __m128i shift = _mm_cvtsi32_si128(low_bits);
  const Cut cut = CutOf(tile, 0);
  int64_t count = 0;
  for (int64_t row = 0; row < tile.groups * kGroupRows; row += kBlockRows) {
    if (tile.live[row / kGroupRows] == 0) continue;
    const uint8_t* codes = tile.codes + row * 4 * tile.quads;
    __m256i high_sum[kHalves];
    __m256i low_sum[kHalves];
    for (int k = 0; k < kHalves; ++k) {
      high_sum[k] = Broadcast(tile.starts[0]);
      low_sum[k] = Broadcast(tile.starts[1]);
    }
    for (int64_t i = 0; i < tile.quads; ++i) {
      const __m256i high_quad = Broadcast(high[i]);
      const __m256i low_quad = Broadcast(low[i]);
      _mm_prefetch(reinterpret_cast<const char*>(codes + i * 64 + kAhead),
                   _MM_HINT_T1);
#pragma GCC unroll 2
      for (int k = 0; k < kHalves; ++k) {
        const __m256i x = LoadCodes(codes + i * 64 + k * 32);
        high_sum[k] = Dot::Add(high_sum[k], x, high_quad);
        low_sum[k] = Dot::Add(low_sum[k], x, low_quad);
      }
    }
    for (int k = 0; k < kHalves; ++k) {
      const __m256i ip =
          _mm256_add_epi32(high_sum[k], _mm256_sra_epi32(low_sum[k], shift));
      count += Emit(tile, cut, 0, row + k * kHalfRows, ip, hits + count);
    }
  }
  return count;
}

// The score of 8 rows of a plane, whose bytes of a line are 32 from `line` on.
template <typename Dot>
inline __m256i HalfScore256(const PlaneTile& tile, const uint8_t* line,
                            int low_bits) {
  const int32_t* high = tile.queries;
  const int32_t* low = tile.queries + tile.query_stride;
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i high_sum = _mm256_setzero_si256();
  __m256i low_sum = _mm256_setzero_si256();
  for (int64_t i = 0; i < tile.quads; i += 2, line += 64) {
    const __m256i x = LoadCodes(line);
    _mm_prefetch(reinterpret_cast<const char*>(line + kAhead), _MM_HINT_T0);
    const __m256i even = _mm256_and_si256(x, mask);
    high_sum = Dot::Add(high_sum, even, Broadcast(high[i]));
    low_sum = Dot::Add(low_sum, even, Broadcast(low[i]));
    if (i + 1 == tile.quads) break;
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(x, 4), mask);
    high_sum = Dot::Add(high_sum, odd, Broadcast(high[i + 1]));
    low_sum = Dot::Add(low_sum, odd, Broadcast(low[i + 1]));
  }
  const __m256i low_score = _mm256_add_epi32(_mm256_slli_epi32(low_sum, 1),
                                             Broadcast(tile.starts[1]));
  return _mm256_add_epi32(
      _mm256_add_epi32(_mm256_slli_epi32(high_sum, 1),
                       Broadcast(tile.starts[0])),
      _mm256_sra_epi32(low_score, _mm_cvtsi32_si128(low_bits)));
}

template <typename Dot>
int64_t Plane256(const PlaneTile& tile, int low_bits, CodeHit* hits) {
  const Cut cut = {_mm256_set1_ps(tile.cut_a), _mm256_set1_ps(tile.cut_b),
                   _mm256_set1_ps(tile.cut_k)};
  const int64_t line_bytes = (tile.quads + 1) / 2 * 64;
  int64_t count = 0;
  for (int64_t row = 0; row < tile.groups * kGroupRows; row += kHalfRows) {
    if (tile.live[row / kGroupRows] == 0) continue;
    const uint8_t* line =
        tile.lines + row / kBlockRows * line_bytes + row % kBlockRows * 4;
    count += Emit(tile, cut, 0, row, HalfScore256<Dot>(tile, line, low_bits),
                  hits + count);
  }
  return count;
}

}  // namespace
}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_KERNELS_256_H_
