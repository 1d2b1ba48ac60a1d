// What "near" means, and which vectors a metric admits.

#ifndef COTERIE_INDEX_METRIC_H_
#define COTERIE_INDEX_METRIC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "index/vectors.h"

namespace coterie {

// Distance is always smaller-is-nearer (index/distance.h has the formulas).
enum class Metric : uint8_t {
  kSquaredL2 = 1,
  kInnerProduct = 2,
  kCosine = 3,
};

// "SQUARED_L2", "INNER_PRODUCT" or "COSINE".
absl::string_view MetricName(Metric metric);

// OK if `v` may be stored or asked for under `metric`: every component finite,
// and not all zero under COSINE. Otherwise INVALID_ARGUMENT naming the first
// bad component and its value. O(d).
absl::Status ValidateVector(Metric metric, VectorView v);

}  // namespace coterie

#endif  // COTERIE_INDEX_METRIC_H_
