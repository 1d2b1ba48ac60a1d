#include "index/metric.h"

#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "index/vectors.h"

namespace coterie {

absl::string_view MetricName(Metric metric) {
  switch (metric) {
    case Metric::kSquaredL2:
      return "SQUARED_L2";
    case Metric::kInnerProduct:
      return "INNER_PRODUCT";
    case Metric::kCosine:
      return "COSINE";
  }
  return "unknown";
}

absl::Status ValidateVector(Metric metric, VectorView v) {
  bool all_zero = true;
  for (size_t j = 0; j < v.size(); ++j) {
    if (!std::isfinite(v[j])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "component ", j, " is ", v[j], "; components must be finite"));
    }
    all_zero = all_zero && v[j] == 0;
  }
  if (metric == Metric::kCosine && all_zero) {
    return absl::InvalidArgumentError(
        absl::StrCat("all ", v.size(),
                     " components are 0; under COSINE a vector must not be "
                     "zero, as zero has no direction"));
  }
  return absl::OkStatus();
}

}  // namespace coterie
