// Ranges of a bitmap of live rows (ScanRows::live; null: all are). Pure; any
// thread.

#ifndef COTERIE_INDEX_TREE_LIVE_H_
#define COTERIE_INDEX_TREE_LIVE_H_

#include <algorithm>
#include <cstdint>

#include "absl/numeric/bits.h"

namespace coterie::internal_tree {

// Bit i: row first + i is live, i < count. REQUIRES: 0 <= count <= 64. Reads no
// word that holds none of the rows.
inline uint64_t LiveBits(const uint64_t* live, int64_t first, int64_t count) {
  if (count == 0) return 0;
  const uint64_t all = ~uint64_t{0} >> (64 - count);
  if (live == nullptr) return all;
  const int64_t shift = first % 64;
  uint64_t bits = live[first / 64] >> shift;
  if (shift + count > 64) bits |= live[first / 64 + 1] << (64 - shift);
  return bits & all;
}

// How many of rows [begin, end) are live.
inline int64_t CountLive(const uint64_t* live, int64_t begin, int64_t end) {
  if (live == nullptr) return end - begin;
  int64_t count = 0;
  while (begin < end) {
    const int64_t step = std::min<int64_t>(64 - begin % 64, end - begin);
    count += absl::popcount(LiveBits(live, begin, step));
    begin += step;
  }
  return count;
}

}  // namespace coterie::internal_tree

#endif  // COTERIE_INDEX_TREE_LIVE_H_
