#include "training/kmeans_quality.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Ratio(double a, double b) {
  return b > 0 ? a / b : (a > 0 ? kInfinity : 0);
}

std::vector<int64_t> NonEmpty(const KMeansMoments& moments) {
  std::vector<int64_t> used;
  for (int64_t j = 0; j < moments.centres.n; ++j) {
    if (moments.weights[static_cast<size_t>(j)] > 0) used.push_back(j);
  }
  return used;
}

double CalinskiHarabasz(const KMeansMoments& moments,
                        const std::vector<int64_t>& used) {
  const size_t d = static_cast<size_t>(moments.centres.d);
  std::vector<double> mean(d, 0);
  double weight = 0;
  double within = 0;
  for (int64_t j : used) {
    const double w = moments.weights[static_cast<size_t>(j)];
    weight += w;
    within += moments.objectives[static_cast<size_t>(j)];
    for (size_t i = 0; i < d; ++i) mean[i] += w * moments.centres.row(j)[i];
  }
  for (double& m : mean) m /= weight;
  double between = 0;
  for (int64_t j : used) {
    double square = 0;
    for (size_t i = 0; i < d; ++i) {
      const double t = moments.centres.row(j)[i] - mean[i];
      square += t * t;
    }
    between += moments.weights[static_cast<size_t>(j)] * square;
  }
  const double clusters = static_cast<double>(used.size());
  return Ratio(between * (weight - clusters), within * (clusters - 1));
}

double DaviesBouldin(const KMeansMoments& moments,
                     const std::vector<int64_t>& used,
                     const std::vector<double>& radii) {
  double sum = 0;
  for (int64_t i : used) {
    double worst = 0;
    for (int64_t j : used) {
      if (i == j) continue;
      const double apart = std::sqrt(CanonicalDistance(
          moments.metric, moments.centres.row(i), moments.centres.row(j)));
      worst = std::max(worst, Ratio(radii[static_cast<size_t>(i)] +
                                        radii[static_cast<size_t>(j)],
                                    apart));
    }
    sum += worst;
  }
  return sum / static_cast<double>(used.size());
}

}  // namespace

KMeansQuality MeasureKMeans(const KMeansMoments& moments) {
  KMeansQuality quality;
  quality.objectives.assign(moments.objectives.begin(),
                            moments.objectives.end());
  double sum = 0;
  double squares = 0;
  for (size_t j = 0; j < moments.weights.size(); ++j) {
    const double w = moments.weights[j];
    quality.mean_radii.push_back(w > 0 ? moments.radii[j] / w : 0);
    sum += w;
    squares += w * w;
  }
  const std::vector<int64_t> used = NonEmpty(moments);
  quality.imbalance =
      Ratio(static_cast<double>(moments.weights.size()) * squares, sum * sum);
  if (used.size() < 2) return quality;
  if (moments.metric != Metric::kCosine) {
    quality.calinski_harabasz = CalinskiHarabasz(moments, used);
  }
  quality.davies_bouldin = DaviesBouldin(moments, used, quality.mean_radii);
  return quality;
}

int64_t ElbowOf(absl::Span<const ElbowPoint> points) {
  if (points.size() < 3) return 0;
  const double width = static_cast<double>(points.back().k - points.front().k);
  const double height = points.front().objective - points.back().objective;
  int64_t best = points.front().k;
  double deepest = 0;
  for (const ElbowPoint& point : points) {
    const double x = static_cast<double>(point.k - points.front().k) / width;
    const double y =
        height > 0 ? (point.objective - points.back().objective) / height : 0;
    const double depth = 1 - x - y;
    if (depth > deepest) {
      deepest = depth;
      best = point.k;
    }
  }
  return best;
}

}  // namespace coterie
