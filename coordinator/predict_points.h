// What a stored model says of given vectors.
//
// Stateless; any thread.

#ifndef COTERIE_COORDINATOR_PREDICT_POINTS_H_
#define COTERIE_COORDINATOR_PREDICT_POINTS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/training.h"

namespace coterie {

// One for each vector; an empty vector has none. INVALID_ARGUMENT naming the
// position for a vector of another dimension, OUT_OF_RANGE for one whose
// outputs are not finite; CANCELLED or DEADLINE_EXCEEDED soon after the call
// ends. O(vectors x parameters).
absl::StatusOr<std::vector<Prediction>> Predictions(
    const TrainedModel& model, absl::Span<const std::vector<float>> vectors,
    const CallContext& call);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_PREDICT_POINTS_H_
