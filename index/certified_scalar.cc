// The reference that other kernels are compared with.

#include <stdint.h>

#include "index/certified_kernels.h"

namespace coterie::internal_certified {
namespace {

constexpr int64_t kBlockRows = 16;

// Score of one row, whose first byte is `row`, against `query`.
int64_t Score(const uint8_t* row, const int32_t* query, int64_t start,
              int64_t quads) {
  const int8_t* codes = reinterpret_cast<const int8_t*>(query);
  int64_t sum = start;
  for (int64_t quad = 0; quad < quads; ++quad) {
    for (int64_t j = 0; j < 4; ++j) {
      sum += static_cast<int64_t>(row[quad * 64 + j]) * codes[quad * 4 + j];
    }
  }
  return sum;
}

bool Stays(float cut_a, float a, float cut_b, float b, float cut_k,
           int32_t ip) {
  return !(static_cast<float>(ip) < cut_a * a + (cut_b * b + cut_k));
}

bool IsLive(const uint64_t* live, int64_t row) {
  return (live[row / kGroupRows] >> (row % kGroupRows) & 1) != 0;
}

template <typename ScoreOf>
int64_t Filter(const CodeTile& tile, int64_t queries, ScoreOf score,
               CodeHit* hits) {
  int64_t count = 0;
  for (int64_t row = 0; row < tile.groups * kGroupRows; ++row) {
    if (!IsLive(tile.live, row)) continue;
    const uint8_t* codes = tile.codes +
                           row / kBlockRows * kBlockRows * 4 * tile.quads +
                           row % kBlockRows * 4;
    for (int64_t q = 0; q < queries; ++q) {
      const int32_t ip = static_cast<int32_t>(score(codes, q));
      if (!Stays(tile.cut_a[q], tile.a[row], tile.cut_b[q], tile.b[row],
                 tile.cut_k[q], ip)) {
        continue;
      }
      hits[count++] = {static_cast<uint16_t>(row), static_cast<uint16_t>(q),
                       ip};
    }
  }
  return count;
}

// 2 * (score of the upper halves) + start, for one part of the query.
int64_t HalfScore(const PlaneTile& tile, int64_t row, int part) {
  const int8_t* codes =
      reinterpret_cast<const int8_t*>(tile.queries + part * tile.query_stride);
  const uint8_t* line = tile.lines +
                        row / kBlockRows * ((tile.quads + 1) / 2) * 64 +
                        row % kBlockRows * 4;
  int64_t sum = 0;
  for (int64_t j = 0; j < 4 * tile.quads; ++j) {
    const int byte = line[j / 8 * 64 + j % 4];
    sum += (j % 8 < 4 ? byte & 15 : byte >> 4) * codes[j];
  }
  return 2 * sum + tile.starts[part];
}

}  // namespace

int64_t BatchScalar(const CodeTile& tile, int64_t queries, CodeHit* hits) {
  return Filter(
      tile, queries,
      [&tile](const uint8_t* codes, int64_t q) {
        return Score(codes, tile.queries + q * tile.query_stride,
                     tile.starts[q], tile.quads);
      },
      hits);
}

int64_t FineScalar(const CodeTile& tile, int low_bits, CodeHit* hits) {
  return Filter(
      tile, 1,
      [&tile, low_bits](const uint8_t* codes, int64_t) {
        const int64_t high =
            Score(codes, tile.queries, tile.starts[0], tile.quads);
        const int64_t low = Score(codes, tile.queries + tile.query_stride,
                                  tile.starts[1], tile.quads);
        return high + (low >> low_bits);
      },
      hits);
}

int64_t PlaneScalar(const PlaneTile& tile, int low_bits, CodeHit* hits) {
  int64_t count = 0;
  for (int64_t row = 0; row < tile.groups * kGroupRows; ++row) {
    if (!IsLive(tile.live, row)) continue;
    const auto ip = static_cast<int32_t>(HalfScore(tile, row, 0) +
                                         (HalfScore(tile, row, 1) >> low_bits));
    if (!Stays(tile.cut_a, tile.a[row], tile.cut_b, tile.b[row], tile.cut_k,
               ip)) {
      continue;
    }
    hits[count++] = {static_cast<uint16_t>(row), 0, ip};
  }
  return count;
}

}  // namespace coterie::internal_certified
