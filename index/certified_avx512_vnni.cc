// Compiled with AVX-512 F, BW, DQ, VL and VNNI: include intrinsics only.

#include <immintrin.h>
#include <stdint.h>

#include "index/certified_kernels.h"

namespace coterie::internal_certified {
namespace {

constexpr int kBlocks = 4;  // of a group

// Rows of one block that stay.
inline __mmask16 Stay(__m512i ip, const float* a, const float* b, __m512 cut_a,
                      __m512 cut_b, __m512 cut_k) {
  const __m512 cut =
      _mm512_fmadd_ps(cut_a, _mm512_loadu_ps(a),
                      _mm512_fmadd_ps(cut_b, _mm512_loadu_ps(b), cut_k));
  return _mm512_cmp_ps_mask(_mm512_cvtepi32_ps(ip), cut, _CMP_NLT_UQ);
}

inline uint64_t Join(const __mmask16 (&masks)[kBlocks]) {
  const __mmask32 low = _mm512_kunpackw(masks[1], masks[0]);
  const __mmask32 high = _mm512_kunpackw(masks[3], masks[2]);
  return _mm512_kunpackd(high, low);
}

// Out of line, as hits are few.
__attribute__((noinline)) int64_t Emit(const int32_t* scores, uint64_t stay,
                                       int64_t row, int64_t query,
                                       CodeHit* hits) {
  int64_t count = 0;
  for (; stay != 0; stay &= stay - 1) {
    const int i = __builtin_ctzll(stay);
    hits[count++] = {static_cast<uint16_t>(row + i),
                     static_cast<uint16_t>(query), scores[i]};
  }
  return count;
}

// Without this GCC 12 (its partial redundancy elimination) keeps copies of the
// sums for the case of no iteration, and then spills half of them in the loop.
template <int kQueries>
inline __attribute__((always_inline)) void KeepInRegisters(
    __m512i (&sum)[kQueries][kBlocks]) {
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) asm("" : "+v"(sum[q][k]));
  }
}

// All scores are stored before the first call: none lives across one, so that
// the loop over dimensions has the registers to itself.
template <int kQueries>
inline __attribute__((always_inline)) int64_t EmitAll(
    const __m512i (&sum)[kQueries][kBlocks], const uint64_t (&stay)[kQueries],
    int64_t row, CodeHit* hits) {
  alignas(64) int32_t scores[kQueries][kGroupRows];
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) {
      _mm512_store_si512(scores[q] + k * 16, sum[q][k]);
    }
  }
  int64_t count = 0;
  for (int q = 0; q < kQueries; ++q) {
    count += Emit(scores[q], stay[q], row, q, hits + count);
  }
  return count;
}

// Fills the rows of the group that stay for each query; whether there are any.
template <int kQueries>
inline __attribute__((always_inline)) bool AnyStays(
    const CodeTile& tile, const __m512i (&sum)[kQueries][kBlocks],
    int64_t group, uint64_t (&stay)[kQueries]) {
  const float* a = tile.a + group * kGroupRows;
  const float* b = tile.b + group * kGroupRows;
  uint64_t any = 0;
#pragma GCC unroll 8
  for (int q = 0; q < kQueries; ++q) {
    const __m512 cut_a = _mm512_set1_ps(tile.cut_a[q]);
    const __m512 cut_b = _mm512_set1_ps(tile.cut_b[q]);
    const __m512 cut_k = _mm512_set1_ps(tile.cut_k[q]);
    __mmask16 masks[kBlocks];
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) {
      masks[k] = Stay(sum[q][k], a + k * 16, b + k * 16, cut_a, cut_b, cut_k);
    }
    stay[q] = Join(masks) & tile.live[group];
    any |= stay[q];
  }
  return any != 0;
}

// How far ahead of use a group's codes are asked for: a group, if few are then
// in flight. The first tile of queries waits less for memory by this; later
// ones find all in cache.
inline int64_t BatchAhead(int64_t block_bytes) {
  constexpr int64_t kMostInFlight = 128 << 10;
  const int64_t group_bytes = kBlocks * block_bytes;
  return group_bytes <= kMostInFlight ? group_bytes : kAhead;
}

// kOwn: asks for its own codes; else for those that tile.ahead names, so that
// memory works while what is in the cache is scored.
template <int kQueries, bool kOwn>
int64_t Batch(const CodeTile& tile, CodeHit* hits) {
  const int64_t block_bytes = tile.quads * 64;
  const int64_t own_ahead = BatchAhead(block_bytes);
  const auto* next = reinterpret_cast<const char*>(tile.ahead);
  int64_t count = 0;
  for (int64_t group = 0; group < tile.groups; ++group) {
    const uint64_t live = tile.live[group];
    if (live == 0) continue;
    const uint8_t* codes = tile.codes + group * kBlocks * block_bytes;
    __m512i sum[kQueries][kBlocks];
#pragma GCC unroll 8
    for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
      for (int k = 0; k < kBlocks; ++k) {
        sum[q][k] = _mm512_set1_epi32(tile.starts[q]);
      }
    }
    for (int64_t i = 0; i < tile.quads; ++i) {
      __m512i x[kBlocks];
#pragma GCC unroll 4
      for (int k = 0; k < kBlocks; ++k) {
        const uint8_t* line = codes + k * block_bytes + i * 64;
        x[k] = _mm512_loadu_si512(line);
        if (kOwn) {
          _mm_prefetch(reinterpret_cast<const char*>(line + own_ahead),
                       _MM_HINT_T1);
        }
      }
      if (!kOwn) {
        _mm_prefetch(next, _MM_HINT_T1);
        _mm_prefetch(next + 64, _MM_HINT_T1);
        next += 128;
      }
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        const __m512i quad =
            _mm512_set1_epi32(tile.queries[q * tile.query_stride + i]);
#pragma GCC unroll 4
        for (int k = 0; k < kBlocks; ++k) {
          sum[q][k] = _mm512_dpbusd_epi32(sum[q][k], x[k], quad);
        }
      }
    }
    KeepInRegisters(sum);
    uint64_t stay[kQueries];
    if (__builtin_expect(!AnyStays(tile, sum, group, stay), 1)) continue;
    count += EmitAll(sum, stay, group * kGroupRows, hits + count);
  }
  return count;
}

// Both parts of the score of the block at `codes`, which is read in order: one
// stream of memory is what prefetchers like best.
inline __m512i FineScore(const CodeTile& tile, const uint8_t* codes,
                         int low_bits) {
  const int32_t* high = tile.queries;
  const int32_t* low = tile.queries + tile.query_stride;
  __m512i high0 = _mm512_set1_epi32(tile.starts[0]);
  __m512i low0 = _mm512_set1_epi32(tile.starts[1]);
  __m512i high1 = _mm512_setzero_si512();
  __m512i low1 = _mm512_setzero_si512();
  int64_t i = 0;
  for (; i + 2 <= tile.quads; i += 2) {
    const __m512i x0 = _mm512_loadu_si512(codes + i * 64);
    const __m512i x1 = _mm512_loadu_si512(codes + i * 64 + 64);
    _mm_prefetch(reinterpret_cast<const char*>(codes + i * 64 + kAhead),
                 _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(codes + i * 64 + 64 + kAhead),
                 _MM_HINT_T1);
    high0 = _mm512_dpbusd_epi32(high0, x0, _mm512_set1_epi32(high[i]));
    low0 = _mm512_dpbusd_epi32(low0, x0, _mm512_set1_epi32(low[i]));
    high1 = _mm512_dpbusd_epi32(high1, x1, _mm512_set1_epi32(high[i + 1]));
    low1 = _mm512_dpbusd_epi32(low1, x1, _mm512_set1_epi32(low[i + 1]));
  }
  if (i < tile.quads) {
    const __m512i x = _mm512_loadu_si512(codes + i * 64);
    high0 = _mm512_dpbusd_epi32(high0, x, _mm512_set1_epi32(high[i]));
    low0 = _mm512_dpbusd_epi32(low0, x, _mm512_set1_epi32(low[i]));
  }
  const __m512i low_sum = _mm512_add_epi32(low0, low1);
  return _mm512_add_epi32(
      _mm512_add_epi32(high0, high1),
      _mm512_sra_epi32(low_sum, _mm_cvtsi32_si128(low_bits)));
}

// Both parts of the score of the half codes at `lines`.
inline __m512i PlaneScore(const PlaneTile& tile, const uint8_t* lines,
                          int low_bits) {
  const int32_t* high = tile.queries;
  const int32_t* low = tile.queries + tile.query_stride;
  const __m512i mask = _mm512_set1_epi8(15);
  __m512i high0 = _mm512_setzero_si512();
  __m512i low0 = _mm512_setzero_si512();
  __m512i high1 = _mm512_setzero_si512();
  __m512i low1 = _mm512_setzero_si512();
  int64_t i = 0;
  for (; 2 * i + 2 <= tile.quads; ++i) {
    const uint8_t* line = lines + i * 64;
    const __m512i x = _mm512_loadu_si512(line);
    _mm_prefetch(reinterpret_cast<const char*>(line + kAhead), _MM_HINT_T0);
    const __m512i x0 = _mm512_and_si512(x, mask);
    const __m512i x1 = _mm512_and_si512(_mm512_srli_epi16(x, 4), mask);
    high0 = _mm512_dpbusd_epi32(high0, x0, _mm512_set1_epi32(high[2 * i]));
    low0 = _mm512_dpbusd_epi32(low0, x0, _mm512_set1_epi32(low[2 * i]));
    high1 = _mm512_dpbusd_epi32(high1, x1, _mm512_set1_epi32(high[2 * i + 1]));
    low1 = _mm512_dpbusd_epi32(low1, x1, _mm512_set1_epi32(low[2 * i + 1]));
  }
  if (2 * i < tile.quads) {
    const __m512i x0 =
        _mm512_and_si512(_mm512_loadu_si512(lines + i * 64), mask);
    high0 = _mm512_dpbusd_epi32(high0, x0, _mm512_set1_epi32(high[2 * i]));
    low0 = _mm512_dpbusd_epi32(low0, x0, _mm512_set1_epi32(low[2 * i]));
  }
  const __m512i high_sum = _mm512_add_epi32(high0, high1);
  const __m512i low_sum =
      _mm512_add_epi32(_mm512_slli_epi32(_mm512_add_epi32(low0, low1), 1),
                       _mm512_set1_epi32(tile.starts[1]));
  return _mm512_add_epi32(
      _mm512_add_epi32(_mm512_slli_epi32(high_sum, 1),
                       _mm512_set1_epi32(tile.starts[0])),
      _mm512_sra_epi32(low_sum, _mm_cvtsi32_si128(low_bits)));
}

template <bool kOwn>
int64_t BatchOf(const CodeTile& tile, int64_t queries, CodeHit* hits) {
  switch (queries) {
    case 1:
      return Batch<1, kOwn>(tile, hits);
    case 2:
      return Batch<2, kOwn>(tile, hits);
    case 3:
      return Batch<3, kOwn>(tile, hits);
    case 4:
      return Batch<4, kOwn>(tile, hits);
    case 5:
      return Batch<5, kOwn>(tile, hits);
    default:
      return Batch<6, kOwn>(tile, hits);
  }
}

}  // namespace

int64_t BatchAvx512Vnni(const CodeTile& tile, int64_t queries, CodeHit* hits) {
  return tile.ahead == nullptr ? BatchOf<true>(tile, queries, hits)
                               : BatchOf<false>(tile, queries, hits);
}

int64_t PlaneAvx512Vnni(const PlaneTile& tile, int low_bits, CodeHit* hits) {
  const int64_t line_bytes = (tile.quads + 1) / 2 * 64;
  const __m512 cut_a = _mm512_set1_ps(tile.cut_a);
  const __m512 cut_b = _mm512_set1_ps(tile.cut_b);
  const __m512 cut_k = _mm512_set1_ps(tile.cut_k);
  int64_t count = 0;
  for (int64_t block = 0; block < tile.groups * kBlocks; ++block) {
    const int64_t row = block * 16;
    const auto live = static_cast<__mmask16>(tile.live[block / kBlocks] >>
                                             (block % kBlocks * 16));
    const __m512i sum =
        PlaneScore(tile, tile.lines + block * line_bytes, low_bits);
    const __mmask16 stay = static_cast<__mmask16>(
        live & Stay(sum, tile.a + row, tile.b + row, cut_a, cut_b, cut_k));
    if (__builtin_expect(stay == 0, 1)) continue;
    alignas(64) int32_t scores[16];
    _mm512_store_si512(scores, sum);
    count += Emit(scores, stay, row, 0, hits + count);
  }
  return count;
}

int64_t FineAvx512Vnni(const CodeTile& tile, int low_bits, CodeHit* hits) {
  const int64_t block_bytes = tile.quads * 64;
  const __m512 cut_a = _mm512_set1_ps(tile.cut_a[0]);
  const __m512 cut_b = _mm512_set1_ps(tile.cut_b[0]);
  const __m512 cut_k = _mm512_set1_ps(tile.cut_k[0]);
  int64_t count = 0;
  for (int64_t group = 0; group < tile.groups; ++group) {
    const uint64_t live = tile.live[group];
    if (live == 0) continue;
    const uint8_t* codes = tile.codes + group * kBlocks * block_bytes;
    const float* a = tile.a + group * kGroupRows;
    const float* b = tile.b + group * kGroupRows;
    __mmask16 masks[kBlocks];
    __m512i sum[kBlocks];
#pragma GCC unroll 4
    for (int k = 0; k < kBlocks; ++k) {
      sum[k] = FineScore(tile, codes + k * block_bytes, low_bits);
      masks[k] = Stay(sum[k], a + k * 16, b + k * 16, cut_a, cut_b, cut_k);
    }
    const uint64_t stay = Join(masks) & live;
    if (stay != 0) {
      alignas(64) int32_t scores[kGroupRows];
      for (int k = 0; k < kBlocks; ++k) {
        _mm512_store_si512(scores + k * 16, sum[k]);
      }
      count += Emit(scores, stay, group * kGroupRows, 0, hits + count);
    }
  }
  return count;
}

}  // namespace coterie::internal_certified
