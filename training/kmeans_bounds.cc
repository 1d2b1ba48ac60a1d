#include "training/kmeans_bounds.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
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
    all_.Add(j, f);
  }
}

void CentreDrift::Largest::Add(int64_t j, float drift) {
  if (centre < 0 || drift > first) {
    second = first;
    first = drift;
    centre = j;
  } else {
    second = std::max(second, drift);
  }
}

std::vector<int32_t> CentreDrift::Farthest() const {
  std::vector<int32_t> order(drift_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [this](int32_t a, int32_t b) {
    return of(a) != of(b) ? of(a) > of(b) : a < b;
  });
  return order;
}

void CentreDrift::SetApart(absl::Span<const int32_t> centres) {
  std::vector<uint8_t> apart(drift_.size(), 0);
  for (int32_t j : centres) apart[static_cast<size_t>(j)] = 1;
  not_apart_ = Largest();
  for (int64_t j = 0; j < size(); ++j) {
    if (apart[static_cast<size_t>(j)] == 0) not_apart_.Add(j, of(j));
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
  for (int64_t j = 0; j < count; ++j) {
    bounds[j] = LowerBound(bounds[j], drift.of(j));
  }
}

}  // namespace coterie
