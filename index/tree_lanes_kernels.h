// The kernels of tree_lanes.h, written once over vectors of 16 floats that the
// compiler maps to the instruction set of the file that includes this.
// Everything is local to that file.

#ifndef COTERIE_INDEX_TREE_LANES_KERNELS_H_
#define COTERIE_INDEX_TREE_LANES_KERNELS_H_

#include <immintrin.h>
#include <stdint.h>

#include "index/tree_lanes.h"

namespace coterie::internal_tree {
namespace {

#define COTERIE_INLINE inline __attribute__((always_inline))

typedef float Lanes __attribute__((vector_size(64)));
// Blocks mostly lie on 64-byte boundaries, but nothing depends on it.
typedef float UnalignedLanes
    __attribute__((vector_size(64), aligned(4), may_alias));

COTERIE_INLINE Lanes Load(const float* p) {
  return *reinterpret_cast<const UnalignedLanes*>(p);
}

COTERIE_INLINE Lanes Max(Lanes a, Lanes b) { return a > b ? a : b; }

struct SquaredL2 {
  static COTERIE_INLINE void AddBox(Lanes& sum, float q, Lanes lo, Lanes hi) {
    const Lanes gap = Max(Max(lo - q, q - hi), Lanes{});
    sum += gap * gap;
  }
  static COTERIE_INLINE void AddRow(Lanes& sum, float q, Lanes x) {
    const Lanes t = q - x;
    sum += t * t;
  }
};

struct Dot {
  static COTERIE_INLINE void AddBox(Lanes& sum, float q, Lanes lo, Lanes hi) {
    sum -= Max(q * lo, q * hi);
  }
  static COTERIE_INLINE void AddRow(Lanes& sum, float q, Lanes x) {
    sum -= q * x;
  }
};

// Bit i: not (cut < v[i] < infinity).
COTERIE_INLINE uint64_t Keep(const Lanes& v, float cut) {
#if defined(__AVX512F__)
  const __m512 value = (__m512)v;
  const __mmask16 above =
      _mm512_cmp_ps_mask(value, _mm512_set1_ps(cut), _CMP_GT_OQ);
  return static_cast<uint16_t>(~_mm512_mask_cmp_ps_mask(
      above, value, _mm512_set1_ps(__builtin_inff()), _CMP_LT_OQ));
#else
  uint64_t keep = 0;
  for (int i = 0; i < kLanes; ++i) {
    const bool ruled_out = v[i] > cut && v[i] < __builtin_inff();
    keep |= uint64_t{!ruled_out} << i;
  }
  return keep;
#endif
}

template <typename Op>
void Boxes(const float* boxes, int64_t m, const float* q, float* values) {
  Lanes sum = {};
  for (int64_t j = 0; j < m; ++j) {
    Op::AddBox(sum, q[j], Load(boxes + 2 * j * kLanes),
               Load(boxes + (2 * j + 1) * kLanes));
  }
  const float infinity = __builtin_inff();
  const Lanes least = Lanes{} - infinity;
  // Comparisons with NaN are false.
  sum = sum < infinity ? sum : least;
  __builtin_memcpy(values, &sum, sizeof(sum));
}

template <typename Op, int kBlocks>
COTERIE_INLINE void Sum(const float* rows, int64_t d, const float* q,
                        Lanes (&sum)[kBlocks]) {
  for (int b = 0; b < kBlocks; ++b) sum[b] = Lanes{};
  for (int64_t j = 0; j < d; ++j) {
#pragma GCC unroll 4
    for (int b = 0; b < kBlocks; ++b) {
      Op::AddRow(sum[b], q[j], Load(rows + (b * d + j) * kLanes));
    }
  }
}

template <typename Op, int kBlocks>
uint64_t KeepBlocks(const float* rows, int64_t d, const float* q, float cut) {
  Lanes sum[kBlocks];
  Sum<Op, kBlocks>(rows, d, q, sum);
  uint64_t keep = 0;
#pragma GCC unroll 4
  for (int b = 0; b < kBlocks; ++b) keep |= Keep(sum[b], cut) << (b * kLanes);
  return keep;
}

template <typename Op>
uint64_t KeepRows(const float* rows, int64_t blocks, int64_t d, const float* q,
                  float cut) {
  switch (blocks) {
    case 1:
      return KeepBlocks<Op, 1>(rows, d, q, cut);
    case 2:
      return KeepBlocks<Op, 2>(rows, d, q, cut);
    case 3:
      return KeepBlocks<Op, 3>(rows, d, q, cut);
    default:
      return KeepBlocks<Op, 4>(rows, d, q, cut);
  }
}

template <typename Op, int kBlocks>
void ValuesOf(const float* rows, int64_t d, const float* q, float* values) {
  Lanes sum[kBlocks];
  Sum<Op, kBlocks>(rows, d, q, sum);
  __builtin_memcpy(values, sum, sizeof(sum));
}

template <typename Op>
void Values(const float* rows, int64_t blocks, int64_t d, const float* q,
            float* values) {
  if (blocks == kMaxBlocks) {
    ValuesOf<Op, kMaxBlocks>(rows, d, q, values);
    return;
  }
  for (int64_t b = 0; b < blocks; ++b) {
    ValuesOf<Op, 1>(rows + b * d * kLanes, d, q, values + b * kLanes);
  }
}

constexpr LaneKernels kKernels = {
    Boxes<SquaredL2>, Boxes<Dot>,        KeepRows<SquaredL2>,
    KeepRows<Dot>,    Values<SquaredL2>, Values<Dot>,
};

}  // namespace
}  // namespace coterie::internal_tree

#endif  // COTERIE_INDEX_TREE_LANES_KERNELS_H_
