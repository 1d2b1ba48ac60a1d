// Random draws that do not depend on who makes them: hashes of a seed, the
// step, and what is drawn for. Pure functions with the same bits on every
// machine; any thread.

#ifndef COTERIE_TRAINING_DRAW_H_
#define COTERIE_TRAINING_DRAW_H_

#include <cstdint>
#include <initializer_list>

#include "index/split_mix.h"

namespace coterie {

// A hash of the parts in their order. Not cryptographic.
inline uint64_t HashOf(std::initializer_list<uint64_t> parts,
                       uint64_t start = 0) {
  uint64_t h = start;
  for (uint64_t part : parts) h = SplitMix64(h ^ part);
  return h;
}

// Uniform in (0, 1): multiples of 2^-53 plus 2^-54.
inline double UniformOf(uint64_t hash) {
  return (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
}

}  // namespace coterie

#endif  // COTERIE_TRAINING_DRAW_H_
