// The reference that other kernels are compared with.

#include <stdint.h>

#include <array>
#include <cstddef>

#include "index/certified_kernels.h"

namespace coterie::internal_certified {
namespace {

constexpr int64_t kBlockRows = 16;
// Groups of a tile, at most, when a plane is asked: a panel.
constexpr int64_t kPlaneGroups = 16;

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

template <typename ScoreOf>
int64_t Filter(const CodeTile& tile, int64_t queries, ScoreOf score,
               CodeHit* hits) {
  int64_t count = 0;
  for (int64_t row = 0; row < tile.groups * kGroupRows; ++row) {
    if ((tile.live[row / kGroupRows] >> (row % kGroupRows) & 1) == 0) continue;
    const uint8_t* codes = tile.codes +
                           row / kBlockRows * kBlockRows * 4 * tile.quads +
                           row % kBlockRows * 4;
    for (int64_t q = 0; q < queries; ++q) {
      const int32_t ip = static_cast<int32_t>(score(codes, q));
      const float cut = tile.cut_a[q] * tile.a[row] +
                        (tile.cut_b[q] * tile.b[row] + tile.cut_k[q]);
      if (static_cast<float>(ip) < cut) continue;
      hits[count++] = {static_cast<uint16_t>(row), static_cast<uint16_t>(q),
                       ip};
    }
  }
  return count;
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

int64_t PlaneScalar(const PlaneTile& plane, const CodeTile& tile, int low_bits,
                    CodeHit* hits, int64_t* blocks) {
  const int64_t lines = (tile.quads + 1) / 2;
  const auto half_score = [&](int64_t row, int part) {
    const int8_t* codes = reinterpret_cast<const int8_t*>(
        tile.queries + part * tile.query_stride);
    const uint8_t* line =
        plane.lines + row / kBlockRows * lines * 64 + row % kBlockRows * 4;
    int64_t sum = 0;
    for (int64_t j = 0; j < 4 * tile.quads; ++j) {
      const int byte = line[j / 8 * 64 + j % 4];
      sum += (j % 8 < 4 ? byte & 15 : byte >> 4) * codes[j];
    }
    return 2 * sum + plane.starts[part];
  };
  const auto stays = [&](int64_t row) {
    const auto ip = static_cast<int32_t>(half_score(row, 0) +
                                         (half_score(row, 1) >> low_bits));
    const float cut =
        plane.cut_a * plane.a[row] + (plane.cut_b * plane.b[row] + plane.cut_k);
    return !(static_cast<float>(ip) < cut);
  };
  std::array<uint64_t, kPlaneGroups> live = {};
  for (int64_t row = 0; row < tile.groups * kGroupRows; ++row) {
    if ((tile.live[row / kGroupRows] >> (row % kGroupRows) & 1) != 0 &&
        stays(row)) {
      live[static_cast<size_t>(row / kGroupRows)] |= uint64_t{1}
                                                     << (row % kGroupRows);
    }
  }
  for (int64_t block = 0; block < tile.groups * 4; ++block) {
    const uint64_t word = live[static_cast<size_t>(block / 4)];
    *blocks += (word >> (block % 4 * kBlockRows) & 0xffff) != 0 ? 1 : 0;
  }
  CodeTile left = tile;
  left.live = live.data();
  return FineScalar(left, low_bits, hits);
}

}  // namespace coterie::internal_certified
