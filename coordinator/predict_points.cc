#include "coordinator/predict_points.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "index/vectors.h"
#include "training/sgd_model.h"

namespace coterie {
namespace {

double LabelOf(const SgdModel& model, const std::vector<double>& outputs) {
  switch (model.kind) {
    case SgdModelKind::kLinear:
      return outputs.front();
    case SgdModelKind::kLogistic:
      return outputs.front() > 0.5 ? 1 : -1;
    case SgdModelKind::kSoftmax:
    case SgdModelKind::kMlp:
      break;
  }
  return static_cast<double>(std::max_element(outputs.begin(), outputs.end()) -
                             outputs.begin());
}

}  // namespace

absl::StatusOr<std::vector<Prediction>> Predictions(
    const TrainedModel& model, absl::Span<const std::vector<float>> vectors,
    const CallContext& call) {
  std::vector<Prediction> predictions(vectors.size());
  for (size_t i = 0; i < vectors.size(); ++i) {
    if (call.ShouldStop()) return call.status();
    if (vectors[i].empty()) continue;
    const std::string field = absl::StrCat("vectors[", i, "]");
    if (static_cast<int64_t>(vectors[i].size()) != model.model.dimension) {
      return InvalidField(
          field, absl::StrCat("dimension ", vectors[i].size(),
                              ", the model has ", model.model.dimension));
    }
    std::vector<double>& outputs = predictions[i].outputs;
    outputs.resize(static_cast<size_t>(SgdOutputs(model.model)));
    PredictSgd(model.model, model.parameters,
               VectorView(vectors[i].data(), vectors[i].size()),
               absl::MakeSpan(outputs));
    if (FindNonFinite(outputs) >= 0) {
      return absl::OutOfRangeError(
          absl::StrCat(field, ": the model's output is not finite"));
    }
    predictions[i].label = LabelOf(model.model, outputs);
  }
  return predictions;
}

}  // namespace coterie
