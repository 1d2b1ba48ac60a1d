// Random numbers as hashes of what they are for: the same wherever and in
// whatever order they are drawn. Pure; any thread.

#ifndef COTERIE_INDEX_LSH_RANDOM_H_
#define COTERIE_INDEX_LSH_RANDOM_H_

#include <cstdint>

#include "index/split_mix.h"

namespace coterie::internal_lsh {

// Value `number` of the generator SplitMix64 that begins at `seed`.
inline uint64_t Mix(uint64_t seed, int64_t number) {
  return SplitMix64(seed + static_cast<uint64_t>(number) * 0x9e3779b97f4a7c15);
}

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_RANDOM_H_
