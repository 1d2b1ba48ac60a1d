// What the triangle inequality says between two sets of centres and within one:
// how far each moved, and how far each is from the others.
//
// Immutable after construction; any thread. All radii are rounded to the safe
// side, so that a row whose bound is strictly above its radius keeps its label
// for sure, also under the rule of the least index among exact ties:
// `bound > RadiusAtMost(distance)` implies that the canonical distance behind
// the bound is strictly greater (nearest_centre.h has the roundings).

#ifndef COTERIE_TRAINING_KMEANS_BOUNDS_H_
#define COTERIE_TRAINING_KMEANS_BOUNDS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {

// How far centres moved. +infinity for one that was not active before, 0 for
// one that is not active now.
class CentreDrift {
 public:
  // REQUIRES: the same number of centres, metric and dimension. O(k d).
  CentreDrift(const NearestCentre& before, const NearestCentre& after);

  int64_t size() const { return static_cast<int64_t>(drift_.size()); }
  // >= the movement of centre j, as a float rounded up.
  float of(int64_t j) const { return drift_[static_cast<size_t>(j)]; }
  // >= the movement of every centre but j.
  float of_others(int64_t j) const { return all_.BesideOf(j); }

  // All centres by how far they moved, farthest first. O(k log k).
  std::vector<int32_t> Farthest() const;
  // Leaves out of of_others_not_apart() what these centres moved. O(k).
  void SetApart(absl::Span<const int32_t> centres);
  float of_others_not_apart(int64_t j) const { return not_apart_.BesideOf(j); }

 private:
  struct Largest {
    int64_t centre = -1;
    float first = 0;
    float second = 0;

    void Add(int64_t j, float drift);
    float BesideOf(int64_t j) const { return j == centre ? second : first; }
  };

  std::vector<float> drift_;
  Largest all_;
  Largest not_apart_;
};

// Distances among centres.
class CentreSeparation {
 public:
  // With `pairs` also keeps all of them: 4 k^2 bytes. O(k^2 d).
  CentreSeparation(const NearestCentre& centres, bool pairs,
                   const KMeansWorkers& workers);

  // <= half the radius from active centre j to the nearest other active one;
  // +infinity if there is none.
  double half(int64_t j) const { return half_[static_cast<size_t>(j)]; }
  // <= half the radius between two active centres. REQUIRES: pairs.
  float half(int64_t i, int64_t j) const {
    return pairs_[static_cast<size_t>(i * size_ + j)];
  }

 private:
  int64_t size_;
  std::vector<double> half_;
  std::vector<float> pairs_;
};

// A bound after centres have moved by `drift`: rounded down, not below 0.
inline float LowerBound(float bound, float drift) {
  // Two roundings to nearest are paid for by the factor.
  constexpr float kDown = 1 - 0x1p-23f;
  const float lower = (bound - drift) * kDown;
  return lower > 0 ? lower : 0;
}

// bounds[j] of centre j likewise, for j in [0, count).
void LowerBounds(const CentreDrift& drift, int64_t count, float* bounds);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_BOUNDS_H_
