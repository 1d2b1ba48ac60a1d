// Training: proto <-> domain. Decoding is validating (api/points_convert.h).

#ifndef COTERIE_API_TRAINING_CONVERT_H_
#define COTERIE_API_TRAINING_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "api/limits.h"
#include "api/training.h"
#include "api/v1/training.pb.h"

namespace coterie {

// Most workers of a job.
inline constexpr int32_t kMostSgdWorkers = 1 << 16;

// Refuses: names that cannot be used; no label attribute, model, preset; enum
// values that are none; numbers out of their range; and every combination that
// ValidateSgdOptions (training/sgd_options.h) refuses for a model of one
// dimension, with its reason. The dimension, and what hangs on it (blocks,
// top_k, number of parameters), is checked once it is known.
absl::StatusOr<SgdRequest> DecodeTrainSgd(const v1::TrainSgdRequest& request,
                                          const Limits& limits);

// Refuses: names as above; both or none of ids and vectors; more of them than
// limits.queries; vectors that differ in length.
absl::StatusOr<PredictRequest> DecodePredict(const v1::PredictRequest& request,
                                             const Limits& limits);

void EncodeSgdReport(const SgdReport& report, v1::SgdReport* out);
void EncodeTrainedModel(const TrainedModel& model, bool with_parameters,
                        v1::SgdModel* out);
void EncodePredictions(const std::vector<Prediction>& predictions,
                       v1::PredictResponse* out);

}  // namespace coterie

#endif  // COTERIE_API_TRAINING_CONVERT_H_
