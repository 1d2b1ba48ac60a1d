#include "coordinator/assign_points.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"

namespace coterie {
namespace {

absl::Status CheckVector(const Clustering& clustering, VectorView vector,
                         size_t position) {
  const std::string field = absl::StrCat("vectors[", position, "]");
  if (static_cast<int64_t>(vector.size()) != clustering.dimension) {
    return InvalidField(
        field, absl::StrCat("dimension ", vector.size(),
                            ", the clustering has ", clustering.dimension));
  }
  const absl::Status valid = ValidateVector(clustering.metric, vector);
  return valid.ok() ? valid : InvalidField(field, valid.message());
}

}  // namespace

absl::StatusOr<std::vector<AssignedPoint>> NearestClusters(
    const Clustering& clustering, absl::Span<const std::vector<float>> vectors,
    int64_t top_m, const CallContext& call) {
  // As in training: INNER_PRODUCT clusters by squared distances.
  const Metric metric = clustering.metric == Metric::kCosine
                            ? Metric::kCosine
                            : Metric::kSquaredL2;
  const KMeansResult& result = clustering.result;
  const auto d = static_cast<size_t>(clustering.dimension);
  std::vector<int64_t> active;
  std::vector<double> norms;
  const auto centre = [&result, d](int64_t j) {
    return VectorView(result.centres.data() + static_cast<size_t>(j) * d, d);
  };
  for (size_t j = 0; j < result.active.size(); ++j) {
    if (result.active[j] == 0) continue;
    active.push_back(static_cast<int64_t>(j));
    norms.push_back(CanonicalSquaredNorm(centre(active.back())));
  }
  const auto wanted = std::min(active.size(), static_cast<size_t>(top_m));
  std::vector<AssignedPoint> assigned(vectors.size());
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (call.ShouldStop()) return call.status();
    if (vectors[i].empty()) continue;
    const VectorView x(vectors[i].data(), vectors[i].size());
    const absl::Status valid = CheckVector(clustering, x, i);
    if (!valid.ok()) return valid;
    const double norm = CanonicalSquaredNorm(x);
    std::vector<AssignedPoint::Near>& nearest = assigned[i].nearest;
    for (size_t j = 0; j < active.size(); ++j) {
      nearest.push_back({active[j], CanonicalDistance(metric, centre(active[j]),
                                                      x, norms[j], norm)});
    }
    const auto middle = nearest.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::partial_sort(
        nearest.begin(), middle, nearest.end(),
        [](const AssignedPoint::Near& a, const AssignedPoint::Near& b) {
          return std::tie(a.distance, a.cluster) <
                 std::tie(b.distance, b.cluster);
        });
    nearest.resize(wanted);
  }
  return assigned;
}

}  // namespace coterie
