// The float32 filter of the exact scan: one register tile of rows and queries
// at a time, one set of kernels per SIMD target. Pure functions of what they
// read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// Values differ between targets (order of summation, FMA) within the error that
// exact_scan.cc proves for all of them. Every kernel must therefore keep to:
//   - at least 8 lanes per row and query, terms added to their lane in turn,
//     lanes then added in a balanced tree;
//   - comparisons that a NaN or infinite value passes as "not ruled out".

#ifndef COTERIE_INDEX_EXACT_SCAN_KERNELS_H_
#define COTERIE_INDEX_EXACT_SCAN_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_scan {

// Rows per call: one bit each in a word of survivors.
inline constexpr int64_t kMaxTileRows = 64;
// Row pointers and norms are readable up to the next multiple of this.
inline constexpr int64_t kRowPadding = 16;
// Queries per call of a batch kernel.
inline constexpr int64_t kTileQueries = 4;
// Query rows are zero from d up to the next multiple of this, and aligned to
// as many floats.
inline constexpr int64_t kQueryPadding = 16;

struct FilterTile {
  const float* const* rows;  // row_count of d floats, any alignment
  int64_t row_count;         // 1 .. kMaxTileRows
  const float* row_norms;    // Dot kernels only
  const float* queries;      // 1 or kTileQueries rows
  int64_t query_stride;      // in floats
  int64_t d;                 // >= 0
  const float* a;            // cut-off of each query: a, and b for Dot kernels
  const float* b;
  uint64_t* survivors;  // out, per query: bit i is set if row i stays
};

// Kernels called One take one query, Stream and Batch take kTileQueries. One
// and Stream read row after row, for rows that come from memory; Batch reads
// several rows at once and is faster on rows in cache.
//
// SquaredL2 kernels rule a row out iff its value v = |q - x|^2 has
// a < v < infinity; Dot kernels iff v = <q, x> has -infinity < v < a + b *
// norm.
using FilterKernel = void (*)(const FilterTile&);

void SquaredL2OneScalar(const FilterTile& tile);
void SquaredL2StreamScalar(const FilterTile& tile);
void SquaredL2BatchScalar(const FilterTile& tile);
void DotOneScalar(const FilterTile& tile);
void DotStreamScalar(const FilterTile& tile);
void DotBatchScalar(const FilterTile& tile);

void SquaredL2OneAvx2(const FilterTile& tile);
void SquaredL2StreamAvx2(const FilterTile& tile);
void SquaredL2BatchAvx2(const FilterTile& tile);
void DotOneAvx2(const FilterTile& tile);
void DotStreamAvx2(const FilterTile& tile);
void DotBatchAvx2(const FilterTile& tile);

void SquaredL2OneAvx512(const FilterTile& tile);
void SquaredL2StreamAvx512(const FilterTile& tile);
void SquaredL2BatchAvx512(const FilterTile& tile);
void DotOneAvx512(const FilterTile& tile);
void DotStreamAvx512(const FilterTile& tile);
void DotBatchAvx512(const FilterTile& tile);

}  // namespace coterie::internal_scan

#endif  // COTERIE_INDEX_EXACT_SCAN_KERNELS_H_
