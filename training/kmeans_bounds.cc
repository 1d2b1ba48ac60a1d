#include "training/kmeans_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "index/distance.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

double Between(const NearestCentre& a, int64_t i, const NearestCentre& b,
               int64_t j) {
  return CanonicalDistance(a.metric(), a.centre(i), b.centre(j),
                           a.squared_norm(i), b.squared_norm(j));
}

}  // namespace

CentreDrift::CentreDrift(const NearestCentre& before,
                         const NearestCentre& after) {
  drift_.reserve(static_cast<size_t>(after.size()));
  for (int64_t j = 0; j < after.size(); ++j) {
    double moved = 0;
    if (after.active(j)) {
      moved = before.active(j)
                  ? RadiusAtMost(after.metric(), Between(before, j, after, j))
                  : kInfinity;
    }
    float f = static_cast<float>(moved);
    if (f < moved) f = std::nextafterf(f, kFloatInfinity);
    drift_.push_back(f);
    if (farthest_ < 0 || moved > first_) {
      second_ = farthest_ < 0 ? 0 : first_;
      first_ = moved;
      farthest_ = j;
    } else {
      second_ = std::max(second_, moved);
    }
  }
}

CentreSeparation::CentreSeparation(const NearestCentre& centres, bool pairs,
                                   const KMeansWorkers& workers)
    : size_(centres.size()),
      half_(static_cast<size_t>(size_), kInfinity),
      pairs_(pairs ? static_cast<size_t>(size_ * size_) : 0, 0.0f) {
  workers.ForEach(size_, [&](int32_t, int64_t i) {
    if (!centres.active(i)) return;
    double nearest = kInfinity;
    for (int64_t j = 0; j < size_; ++j) {
      if (j == i || !centres.active(j)) continue;
      const double half = 0.5 * RadiusAtLeast(centres.metric(),
                                              Between(centres, i, centres, j));
      nearest = std::min(nearest, half);
      if (pairs) pairs_[static_cast<size_t>(i * size_ + j)] = FloatAtMost(half);
    }
    half_[static_cast<size_t>(i)] = nearest;
  });
}

void LowerBounds(const CentreDrift& drift, int64_t count, float* bounds) {
  // Two roundings to nearest are paid for by the factor.
  constexpr float kDown = 1 - 0x1p-23f;
  for (int64_t j = 0; j < count; ++j) {
    const float lower = (bounds[j] - drift.of(j)) * kDown;
    bounds[j] = lower > 0 ? lower : 0;
  }
}

}  // namespace coterie
