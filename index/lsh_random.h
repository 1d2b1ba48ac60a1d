// Random numbers as hashes of what they are for: the same wherever and in
// whatever order they are drawn. Pure; any thread.

#ifndef COTERIE_INDEX_LSH_RANDOM_H_
#define COTERIE_INDEX_LSH_RANDOM_H_

#include <cstdint>

namespace coterie::internal_lsh {

// The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) over both.
inline uint64_t Mix(uint64_t seed, int64_t number) {
  uint64_t z = seed + (static_cast<uint64_t>(number) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_RANDOM_H_
