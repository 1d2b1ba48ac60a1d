#include "training/sgd_draw.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "index/split_mix.h"
#include "training/draw.h"

namespace coterie {
namespace {

// Uniform in [0, n), n < 2^32: the bias is below 2^-32.
int64_t Below(uint64_t hash, int64_t n) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<int64_t>(
      (static_cast<Wide>(hash) * static_cast<Wide>(static_cast<uint64_t>(n))) >>
      64);
}

}  // namespace

uint64_t SgdHash(SgdDraw draw, std::initializer_list<uint64_t> parts) {
  return HashOf(parts, SplitMix64(static_cast<uint64_t>(draw)));
}

int32_t SgdWorkerOf(PointId id, int32_t workers) {
  return static_cast<int32_t>(SplitMix64(id) % static_cast<uint64_t>(workers));
}

std::vector<int64_t> DrawSgdBlocks(uint64_t seed, int64_t step, int32_t worker,
                                   int64_t blocks, int64_t count) {
  const uint64_t key = SgdHash(
      SgdDraw::kBlocks,
      {seed, static_cast<uint64_t>(step), static_cast<uint64_t>(worker)});
  // Floyd's sampling; of the complement where that is smaller.
  const bool complement = 2 * count > blocks;
  const int64_t wanted = complement ? blocks - count : count;
  absl::flat_hash_set<int64_t> drawn;
  for (int64_t i = blocks - wanted; i < blocks; ++i) {
    const int64_t j = Below(SplitMix64(key ^ static_cast<uint64_t>(i)), i + 1);
    if (!drawn.insert(j).second) drawn.insert(i);
  }
  std::vector<int64_t> result;
  result.reserve(static_cast<size_t>(count));
  if (complement) {
    for (int64_t b = 0; b < blocks; ++b) {
      if (!drawn.contains(b)) result.push_back(b);
    }
  } else {
    result.assign(drawn.begin(), drawn.end());
    std::sort(result.begin(), result.end());
  }
  return result;
}

std::vector<int64_t> DealSgdBlocks(uint64_t seed, int64_t step, int32_t worker,
                                   int32_t workers, int64_t blocks) {
  const uint64_t key =
      SgdHash(SgdDraw::kPermutation, {seed, static_cast<uint64_t>(step)});
  std::vector<int64_t> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = blocks - 1; i > 0; --i) {
    const int64_t j = Below(SplitMix64(key ^ static_cast<uint64_t>(i)), i + 1);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
  }
  // A random start, so that who gets one block more changes.
  const int64_t first = Below(SplitMix64(~key), workers);
  std::vector<int64_t> result;
  for (int64_t i = (worker + workers - first) % workers; i < blocks;
       i += workers) {
    result.push_back(order[static_cast<size_t>(i)]);
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace coterie
