#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

int64_t EmptyCentres(const KMeansCentres& centres) {
  int64_t empty = 0;
  for (size_t j = 0; j < centres.active.size(); ++j) {
    if (centres.active[j] != 0 && centres.weights[j] == 0) ++empty;
  }
  return empty;
}

// Answers may be wrong, but adding them up must not be undefined.
int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) +
                              static_cast<uint64_t>(b));
}

}  // namespace

// Sums and objective of the step that just ended become those of `centres`.
void KMeansJob::TakeSums() {
  KMeansCentres& centres = state_.centres;
  const size_t k = centres.active.size();
  const size_t d = static_cast<size_t>(state_.options.dimension);
  centres.objective = merged_.objective;
  centres.sums = std::move(merged_.sums);
  centres.weights = std::move(merged_.weights);
  if (step_.base == 0 || step_.form != KMeansSumForm::kChanged) return;
  for (size_t i = 0; i < k * d; ++i) {
    centres.sums[i] = WrappingSum(centres.sums[i], state_.assigned.sums[i]);
  }
  for (size_t j = 0; j < k; ++j) {
    centres.weights[j] =
        WrappingSum(centres.weights[j], state_.assigned.weights[j]);
  }
}

KMeansProgress KMeansJob::MakeProgress() {
  return {.run = state_.run,
          .iteration = state_.iteration,
          .objective =
              FromFixed128(merged_.objective, state_.scale.objective_exponent),
          .moved = merged_.moved,
          .empty = EmptyCentres(state_.centres),
          .evaluated = merged_.evaluated,
          .skipped = merged_.skipped,
          .bytes_down = bytes_down_ + std::exchange(between_down_, 0),
          .bytes_up = bytes_up_ + std::exchange(between_up_, 0)};
}

void KMeansJob::FinishAssign() {
  TakeSums();
  const bool first = state_.assigned.rows.empty();
  KMeansCentres previous = std::move(state_.assigned);
  state_.assigned = state_.centres;
  assigned_number_ = step_.number;
  state_.progress.push_back(MakeProgress());
  if (state_.phase == KMeansPhase::kLast) return Finish();
  if (state_.phase == KMeansPhase::kFinal) return FinishRun();
  const absl::int128 now = state_.assigned.objective;
  if (!first && merged_.moved > 0 && now >= previous.objective) {
    state_.centres = std::move(previous);
    return GoToFinal(KMeansStop::kStalled);
  }
  state_.fall = first ? std::numeric_limits<double>::infinity()
                      : static_cast<double>(previous.objective - now) /
                            static_cast<double>(previous.objective);
  if (merged_.moved == 0) {
    state_.stop = KMeansStop::kConverged;
    return FinishRun();
  }
  state_.relocated = 0;
  const int64_t empty = EmptyCentres(state_.centres);
  if (empty > 0 && state_.options.empty == KMeansEmptyPolicy::kError) {
    return Fail(absl::FailedPreconditionError(
        absl::StrFormat("k-means iteration %d leaves %d of %d clusters empty",
                        state_.iteration, empty, state_.options.k)));
  }
  if (empty > 0 && state_.options.empty == KMeansEmptyPolicy::kRelocate) {
    state_.phase = KMeansPhase::kRelocate;
    return;
  }
  UpdateCentres();
}

// Rows by (distance falling, id rising) go to empty centres by rising index.
void KMeansJob::FinishRelocate() {
  const int64_t d = state_.options.dimension;
  KMeansCentres& centres = state_.centres;
  const FixedPointAdder adder(state_.scale, 1);
  std::vector<size_t> order(merged_.picks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    const KMeansPick& x = merged_.picks[a];
    const KMeansPick& y = merged_.picks[b];
    return x.key != y.key ? x.key > y.key : x.id < y.id;
  });
  const auto row_of = [&](size_t pick) {
    return absl::MakeConstSpan(merged_.pick_rows)
        .subspan(pick * static_cast<size_t>(d), static_cast<size_t>(d));
  };
  std::vector<size_t> taken;
  size_t to = 0;
  for (size_t pick : order) {
    while (to < centres.active.size() &&
           (centres.active[to] == 0 || centres.weights[to] != 0)) {
      ++to;
    }
    if (to == centres.active.size()) break;
    const KMeansPick& from = merged_.picks[pick];
    const size_t donor = static_cast<size_t>(from.slot);
    const int64_t units = adder.WeightUnits(from.weight);
    if (units <= 0 || centres.weights[donor] <= units) continue;
    const VectorView row = row_of(pick);
    const bool again = std::any_of(taken.begin(), taken.end(),
                                   [&](size_t t) { return row_of(t) == row; });
    if (again) continue;
    taken.push_back(pick);
    const double norm = CanonicalSquaredNorm(row);
    adder.Accumulate(state_.options.metric, row, norm, from.weight, -1,
                     centres.sums.data() + from.slot * d);
    adder.Accumulate(state_.options.metric, row, norm, from.weight, 1,
                     centres.sums.data() + static_cast<int64_t>(to) * d);
    centres.weights[donor] -= units;
    centres.weights[to] += units;
  }
  state_.relocated = static_cast<int64_t>(taken.size());
  state_.progress.back().relocated = state_.relocated;
  between_down_ += bytes_down_;
  between_up_ += bytes_up_;
  UpdateCentres();
}

// The centre's row becomes its mean (COSINE: the mean's direction). False, and
// the row stays, if there is none.
bool KMeansJob::SetMean(int64_t j) {
  KMeansCentres& centres = state_.centres;
  const int64_t d = state_.options.dimension;
  const bool cosine = state_.options.metric == Metric::kCosine;
  const double weight = FromFixed64(centres.weights[static_cast<size_t>(j)],
                                    state_.scale.weight_exponent);
  const int64_t* sums = centres.sums.data() + j * d;
  std::vector<double> mean(static_cast<size_t>(d));
  double square = 0;
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = FromFixed64(sums[i], state_.scale.sum_exponents[i]) / weight;
    square += mean[i] * mean[i];
  }
  const double norm = cosine ? std::sqrt(square) : 1.0;
  if (!(norm > 0)) return false;
  std::vector<float> row(mean.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    row[i] = static_cast<float>(mean[i] / norm);
  }
  std::copy(row.begin(), row.end(), centres.rows.begin() + j * d);
  return true;
}

void KMeansJob::UpdateCentres() {
  KMeansCentres& centres = state_.centres;
  const int64_t d = state_.options.dimension;
  double shift = 0;
  bool dropped = false;
  for (int64_t j = 0; j < state_.options.k; ++j) {
    const size_t at = static_cast<size_t>(j);
    if (centres.active[at] == 0) continue;
    if (centres.weights[at] == 0) {
      if (state_.options.empty == KMeansEmptyPolicy::kDrop) {
        centres.active[at] = 0;
        dropped = true;
      }
      continue;
    }
    if (!SetMean(j)) continue;
    const auto row = [&](const std::vector<float>& rows) {
      return absl::MakeConstSpan(rows).subspan(static_cast<size_t>(j * d),
                                               static_cast<size_t>(d));
    };
    shift += CanonicalDistance(Metric::kSquaredL2, row(state_.assigned.rows),
                               row(centres.rows));
  }
  state_.progress.back().shift_squared = shift;
  if (shift == 0 && !dropped) {
    state_.stop = KMeansStop::kConverged;
    return FinishRun();
  }
  if (state_.stop_requested) return GoToFinal(KMeansStop::kRequested);
  if (state_.iteration >= state_.options.max_iterations) {
    return GoToFinal(KMeansStop::kMaxIterations);
  }
  if (shift <= state_.options.tolerance * state_.mean_variance &&
      state_.options.tolerance > 0) {
    return GoToFinal(KMeansStop::kTolerance);
  }
  if (state_.fall <= state_.options.relative_tolerance &&
      state_.options.relative_tolerance > 0) {
    return GoToFinal(KMeansStop::kRelative);
  }
  ++state_.iteration;
  state_.phase = KMeansPhase::kAssign;
}

void KMeansJob::GoToFinal(KMeansStop stop) {
  state_.stop = stop;
  state_.phase = KMeansPhase::kFinal;
}

// REQUIRES: labels on the shards fit state_.assigned.
void KMeansJob::FinishRun() {
  if (WantsPolish()) return StartPolish();
  if (!state_.unpolished.rows.empty() &&
      state_.unpolished.objective < state_.assigned.objective) {
    // Rounding of centres cost more than the moves gained.
    state_.centres = std::move(state_.unpolished);
    state_.unpolished = KMeansCentres();
    state_.phase = KMeansPhase::kFinal;
    return;
  }
  state_.unpolished = KMeansCentres();
  if (state_.best_run < 0 ||
      state_.assigned.objective < state_.best.objective) {
    state_.best = state_.assigned;
    state_.best_run = state_.run;
    state_.best_iterations = state_.iteration;
    state_.best_stop = state_.stop;
  }
  if (state_.run + 1 < state_.options.runs && !state_.stop_requested) {
    ++state_.run;
    return StartRun();
  }
  if (state_.best_run == state_.run) return Finish();
  state_.centres = state_.best;
  state_.phase = KMeansPhase::kLast;
}

}  // namespace coterie
