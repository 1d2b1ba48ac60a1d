// One hash of 64 bits, for placement and for draws that do not depend on who
// makes them. Pure; any thread.

#ifndef COTERIE_INDEX_SPLIT_MIX_H_
#define COTERIE_INDEX_SPLIT_MIX_H_

#include <cstdint>

namespace coterie {

// SplitMix64's output function (Steele, Lea, Flood, OOPSLA 2014): a bijection
// of 64 bits with full avalanche. Not cryptographic. Frozen: data on disk is
// placed by it (api/placement_test holds golden values).
constexpr uint64_t SplitMix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace coterie

#endif  // COTERIE_INDEX_SPLIT_MIX_H_
