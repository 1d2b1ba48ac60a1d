#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/kmeans_fixed_point.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_quality.h"

namespace coterie {

// REQUIRES: labels on the shards fit the best run's centres.
void KMeansJob::Finish() {
  state_.phase = state_.options.measure && !state_.stop_requested
                     ? KMeansPhase::kMeasure
                     : KMeansPhase::kDone;
}

std::vector<double> KMeansJob::BestWeights() const {
  std::vector<double> weights;
  for (int64_t w : state_.best.weights) {
    weights.push_back(FromFixed64(w, state_.scale.weight_exponent));
  }
  return weights;
}

void KMeansJob::FinishMeasure() {
  const size_t k = static_cast<size_t>(state_.options.k);
  std::vector<double> sums;
  for (absl::int128 sum : merged_.potentials) {
    sums.push_back(FromFixed128(sum, state_.scale.objective_exponent));
  }
  const std::vector<double> weights = BestWeights();
  const int64_t d = state_.options.dimension;
  state_.quality = MeasureKMeans(
      {.metric = state_.options.metric == Metric::kCosine ? Metric::kCosine
                                                          : Metric::kSquaredL2,
       .centres = {state_.best.rows.data(), state_.options.k, d, d},
       .weights = weights,
       .objectives = absl::MakeConstSpan(sums).first(k),
       .radii = absl::MakeConstSpan(sums).subspan(k)});
  state_.phase = state_.options.silhouette_rows > 0 ? KMeansPhase::kSilhouette
                                                    : KMeansPhase::kDone;
}

void KMeansJob::FillSilhouetteStep() {
  step_.kind = KMeansStepKind::kSilhouette;
  step_.base = assigned_number_;
  step_.seed = state_.options.seed;
  step_.amount =
      std::min(1.0, static_cast<double>(state_.options.silhouette_rows) /
                        static_cast<double>(state_.extent.rows));
  const std::vector<double> weights = BestWeights();
  for (size_t j = 0; j < weights.size(); ++j) {
    step_.values.push_back(
        weights[j] > 0 ? state_.quality.objectives[j] / weights[j] : 0);
  }
  step_.values.insert(step_.values.end(), weights.begin(), weights.end());
}

void KMeansJob::FinishSilhouette() {
  if (merged_.potentials[1] > 0) {
    state_.quality.silhouette =
        FromFixed128(merged_.potentials[0], kSilhouetteExponent) /
        static_cast<double>(merged_.potentials[1]);
  }
  state_.phase = KMeansPhase::kDone;
}

}  // namespace coterie
