// Sums that do not depend on the order of adding: fixed point with a scale that
// all shards agree on.
//
// Every value is rounded once, to the nearest multiple of a power of two, and
// integers are added from there on. Addition of integers is associative, so
// sums are the same bits for any number of shards and threads, and a value can
// be taken out again without a trace. (Demmel and Nguyen, "Fast reproducible
// floating-point summation", ARITH 2013, reach the same end in binned floats.)
// Pure functions; any thread.
//
// Ranges. Scales are chosen from the data's own maxima, so nothing overflows:
// with n rows, |w x_j| < 2^e_j gives sums below n 2^(s_j + e_j) <= 2^62, and
// objectives stay below 2^125. What is below the unit of a scale is lost: a
// component more than min(50, 62 - log2 n) binary orders below the largest one
// in its own column, over all rows, counts as 0. Components within
// min(50, 62 - log2 n) - 24 orders of it are exact.

#ifndef COTERIE_TRAINING_KMEANS_FIXED_POINT_H_
#define COTERIE_TRAINING_KMEANS_FIXED_POINT_H_

#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "index/vectors.h"
#include "training/kmeans_rows.h"

namespace coterie {

// What shards tell of their rows so that scales can be agreed on. Merging is
// associative and commutative.
struct KMeansExtent {
  int64_t rows = 0;
  int64_t positive_rows = 0;  // with a weight above 0
  double max_weight = 0;
  bool weighted = false;
  // Sum of hashes of (id, weight): tells whether a resumed job meets the same
  // rows. Not a defence against an adversary.
  uint64_t checksum = 0;
  std::vector<double>
      max_product;  // per column: max |w x_j| (COSINE: w |x_j| / |x|)
  std::vector<double> max_value;  // per column: max |x_j|

  friend bool operator==(const KMeansExtent&, const KMeansExtent&) = default;
};

KMeansExtent ExtentOf(const KMeansRows& rows);
// REQUIRES: equal numbers of columns, or none in one of them.
void MergeExtent(const KMeansExtent& from, KMeansExtent& into);

// Value = integer * 2^-exponent.
struct KMeansScale {
  std::vector<int32_t> sum_exponents;  // per column, of w x_j
  int32_t weight_exponent = 0;
  int32_t objective_exponent = 0;  // of w times a distance

  friend bool operator==(const KMeansScale&, const KMeansScale&) = default;
};

// The finest safe scales. `centres`: given ones, which may lie outside the
// data; count x d values. Without weights the weight exponent is 0: weights
// are counts.
KMeansScale ScaleFor(Metric metric, const KMeansExtent& extent,
                     absl::Span<const float> centres);

// Whether sums, weights and objectives of a shard with this extent stay in
// range: a scale that came over the wire may be wrong.
bool ScaleFits(const KMeansScale& scale, const KMeansExtent& extent);

// The scale whose sums are in units of 2^bits of the given one's.
KMeansScale Coarser(KMeansScale scale, int32_t bits);

// value * 2^exponent, to the nearest integer, but at most 2^125 in magnitude.
// NaN is 0.
absl::int128 ToFixed128(double value, int32_t exponent);
double FromFixed128(absl::int128 value, int32_t exponent);
// value * 2^-exponent, rounded once.
double FromFixed64(int64_t value, int32_t exponent);

// Adds rows to sums; a scale made ready for it. Immutable; any thread.
class FixedPointAdder {
 public:
  // `rows`: how many objectives will be added up; each is cut at 2^124 / rows,
  // which is beyond what a fitting scale lets them be.
  FixedPointAdder(const KMeansScale& scale, int64_t rows);

  // A positive weight is at least 1 unit, so that only a cluster without one
  // counts as empty.
  int64_t WeightUnits(double weight) const;
  // sums[0, d) += (or -=) w x in units. O(d).
  void Add(const KMeansRows& rows, int64_t i, int64_t* sums) const {
    Accumulate(rows.metric(), rows.row(i), rows.squared_norm(i), rows.weight(i),
               1, sums);
  }
  void Subtract(const KMeansRows& rows, int64_t i, int64_t* sums) const {
    Accumulate(rows.metric(), rows.row(i), rows.squared_norm(i), rows.weight(i),
               -1, sums);
  }
  // The same for any row; sign is 1 or -1.
  void Accumulate(Metric metric, VectorView x, double squared_norm,
                  double weight, int64_t sign, int64_t* sums) const;
  // w * distance in units.
  absl::int128 Objective(double weight, double distance) const;

 private:
  std::vector<double> factors_;  // 2^exponent
  int32_t weight_exponent_;
  double objective_factor_;  // 2^exponent
  absl::int128 objective_limit_;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_FIXED_POINT_H_
