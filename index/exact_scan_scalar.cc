// Portable C++: what every x86-64 runs, and the reference for the others.
//
// A row and a query at a time in 8 lanes, which the compiler turns into what
// the base instruction set has.

#include <cmath>
#include <cstdint>
#include <limits>

#include "index/exact_scan_kernels.h"

namespace coterie::internal_scan {
namespace {

constexpr int kLanes = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SquaredL2 {
  static float Term(float q, float x) { return (q - x) * (q - x); }
  static bool RuledOut(float v, float a, float, float) {
    return v > a && v < kInfinity;
  }
};

struct Dot {
  static float Term(float q, float x) { return q * x; }
  static bool RuledOut(float v, float a, float b, float norm) {
    return v < a + b * norm && v > -kInfinity;
  }
};

template <typename Op>
float Value(const float* q, const float* x, int64_t d) {
  float lane[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= d; j += kLanes) {
    for (int l = 0; l < kLanes; ++l) lane[l] += Op::Term(q[j + l], x[j + l]);
  }
  for (int l = 0; j + l < d; ++l) lane[l] += Op::Term(q[j + l], x[j + l]);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
         ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

template <typename Op>
void Queries(const FilterTile& tile, int64_t count) {
  for (int64_t k = 0; k < count; ++k) tile.survivors[k] = 0;
  for (int64_t i = 0; i < tile.row_count; ++i) {
    for (int64_t k = 0; k < count; ++k) {
      const float value =
          Value<Op>(tile.queries + k * tile.query_stride, tile.rows[i], tile.d);
      if (!Op::RuledOut(value, tile.a[k], tile.b[k], tile.row_norms[i])) {
        tile.survivors[k] |= uint64_t{1} << i;
      }
    }
  }
}

}  // namespace

void SquaredL2OneScalar(const FilterTile& tile) { Queries<SquaredL2>(tile, 1); }
void SquaredL2StreamScalar(const FilterTile& tile) {
  Queries<SquaredL2>(tile, kTileQueries);
}
void SquaredL2BatchScalar(const FilterTile& tile) {
  Queries<SquaredL2>(tile, kTileQueries);
}
void DotOneScalar(const FilterTile& tile) { Queries<Dot>(tile, 1); }
void DotStreamScalar(const FilterTile& tile) {
  Queries<Dot>(tile, kTileQueries);
}
void DotBatchScalar(const FilterTile& tile) {
  Queries<Dot>(tile, kTileQueries);
}

}  // namespace coterie::internal_scan
