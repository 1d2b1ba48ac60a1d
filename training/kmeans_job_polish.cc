#include <cstdint>
#include <utility>

#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_sweep.h"

namespace coterie {

bool KMeansJob::WantsPolish() const {
  return state_.options.polish != KMeansPolish::kNone && !state_.polished &&
         state_.options.k > 1 && !state_.stop_requested;
}

// From the labels and sums of state_.assigned.
void KMeansJob::StartPolish() {
  state_.phase = KMeansPhase::kPolish;
  state_.unpolished = state_.assigned;
  token_ = StartSweep(state_.assigned.sums, state_.assigned.weights,
                      state_.extent.rows);
  token_shard_ = 0;
  token_round_ = 0;
  token_passes_ = 1;
}

void KMeansJob::FillPolishStep() {
  step_.kind = KMeansStepKind::kSweep;
  step_.base = assigned_number_;
  step_.round = token_round_;
  step_.shard = token_shard_;
  step_.token = token_;
}

void KMeansJob::FinishPolish() {
  between_down_ += bytes_down_;
  between_up_ += bytes_up_;
  const bool was_quick = token_.in_quick;
  token_ = std::move(merged_.token);
  const SweepNext next = NextSweep(token_shard_, shards_, token_);
  if (next == SweepNext::kNextShard) {
    ++token_shard_;
    return;
  }
  token_shard_ = 0;
  ++token_round_;
  if (was_quick && !token_.in_quick) ++token_passes_;
  if (next == SweepNext::kFirstShard &&
      token_passes_ <= state_.options.polish_passes && !state_.stop_requested) {
    return;
  }
  state_.polished = true;
  state_.centres = state_.assigned;
  state_.centres.sums = token_.sums;
  state_.centres.weights = token_.weights;
  for (int64_t j = 0; j < state_.options.k; ++j) {
    if (token_.weights[static_cast<size_t>(j)] > 0) SetMean(j);
  }
  token_ = KMeansToken();
  state_.phase = KMeansPhase::kFinal;
}

}  // namespace coterie
