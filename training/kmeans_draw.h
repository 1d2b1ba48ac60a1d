// Draws in proportion to a mass, made of the hashes of training/draw.h.
//
// Pure functions with the same bits on every machine; the logarithm is our own
// for that reason. Any thread.

#ifndef COTERIE_TRAINING_KMEANS_DRAW_H_
#define COTERIE_TRAINING_KMEANS_DRAW_H_

#include <cstdint>

namespace coterie {

// -ln(u) for u in (0, 1), relative error below 2^-48.
double NegativeLog(double u);

// The key of a point in an exponential race: the least key of all points is a
// draw with probability in proportion to `mass`, the m least keys a draw of m
// without replacement (Efraimidis and Spirakis, Information Processing Letters
// 97, 2006). +infinity for a mass of 0, which is never drawn.
double RaceKey(uint64_t hash, double mass);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_DRAW_H_
