// The clusters nearest to given vectors.
//
// Stateless; any thread.

#ifndef COTERIE_COORDINATOR_ASSIGN_POINTS_H_
#define COTERIE_COORDINATOR_ASSIGN_POINTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/clustering.h"

namespace coterie {

// The `top_m` nearest active centres of each vector by canonical distance, ties
// by the lower cluster, so that the first of a training row is its label; fewer
// if there are fewer. An empty vector has none. INVALID_ARGUMENT naming the
// position for a vector of another dimension or one that the metric does not
// admit; CANCELLED or DEADLINE_EXCEEDED soon after the call ends.
// O(vectors x k x d).
absl::StatusOr<std::vector<AssignedPoint>> NearestClusters(
    const Clustering& clustering, absl::Span<const std::vector<float>> vectors,
    int64_t top_m, const CallContext& call);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_ASSIGN_POINTS_H_
