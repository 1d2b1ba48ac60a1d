// How good a clustering is, from sums that shards send once it is done.
//
// Pure functions; any thread. Clusters without rows are left out of all means
// and maxima; measures of fewer than two clusters are 0.

#ifndef COTERIE_TRAINING_KMEANS_QUALITY_H_
#define COTERIE_TRAINING_KMEANS_QUALITY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {

struct KMeansQuality {
  // Of each cluster: its part of J, and the mean of |x - c| (COSINE: of
  // sqrt(1 - cos)).
  std::vector<double> objectives;
  std::vector<double> mean_radii;
  // k times the sum of squared sizes over the square of their sum: 1 if all
  // are equal, k if one has all.
  double imbalance = 0;
  // Between-cluster over within-cluster variance (Calinski and Harabasz 1974):
  // more is better. 0 under COSINE.
  double calinski_harabasz = 0;
  // Mean over clusters of the worst (r_i + r_j) / |c_i - c_j| (Davies and
  // Bouldin 1979): less is better. +infinity if two centres are equal.
  double davies_bouldin = 0;
  // Mean of (b - a) / max(a, b), a and b the mean squared distances of a row to
  // the others of its cluster and to those of the nearest other one, in
  // [-1, 1], more is better. Rousseeuw's silhouette (1987) for squared
  // distances: those need no pairs of rows, as the mean squared distance to a
  // cluster is |x - c|^2 + J_c / W_c. Over the rows sampled; 0 if none are.
  double silhouette = 0;

  friend bool operator==(const KMeansQuality&, const KMeansQuality&) = default;
};

// What the measures are computed from.
struct KMeansMoments {
  Metric metric = Metric::kSquaredL2;
  RowsView centres;
  absl::Span<const double> weights;     // one a centre
  absl::Span<const double> objectives;  // J of each
  absl::Span<const double> radii;       // sum of w |x - c| of each
};

// All but the silhouette. O(k^2 d).
KMeansQuality MeasureKMeans(const KMeansMoments& moments);

// Where a curve of J over k bends most.
struct ElbowPoint {
  int64_t k = 0;
  double objective = 0;
};
// The k of the point farthest below the straight line from the first to the
// last (Satopaa et al., "Finding a kneedle in a haystack", 2011), both axes
// scaled to [0, 1]; the least of several. 0 for fewer than three points.
// REQUIRES: k rises.
int64_t ElbowOf(absl::Span<const ElbowPoint> points);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_QUALITY_H_
