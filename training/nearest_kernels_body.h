// The loops of nearest_kernels.h over a vector type. Included only by files
// compiled for one instruction set: everything here is local to the file that
// includes it.
//
// `V` has  Reg, kLanes, kRows (rows of a register tile), kRegs (registers of
// centres, kWidth = kRegs kLanes), and the static functions used below.

#ifndef COTERIE_TRAINING_NEAREST_KERNELS_BODY_H_
#define COTERIE_TRAINING_NEAREST_KERNELS_BODY_H_

#include <stdint.h>

#include "training/nearest_kernels.h"

namespace coterie::internal_nearest {
namespace {

// Without it GCC keeps the arrays of accumulators in memory.
#define COTERIE_INLINE inline __attribute__((always_inline))

constexpr int64_t kMaxTileRows = 256;

// acc[r][v] of V::kRows rows and one block of centres over dimensions
// [begin, end).
template <typename V>
COTERIE_INLINE void Multiply(const NearestTile& tile, const float* rows,
                             const float* panel, int64_t begin, int64_t end,
                             typename V::Reg (&acc)[V::kRows][V::kRegs]) {
  constexpr int64_t kWidth = V::kRegs * V::kLanes;
  panel += begin * kWidth;
  for (int64_t j = begin; j < end; ++j, panel += kWidth) {
    typename V::Reg c[V::kRegs];
#pragma GCC unroll 4
    for (int v = 0; v < V::kRegs; ++v) c[v] = V::Load(panel + v * V::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < V::kRows; ++r) {
      const typename V::Reg x = V::Broadcast(rows[r * tile.row_stride + j]);
#pragma GCC unroll 4
      for (int v = 0; v < V::kRegs; ++v) {
        acc[r][v] = V::MultiplyAdd(x, c[v], acc[r][v]);
      }
    }
  }
}

// Scores of V::kRows rows from `row` on and one block.
template <typename V>
COTERIE_INLINE void Scores(const NearestTile& tile, int64_t row, int64_t block,
                           typename V::Reg (&acc)[V::kRows][V::kRegs]) {
  constexpr int64_t kWidth = V::kRegs * V::kLanes;
  const float* rows = tile.rows + row * tile.row_stride;
  const float* panel = tile.panels + block * tile.d * kWidth;
  const float* starts = tile.starts + block * kWidth;
  float* sums = tile.scores + row * kWidth;
  for (int64_t begin = 0;; begin += kChainDimensions) {
    const int64_t rest = tile.d - begin;
    const int64_t end =
        rest < kChainDimensions ? tile.d : begin + kChainDimensions;
    const bool first = begin == 0;
#pragma GCC unroll 8
    for (int r = 0; r < V::kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V::kRegs; ++v) {
        acc[r][v] = first ? V::Load(starts + v * V::kLanes) : V::Zero();
      }
    }
    Multiply<V>(tile, rows, panel, begin, end, acc);
    const bool last = end == tile.d;
    if (first && last) return;
#pragma GCC unroll 8
    for (int r = 0; r < V::kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < V::kRegs; ++v) {
        float* sum = sums + r * kWidth + v * V::kLanes;
        if (!first) acc[r][v] = V::Add(acc[r][v], V::Load(sum));
        if (!last) V::Store(sum, acc[r][v]);
      }
    }
    if (last) return;
  }
}

// Best, index and second best of one row, lane by lane.
template <typename V>
struct alignas(64) Lanes {
  float best[V::kLanes];
  float second[V::kLanes];
  int32_t index[V::kLanes];
};

template <typename V>
COTERIE_INLINE void Keep(Lanes<V>& lanes,
                         const typename V::Reg (&scores)[V::kRegs],
                         int32_t first) {
  typename V::Reg best = V::Load(lanes.best);
  typename V::Reg second = V::Load(lanes.second);
  typename V::Int index = V::LoadInt(lanes.index);
#pragma GCC unroll 4
  for (int v = 0; v < V::kRegs; ++v) {
    const typename V::Reg s = scores[v];
    second = V::Max(second, V::Min(s, best));
    index = V::SelectGreater(
        s, best, V::Indices(first + static_cast<int32_t>(v * V::kLanes)),
        index);
    best = V::Max(best, s);
  }
  V::Store(lanes.best, best);
  V::Store(lanes.second, second);
  V::StoreInt(lanes.index, index);
}

template <typename V>
void Finish(const Lanes<V>& lanes, const NearestTile& tile, int64_t row) {
  int at = 0;
  for (int i = 1; i < V::kLanes; ++i) {
    if (lanes.best[i] > lanes.best[at]) at = i;
  }
  float second = lanes.second[at];
  for (int i = 0; i < V::kLanes; ++i) {
    if (i != at && lanes.best[i] > second) second = lanes.best[i];
  }
  tile.best[row] = lanes.best[at];
  tile.index[row] = lanes.index[at];
  tile.second[row] = second;
}

template <typename V>
void Nearest(const NearestTile& tile) {
  constexpr int64_t kWidth = V::kRegs * V::kLanes;
  static_assert(kRowMultiple % V::kRows == 0);
  Lanes<V> lanes[kMaxTileRows];
  for (int64_t i = 0; i < tile.row_count; ++i) {
    for (int l = 0; l < V::kLanes; ++l) {
      lanes[i].best[l] = -__builtin_inff();
      lanes[i].second[l] = -__builtin_inff();
      lanes[i].index[l] = 0;
    }
  }
  for (int64_t block = 0; block < tile.blocks; ++block) {
    for (int64_t row = 0; row < tile.row_count; row += V::kRows) {
      typename V::Reg acc[V::kRows][V::kRegs];
      Scores<V>(tile, row, block, acc);
#pragma GCC unroll 8
      for (int r = 0; r < V::kRows; ++r) {
        Keep<V>(lanes[row + r], acc[r], static_cast<int32_t>(block * kWidth));
      }
    }
  }
  for (int64_t i = 0; i < tile.row_count; ++i) Finish<V>(lanes[i], tile, i);
}

// Blocks are stored one after the other: scores[block][row][W].
template <typename V>
void StoreAll(const NearestTile& tile) {
  constexpr int64_t kWidth = V::kRegs * V::kLanes;
  NearestTile part = tile;
  for (int64_t block = 0; block < tile.blocks; ++block) {
    part.scores = tile.scores + block * tile.row_count * kWidth;
    for (int64_t row = 0; row < tile.row_count; row += V::kRows) {
      typename V::Reg acc[V::kRows][V::kRegs];
      Scores<V>(part, row, block, acc);
#pragma GCC unroll 8
      for (int r = 0; r < V::kRows; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < V::kRegs; ++v) {
          V::Store(part.scores + (row + r) * kWidth + v * V::kLanes, acc[r][v]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace coterie::internal_nearest

#endif  // COTERIE_TRAINING_NEAREST_KERNELS_BODY_H_
