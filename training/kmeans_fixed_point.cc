#include "training/kmeans_fixed_point.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/casts.h"
#include "absl/numeric/int128.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "training/draw.h"
#include "training/kmeans_rows.h"

namespace coterie {
namespace {

// A sum of n values below 2^-n_bits of the limit each stays within it.
int LogCeil(int64_t n) {
  int bits = 0;
  while ((int64_t{1} << bits) < n) ++bits;
  return bits;
}

// Smallest e with value < 2^e; any number will do for 0.
int ExponentAbove(double value) {
  int e = 0;
  if (value > 0) std::frexp(value, &e);
  return e;
}

// Elements are rounded by adding 1.5 * 2^52, which needs them below 2^51.
constexpr int kElementBits = 50;

}  // namespace

KMeansExtent ExtentOf(const KMeansRows& rows) {
  KMeansExtent extent;
  const size_t d = static_cast<size_t>(rows.dimension());
  extent.max_product.assign(d, 0);
  extent.max_value.assign(d, 0);
  extent.rows = rows.size();
  extent.weighted = rows.weighted();
  for (int64_t i = 0; i < rows.size(); ++i) {
    const double w = rows.weight(i);
    extent.positive_rows += w > 0 ? 1 : 0;
    extent.max_weight = std::max(extent.max_weight, w);
    extent.checksum +=
        HashOf({rows.id(i), absl::bit_cast<uint64_t>(w == 0 ? 0.0 : w)});
    const double factor = rows.metric() == Metric::kCosine
                              ? w / std::sqrt(rows.squared_norm(i))
                              : w;
    const float* x = rows.data(i);
    for (size_t j = 0; j < d; ++j) {
      const double v = std::fabs(static_cast<double>(x[j]));
      extent.max_value[j] = std::max(extent.max_value[j], v);
      extent.max_product[j] = std::max(extent.max_product[j], v * factor);
    }
  }
  return extent;
}

void MergeExtent(const KMeansExtent& from, KMeansExtent& into) {
  into.rows += from.rows;
  into.positive_rows += from.positive_rows;
  into.weighted = into.weighted || from.weighted;
  into.max_weight = std::max(into.max_weight, from.max_weight);
  into.checksum += from.checksum;
  if (into.max_value.empty()) {
    into.max_value.assign(from.max_value.size(), 0);
    into.max_product.assign(from.max_product.size(), 0);
  }
  assert(from.max_value.empty() ||
         from.max_value.size() == into.max_value.size());
  for (size_t j = 0; j < from.max_value.size(); ++j) {
    into.max_value[j] = std::max(into.max_value[j], from.max_value[j]);
    into.max_product[j] = std::max(into.max_product[j], from.max_product[j]);
  }
}

KMeansScale ScaleFor(Metric metric, const KMeansExtent& extent,
                     absl::Span<const float> centres) {
  KMeansScale scale;
  const int n_bits = LogCeil(std::max<int64_t>(1, extent.rows));
  const size_t d = extent.max_value.size();
  // Rounding may lift an element to 2^(e + s) itself: one more bit.
  for (size_t j = 0; j < d; ++j) {
    scale.sum_exponents.push_back(std::min(kElementBits, 61 - n_bits) -
                                  ExponentAbove(extent.max_product[j]));
  }
  if (extent.weighted) {
    scale.weight_exponent = 61 - n_bits - ExponentAbove(extent.max_weight);
  }
  // |x - c|^2 <= sum of (2 max)^2; centres round to float32, and products and
  // sums to double, which two more bits hold.
  double bound = 2;
  if (metric != Metric::kCosine) {
    std::vector<double> largest = extent.max_value;
    for (size_t i = 0; i < centres.size(); ++i) {
      largest[i % d] =
          std::max(largest[i % d], std::fabs(static_cast<double>(centres[i])));
    }
    bound = 0;
    for (double m : largest) bound += 4 * m * m;
  }
  bound *= std::max(1.0, extent.max_weight);
  scale.objective_exponent = 123 - n_bits - ExponentAbove(bound);
  return scale;
}

KMeansScale Coarser(KMeansScale scale, int32_t bits) {
  for (int32_t& e : scale.sum_exponents) e -= bits;
  return scale;
}

bool ScaleFits(const KMeansScale& scale, const KMeansExtent& extent) {
  const KMeansScale finest = ScaleFor(Metric::kSquaredL2, extent, {});
  if (scale.sum_exponents.size() != extent.max_product.size()) return false;
  const auto in_range = [](int32_t e) { return e >= -1000 && e <= 1000; };
  for (size_t j = 0; j < scale.sum_exponents.size(); ++j) {
    const int32_t e = scale.sum_exponents[j];
    if (!in_range(e)) return false;
    if (extent.max_product[j] > 0 && e > finest.sum_exponents[j]) return false;
  }
  const int n_bits = LogCeil(std::max<int64_t>(1, extent.rows));
  return in_range(scale.objective_exponent) && scale.weight_exponent >= -1000 &&
         scale.weight_exponent + ExponentAbove(extent.max_weight) <=
             61 - n_bits;
}

namespace {

// To the nearest integer, but at most 2^125 in magnitude; NaN is 0. Without the
// library's conversion, which takes ten times as long.
absl::int128 Rounded(double value) {
  const double v = std::min(std::max(value, -0x1p125), 0x1p125);
  const double magnitude = std::fabs(v);
  if (!(magnitude >= 0)) return 0;
  if (magnitude < 0x1p52) return std::llrint(v);
  // An integer already: 53 bits, shifted.
  const uint64_t bits = absl::bit_cast<uint64_t>(magnitude);
  const uint64_t mantissa =
      (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  const int shift = static_cast<int>(bits >> 52) - 1075;
  const absl::int128 whole = absl::int128(mantissa) << shift;
  return v < 0 ? -whole : whole;
}

}  // namespace

absl::int128 ToFixed128(double value, int32_t exponent) {
  return Rounded(std::ldexp(value, exponent));
}

absl::int128 FixedPointAdder::Objective(double weight, double distance) const {
  return std::min(Rounded(weight * distance * objective_factor_),
                  objective_limit_);
}

double FromFixed128(absl::int128 value, int32_t exponent) {
  return std::ldexp(static_cast<double>(value), -exponent);
}

double FromFixed64(int64_t value, int32_t exponent) {
  return std::ldexp(static_cast<double>(value), -exponent);
}

FixedPointAdder::FixedPointAdder(const KMeansScale& scale, int64_t rows)
    : weight_exponent_(scale.weight_exponent),
      objective_factor_(std::ldexp(1.0, scale.objective_exponent)),
      objective_limit_(absl::int128(1)
                       << (124 - LogCeil(std::max<int64_t>(1, rows)))) {
  for (int32_t e : scale.sum_exponents) {
    factors_.push_back(std::ldexp(1.0, e));
  }
}

int64_t FixedPointAdder::WeightUnits(double weight) const {
  if (!(weight > 0)) return 0;
  return std::max<int64_t>(1,
                           std::llrint(std::ldexp(weight, weight_exponent_)));
}

void FixedPointAdder::Accumulate(Metric metric, VectorView x,
                                 double squared_norm, double weight,
                                 int64_t sign, int64_t* sums) const {
  constexpr double kShift = 0x1.8p52;
  constexpr int64_t kShiftBits = 0x4338000000000000;
  const double* factors = factors_.data();
  const float* values = x.data();
  const int64_t d = static_cast<int64_t>(factors_.size());
  const double norm = metric == Metric::kCosine ? std::sqrt(squared_norm) : 1.0;
  if (norm != 1.0 || weight != 1.0) {
    for (int64_t j = 0; j < d; ++j) {
      const double v = weight * (static_cast<double>(values[j]) / norm);
      const double shifted = v * factors[j] + kShift;
      sums[j] += sign * (absl::bit_cast<int64_t>(shifted) - kShiftBits);
    }
    return;
  }
  for (int64_t j = 0; j < d; ++j) {
    const double shifted = static_cast<double>(values[j]) * factors[j] + kShift;
    const int64_t units = absl::bit_cast<int64_t>(shifted) - kShiftBits;
    sums[j] += (units ^ -(sign < 0)) + (sign < 0);
  }
}

}  // namespace coterie
