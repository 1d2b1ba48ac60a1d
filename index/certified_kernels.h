// Integer scores of 8-bit codes, compared at once with the cut of each query:
// no matrix of scores is stored. Pure functions of what they read; any thread.
//
// Plain declarations only: files compiled for one instruction set include this.
// Every kernel computes the same integers. The float32 comparison may use FMA
// or not; index/certified_bound.h pays for either.

#ifndef COTERIE_INDEX_CERTIFIED_KERNELS_H_
#define COTERIE_INDEX_CERTIFIED_KERNELS_H_

#include <stdint.h>

namespace coterie::internal_certified {

// Rows come in groups of 64: four blocks of 16, a word of live bits.
inline constexpr int64_t kGroupRows = 64;
// Queries per call of a batch kernel. 6 queries x 4 blocks are 24 of the 32
// registers of AVX-512, with 4 blocks of codes and one query beside them.
inline constexpr int64_t kTileQueries = 6;

// How far ahead, in bytes, a kernel that waits for memory asks for it. Asking
// beyond the end is harmless.
inline constexpr int64_t kAhead = 2048;

struct CodeTile {
  const uint8_t* codes;    // groups * 64 rows, layout of certified_codes.h
  int64_t groups;          // >= 0
  int64_t quads;           // 4 dimensions each; >= 0
  const float* a;          // per row
  const float* b;          // per row
  const uint64_t* live;    // per group; rows without their bit give no hit
  const int32_t* queries;  // 4 signed codes in each integer
  int64_t query_stride;    // in integers
  const int32_t* starts;   // per query: -128 * sum of its codes
  // Per query; a row stays iff not (float(ip) < cut_a * a + (cut_b * b +
  // cut_k)), so that NaN keeps.
  const float* cut_a;
  const float* cut_b;
  const float* cut_k;
  // Codes that are needed next, to be asked for by the way: twice the bytes of
  // a line for each quad of each group. Null: the tile asks for its own.
  const uint8_t* ahead;
};

// Rows in a plane of half codes (index/certified_plane.h), and one fine query:
// its high codes, then, query_stride on, its low ones. Fields as above.
struct PlaneTile {
  const uint8_t* lines;  // (quads + 1) / 2 a block
  int64_t groups;
  int64_t quads;  // of the query
  const float* a;
  const float* b;
  const uint64_t* live;
  const int32_t* queries;
  int64_t query_stride;
  int32_t starts[2];  // of the parts: -15 * sum of codes
  float cut_a;
  float cut_b;
  float cut_k;
};

// A row that stays.
struct CodeHit {
  uint16_t row;    // within the tile
  uint16_t query;  // within the tile
  int32_t ip;      // sum of query code * row code
};

// Writes the hits of `queries` (1 .. kTileQueries) coarse queries; returns how
// many, at most groups * 64 * queries. REQUIRES: groups <= 1024.
using BatchKernel = int64_t (*)(const CodeTile& tile, int64_t queries,
                                CodeHit* hits);

// The same for one fine query: its high codes, then, query_stride on, its low
// ones; ip = high score + floor(low score / 2^low_bits).
using FineKernel = int64_t (*)(const CodeTile& tile, int low_bits,
                               CodeHit* hits);

// As FineKernel; ip = sum of query code * half code, floored likewise.
using PlaneKernel = int64_t (*)(const PlaneTile& tile, int low_bits,
                                CodeHit* hits);

int64_t BatchScalar(const CodeTile& tile, int64_t queries, CodeHit* hits);
int64_t FineScalar(const CodeTile& tile, int low_bits, CodeHit* hits);
int64_t PlaneScalar(const PlaneTile& tile, int low_bits, CodeHit* hits);

// REQUIRES: query codes (both parts) of magnitude at most 64.
int64_t BatchAvx2(const CodeTile& tile, int64_t queries, CodeHit* hits);
int64_t FineAvx2(const CodeTile& tile, int low_bits, CodeHit* hits);
int64_t PlaneAvx2(const PlaneTile& tile, int low_bits, CodeHit* hits);

int64_t BatchAvxVnni(const CodeTile& tile, int64_t queries, CodeHit* hits);
int64_t FineAvxVnni(const CodeTile& tile, int low_bits, CodeHit* hits);
int64_t PlaneAvxVnni(const PlaneTile& tile, int low_bits, CodeHit* hits);

int64_t BatchAvx512Vnni(const CodeTile& tile, int64_t queries, CodeHit* hits);
int64_t FineAvx512Vnni(const CodeTile& tile, int low_bits, CodeHit* hits);
int64_t PlaneAvx512Vnni(const PlaneTile& tile, int low_bits, CodeHit* hits);

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_KERNELS_H_
