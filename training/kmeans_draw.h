// Random draws that do not depend on who makes them: hashes of a seed, the
// step and the id of a point.
//
// Pure functions with the same bits on every machine; the logarithm is our own
// for that reason. Any thread.

#ifndef COTERIE_TRAINING_KMEANS_DRAW_H_
#define COTERIE_TRAINING_KMEANS_DRAW_H_

#include <cstdint>
#include <initializer_list>

namespace coterie {

// A hash of the parts in their order (SplitMix64 steps). Not cryptographic.
inline uint64_t HashOf(std::initializer_list<uint64_t> parts) {
  uint64_t h = 0;
  for (uint64_t part : parts) {
    h = (h ^ part) + 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    h ^= h >> 31;
  }
  return h;
}

// Uniform in (0, 1): multiples of 2^-53 plus 2^-54.
inline double UniformOf(uint64_t hash) {
  return (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
}

// -ln(u) for u in (0, 1), relative error below 2^-48.
double NegativeLog(double u);

// The key of a point in an exponential race: the least key of all points is a
// draw with probability in proportion to `mass`, the m least keys a draw of m
// without replacement (Efraimidis and Spirakis, Information Processing Letters
// 97, 2006). +infinity for a mass of 0, which is never drawn.
double RaceKey(uint64_t hash, double mass);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_DRAW_H_
