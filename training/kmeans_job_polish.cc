#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "training/kmeans_fixed_point.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_sweep.h"

namespace coterie {
namespace {

// Moves of one step: 28 bytes each.
constexpr int64_t kMaxMoves = 8192;
// Of J, below which a change is rounding.
constexpr double kLeastFall = 0x1p-44;

// Whether these can be added to sums of a job without overflow.
bool Moderate(const std::vector<int64_t>& values) {
  constexpr int64_t kMost = int64_t{1} << 61;
  return std::all_of(values.begin(), values.end(),
                     [](int64_t v) { return v >= -kMost && v <= kMost; });
}

}  // namespace

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
  moves_.clear();
  moves_taken_ = 0;
  moves_most_ = kMaxMoves;
}

void KMeansJob::FillPolishStep() {
  step_.base = assigned_number_;
  step_.round = token_round_;
  if (state_.options.polish == KMeansPolish::kHartigan) {
    return FillMovesStep();
  }
  step_.kind = KMeansStepKind::kSweep;
  step_.shard = token_shard_;
  step_.token = token_;
}

void KMeansJob::FinishPolish() {
  between_down_ += bytes_down_;
  between_up_ += bytes_up_;
  if (step_.kind == KMeansStepKind::kPropose) return FinishPropose();
  if (step_.kind == KMeansStepKind::kApply) return FinishApply();
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
  if (next == SweepNext::kDone ||
      token_passes_ > state_.options.polish_passes || state_.stop_requested) {
    EndPolish();
  }
}

// Proposals while none are left to try.
void KMeansJob::FillMovesStep() {
  if (moves_taken_ == 0) {
    step_.kind = KMeansStepKind::kPropose;
    step_.token = token_;
    step_.count = kMaxMoves;
    return;
  }
  step_.kind = KMeansStepKind::kApply;
  step_.round = 0;
  step_.picks.assign(moves_.begin(), moves_.begin() + moves_taken_);
}

void KMeansJob::FinishPropose() {
  moves_ = std::move(merged_.picks);
  std::sort(moves_.begin(), moves_.end(),
            [](const KMeansPick& a, const KMeansPick& b) {
              return a.key != b.key ? a.key > b.key : a.id < b.id;
            });
  // Each shard offered its best kMaxMoves: these are the best of all.
  moves_.resize(std::min(moves_.size(), static_cast<size_t>(kMaxMoves)));
  if (moves_.empty() || token_passes_ > state_.options.polish_passes ||
      state_.stop_requested) {
    return EndPolish();
  }
  ++token_passes_;
  moves_taken_ =
      std::min<int64_t>(moves_most_, static_cast<int64_t>(moves_.size()));
}

void KMeansJob::FinishApply() {
  const double change =
      merged_.moved == moves_taken_ && Moderate(merged_.sums) &&
              Moderate(merged_.weights)
          ? ObjectiveChange(token_, state_.scale, merged_.sums, merged_.weights)
          : std::numeric_limits<double>::infinity();
  const double least =
      kLeastFall * FromFixed128(state_.unpolished.objective,
                                state_.scale.objective_exponent);
  if (!(change < -least)) {
    if (moves_taken_ == 1) return EndPolish();  // nothing that can be told
    moves_taken_ /= 2;
    moves_most_ = moves_taken_;
    return;
  }
  for (size_t i = 0; i < token_.sums.size(); ++i) {
    token_.sums[i] += merged_.sums[i];
  }
  for (size_t j = 0; j < token_.weights.size(); ++j) {
    token_.weights[j] += merged_.weights[j];
  }
  token_.moves += moves_taken_;
  token_round_ = step_.number;  // holds from now on
  moves_most_ = std::min(2 * moves_taken_, kMaxMoves);
  moves_taken_ = 0;
}

void KMeansJob::EndPolish() {
  state_.polished = true;
  state_.centres = state_.assigned;
  state_.centres.sums = token_.sums;
  state_.centres.weights = token_.weights;
  for (int64_t j = 0; j < state_.options.k; ++j) {
    if (token_.weights[static_cast<size_t>(j)] > 0) SetMean(j);
  }
  token_ = KMeansToken();
  moves_.clear();
  state_.phase = KMeansPhase::kFinal;
}

}  // namespace coterie
