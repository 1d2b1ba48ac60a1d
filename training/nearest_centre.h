// The nearest centre of each row: the one with the least canonical distance,
// and the least index among exact ties.
//
// A float32 product of rows and centres filters, in blocks that stay in cache;
// whatever it cannot decide is decided by canonical distances. So labels do not
// depend on SIMD target, block shape or thread.
//
// Proof. Let v = 2^-24, o an offset, g a unit: y = fl(x - o) / 2^g, z_j =
// fl(c_j
// - o) / 2^g with |z| <= Z, 1/2 <= Z < 1 (COSINE: y = fl(x/|x|), z = fl(c/|c|),
// o = 0), M = |y| + Z, s_j = <y, z_j> - |z_j|^2 / 2, so that |y - z_j|^2 =
// |y|^2
// - 2 s_j. Kernels compute S_j with n = min(d, 128) + ceil(d/128) + 5 roundings
// a term or fewer: |S_j - s_j| <= g_n (|y| Z + Z^2/2) + H <= g_n M^2 / 2 + H,
// g_n = n v / (1 - n v), H = (d + 16) 2^-148 for subnormals. Rounding of y and
// z moves |y - z_j| by at most t = 1.1 v M from |x - c_j| / 2^g. Hence, with
//   E = M^2 (1.01 g_n + 2.5 v) + 4 H
// S_b - S_j > E implies |x - c_j|^2 - |x - c_b|^2 > 2^-39 M^2 4^g, which no
// canonical rounding (relative 2^-41; absolute 2^-40 under COSINE) can turn
// round. Centres within E of the best are compared canonically. M >= 2^60 rules
// nothing out, so no step overflows unnoticed.

#ifndef COTERIE_TRAINING_NEAREST_CENTRE_H_
#define COTERIE_TRAINING_NEAREST_CENTRE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/kmeans_rows.h"
#include "training/nearest_kernels.h"

namespace coterie {

// Bounds on the radius |x - c| (COSINE: on the chord |x/|x| - c/|c||) from a
// canonical distance.
inline double RadiusAtMost(Metric metric, double distance) {
  if (metric == Metric::kCosine) {
    return std::sqrt(2 * distance + 0x1p-38) * (1 + 0x1p-40);
  }
  return std::sqrt(distance) * (1 + 0x1p-40);
}

inline double RadiusAtLeast(Metric metric, double distance) {
  if (metric == Metric::kCosine) {
    return std::sqrt(std::max(0.0, 2 * distance - 0x1p-38)) * (1 - 0x1p-40);
  }
  return std::sqrt(distance) * (1 - 0x1p-40);
}

// As float, rounded down and not below 0.
inline float FloatAtMost(double v) {
  if (!(v > 0)) return 0;
  if (v > std::numeric_limits<float>::max()) {
    return std::isinf(v) ? std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::max();
  }
  const float f = static_cast<float>(v);
  return f <= v ? f : std::nextafterf(f, 0.0f);
}

struct NearestFound {
  int32_t label = 0;
  double distance = 0;  // canonical
  // <= the radius to every other active centre; +infinity if there is none.
  double other = 0;
};

// Immutable after construction; any number of threads may share it, each with
// a Scratch of its own.
class NearestCentre {
 public:
  class Scratch;

  // `active`, empty or one a centre: centres with 0 are never found.
  // REQUIRES: centres pass ValidateVector(metric, .), at least one is active,
  // metric is kSquaredL2 or kCosine, 1 <= count < 2^31. O(k d).
  NearestCentre(Metric metric, RowsView centres,
                absl::Span<const uint8_t> active);

  Metric metric() const { return metric_; }
  int64_t size() const { return centres_.n; }
  VectorView centre(int64_t j) const { return centres_.row(j); }
  // Canonical |c|^2 under COSINE, else 0.
  double squared_norm(int64_t j) const {
    return squared_norms_.empty() ? 0.0
                                  : squared_norms_[static_cast<size_t>(j)];
  }
  bool active(int64_t j) const {
    return active_.empty() || active_[static_cast<size_t>(j)] != 0;
  }

  // found[i] for row which[i]. REQUIRES: equal sizes, rows of this metric and
  // dimension. O(which d k).
  void Find(const KMeansRows& rows, absl::Span<const int64_t> which,
            absl::Span<NearestFound> found, Scratch& scratch) const;

  // Also bounds[i k + j] <= the radius of row which[i] and centre j, for every
  // j; float32 rounded down.
  void FindWithBounds(const KMeansRows& rows, absl::Span<const int64_t> which,
                      absl::Span<NearestFound> found, float* const* bounds,
                      Scratch& scratch) const;

 private:
  struct alignas(64) CacheLine {
    float floats[16] = {};
  };
  struct Kernels {
    internal_nearest::NearestKernel nearest;
    internal_nearest::NearestKernel scores;
    int64_t width;
  };

  static Kernels ActiveKernels();
  void Pack();
  void PackCentre(int64_t j, float* z) const;
  // y of a row, and |y|.
  double PackRow(const KMeansRows& rows, int64_t row, float* y) const;
  // E above.
  double Doubt(double norm) const;
  // A lower bound on the radius to a centre whose score is at most `score`.
  double RadiusFromScore(double norm, double score) const;
  void FillTile(const KMeansRows& rows, absl::Span<const int64_t> which,
                Scratch& scratch) const;
  internal_nearest::NearestTile TileFor(int64_t count, Scratch& scratch) const;
  void Resolve(const KMeansRows& rows, int64_t row, double norm,
               const float* scores, int64_t block_stride,
               NearestFound& found) const;
  void ResolveDoubtful(const KMeansRows& rows, absl::Span<const int64_t> which,
                       absl::Span<NearestFound> found, Scratch& scratch) const;

  Metric metric_;
  Kernels kernels_;
  RowsView centres_;  // shows data_
  std::vector<float> data_;
  std::vector<uint8_t> active_;
  std::vector<double> squared_norms_;
  std::vector<float> offset_;
  int unit_ = 0;             // g
  double largest_norm_ = 0;  // Z
  int64_t blocks_ = 0;
  std::vector<CacheLine> panels_;
  std::vector<float> starts_;
};

// Working memory of one thread.
class NearestCentre::Scratch {
 public:
  Scratch() = default;

 private:
  friend class NearestCentre;
  std::vector<CacheLine> rows_;
  std::vector<float> scores_;
  std::vector<double> norms_;
  std::vector<float> best_;
  std::vector<float> second_;
  std::vector<int32_t> index_;
  std::vector<int64_t> doubtful_;        // positions in the call's `which`
  std::vector<int64_t> doubtful_which_;  // and their rows
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_NEAREST_CENTRE_H_
