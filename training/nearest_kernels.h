// Inner loops of the search for the nearest centre: blocks of rows against
// blocks of centres in float32, with the best, its index and the second best
// kept in registers' shape beside. Pure functions of what they read; any
// thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// Values differ between targets (FMA or not) within the error that
// nearest_centre.h proves for all of them.

#ifndef COTERIE_TRAINING_NEAREST_KERNELS_H_
#define COTERIE_TRAINING_NEAREST_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_nearest {

// Rows of a tile are a multiple of this, for every target.
inline constexpr int64_t kRowMultiple = 8;
// Dimensions added up before their sum joins the others: keeps a panel of
// centres in cache and the chain of roundings short.
inline constexpr int64_t kChainDimensions = 128;

// score(i, c) = starts[c] + <rows[i], centre c>: larger is nearer.
struct NearestTile {
  const float* rows;  // row_count x d, row-major, 64-byte aligned
  int64_t row_count;  // a multiple of kRowMultiple
  int64_t row_stride;
  int64_t d;
  // Centres in blocks of the target's width W: panels[(block d + j) W + c].
  const float* panels;
  const float* starts;  // blocks x W; -infinity for what is no centre
  int64_t blocks;
  float* scores;  // scratch: row_count x W; StoreKernel: row_count x blocks W
  // Out, per row. NearestKernel only.
  float* best;
  int32_t* index;  // of a centre with score == best
  float* second;   // the greatest score of the others
};

using NearestKernel = void (*)(const NearestTile& tile);

// Centres in a block.
inline constexpr int64_t kWidthSse = 8;
inline constexpr int64_t kWidthAvx2 = 24;
inline constexpr int64_t kWidthAvx512 = 48;

// Best and second best of each row.
void NearestSse(const NearestTile& tile);
void NearestAvx2(const NearestTile& tile);
void NearestAvx512(const NearestTile& tile);

// All scores.
void ScoresSse(const NearestTile& tile);
void ScoresAvx2(const NearestTile& tile);
void ScoresAvx512(const NearestTile& tile);

}  // namespace coterie::internal_nearest

#endif  // COTERIE_TRAINING_NEAREST_KERNELS_H_
