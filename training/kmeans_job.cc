#include "training/kmeans_job.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/kmeans_codec.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_merge.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

// Between the numbers of steps before and after a resumption.
constexpr int64_t kResumeStride = int64_t{1} << 32;

bool NeedsLabels(const KMeansCheckpoint& state) {
  return !state.assigned.rows.empty() &&
         (state.phase == KMeansPhase::kAssign ||
          state.phase == KMeansPhase::kRelocate ||
          state.phase == KMeansPhase::kPolish ||
          state.phase == KMeansPhase::kFinal ||
          state.phase == KMeansPhase::kLast ||
          state.phase == KMeansPhase::kMeasure ||
          state.phase == KMeansPhase::kSilhouette);
}

int64_t LogFloor(int64_t k) {
  return static_cast<int64_t>(std::floor(std::log(static_cast<double>(k))));
}

}  // namespace

KMeansJob::KMeansJob(KMeansCheckpoint state, int32_t shards)
    : state_(std::move(state)), shards_(shards) {}

absl::StatusOr<KMeansJob> KMeansJob::Create(const KMeansOptions& options,
                                            int32_t shards) {
  const absl::Status valid = ValidateKMeansOptions(options);
  if (!valid.ok()) return valid;
  if (shards < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means over %d shards", shards));
  }
  KMeansCheckpoint state;
  state.options = options;
  KMeansJob job(std::move(state), shards);
  job.Issue();
  return job;
}

absl::StatusOr<KMeansJob> KMeansJob::Resume(KMeansCheckpoint checkpoint,
                                            int32_t shards) {
  const absl::Status valid = ValidateKMeansCheckpoint(checkpoint);
  if (!valid.ok()) return valid;
  if (shards < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means over %d shards", shards));
  }
  KMeansJob job(std::move(checkpoint), shards);
  KMeansCheckpoint& state = job.state_;
  if (state.phase == KMeansPhase::kFailed) {
    return absl::InvalidArgumentError("the job of the checkpoint has failed");
  }
  if (job.Done()) return job;
  state.number = (state.number / kResumeStride + 1) * kResumeStride;
  // These two build on what the step before them told the shards.
  if (state.phase == KMeansPhase::kPlusTry) {
    state.phase =
        state.seeds.empty() ? KMeansPhase::kFirstDraw : KMeansPhase::kPlusDraw;
  }
  if (state.phase == KMeansPhase::kSample) {
    state.phase = KMeansPhase::kPotential;
  }
  if (state.phase == KMeansPhase::kPolish) job.StartPolish();
  if (state.phase != KMeansPhase::kExtent) job.restore_ = Restore::kExtent;
  job.Issue();
  return job;
}

bool KMeansJob::Done() const {
  return state_.phase == KMeansPhase::kDone ||
         state_.phase == KMeansPhase::kFailed;
}

void KMeansJob::Fail(absl::Status status) {
  status_ = std::move(status);
  state_.phase = KMeansPhase::kFailed;
}

// The next step, from the state.
void KMeansJob::Issue() {
  step_ = KMeansStep();
  step_.number = ++state_.number;
  FillStep();
  merged_ = KMeansPartial();
  answered_.assign(static_cast<size_t>(shards_), 0);
  answers_ = 0;
  expected_ = step_.shard < 0 ? shards_ : 1;
  bytes_down_ = KMeansStepBytes(step_) * expected_;
  bytes_up_ = 0;
}

void KMeansJob::FillStep() {
  if (restore_ == Restore::kExtent || state_.phase == KMeansPhase::kExtent) {
    step_.kind = KMeansStepKind::kExtent;
    return;
  }
  if (restore_ == Restore::kTotals || state_.phase == KMeansPhase::kTotals) {
    step_.kind = KMeansStepKind::kTotals;
    step_.scale = state_.scale;
    return;
  }
  if (restore_ == Restore::kLabels) {
    step_.kind = KMeansStepKind::kAssign;
    step_.rows = state_.assigned.rows;
    step_.active = state_.assigned.active;
    step_.algorithm = state_.options.algorithm;
    return;
  }
  switch (state_.phase) {
    case KMeansPhase::kAssign:
    case KMeansPhase::kFinal:
    case KMeansPhase::kLast:
      FillAssignStep(state_.centres);
      return;
    case KMeansPhase::kRelocate:
      step_.kind = KMeansStepKind::kFarthest;
      step_.base = assigned_number_;
      for (size_t j = 0; j < state_.centres.active.size(); ++j) {
        if (state_.centres.active[j] != 0 && state_.centres.weights[j] == 0) {
          ++step_.count;
        }
      }
      // Some may be the last of their clusters.
      step_.count *= 2;
      return;
    case KMeansPhase::kPolish:
      return FillPolishStep();
    case KMeansPhase::kBatch:
    case KMeansPhase::kReassign:
      return FillBatchStep();
    case KMeansPhase::kMeasure:
      step_.kind = KMeansStepKind::kMeasure;
      step_.base = assigned_number_;
      return;
    case KMeansPhase::kSilhouette:
      return FillSilhouetteStep();
    default:
      FillSeedStep();
  }
}

void KMeansJob::FillSeedStep() {
  step_.seed = RunSeed();
  step_.round = state_.round;
  step_.first_row = seeds_known_;
  const auto fresh = [this] {
    return std::vector<float>(
        state_.seeds.begin() + seeds_known_ * state_.options.dimension,
        state_.seeds.end());
  };
  switch (state_.phase) {
    case KMeansPhase::kPick:
      step_.kind = KMeansStepKind::kPick;
      step_.count = state_.options.k;
      return;
    case KMeansPhase::kFirstDraw:
      step_.kind = KMeansStepKind::kDraw;
      step_.count = 1;
      return;
    case KMeansPhase::kPlusDraw:
      step_.kind = KMeansStepKind::kDraw;
      step_.rows = fresh();
      step_.count = 2 + LogFloor(state_.options.k);
      return;
    case KMeansPhase::kPlusTry:
      step_.kind = KMeansStepKind::kTry;
      step_.rows = state_.candidates;
      return;
    case KMeansPhase::kPotential:
      step_.kind = KMeansStepKind::kPotential;
      step_.rows = fresh();
      return;
    case KMeansPhase::kSample:
      step_.kind = KMeansStepKind::kSample;
      step_.potential = state_.potential;
      step_.amount =
          state_.options.oversampling * static_cast<double>(state_.options.k);
      return;
    default:
      step_.kind = KMeansStepKind::kWeigh;
      step_.rows = fresh();
  }
}

void KMeansJob::FillAssignStep(const KMeansCentres& centres) {
  step_.kind = KMeansStepKind::kAssign;
  step_.base = assigned_number_;
  step_.algorithm = state_.options.algorithm;
  step_.form = state_.options.form;
  if (std::count(centres.active.begin(), centres.active.end(), uint8_t{0}) >
      0) {
    step_.active = centres.active;
  }
  step_.rows = centres.rows;
  if (step_.base == 0 || step_.form != KMeansSumForm::kChanged) return;
  const int64_t d = state_.options.dimension;
  std::vector<uint8_t> touched;
  std::vector<float> rows;
  auto old = state_.assigned.rows.begin();
  for (auto now = centres.rows.begin(); now != centres.rows.end();
       now += d, old += d) {
    const bool changed = !std::equal(now, now + d, old);
    touched.push_back(changed ? 1 : 0);
    if (changed) rows.insert(rows.end(), now, now + d);
  }
  if ((touched.size() + 7) / 8 + 4 * rows.size() < 4 * centres.rows.size()) {
    step_.touched = std::move(touched);
    step_.rows = std::move(rows);
  }
}

absl::Status KMeansJob::Accept(int32_t shard, const KMeansPartial& partial) {
  if (shard < 0 || shard >= shards_) {
    return absl::InvalidArgumentError(
        absl::StrFormat("shard %d of %d", shard, shards_));
  }
  if (Done() || partial.number != step_.number ||
      (step_.shard >= 0 && shard != step_.shard) ||
      answered_[static_cast<size_t>(shard)] != 0) {
    return absl::OkStatus();
  }
  const absl::Status fits = CheckKMeansPartial(
      step_, state_.options.k, state_.options.dimension, partial);
  if (!fits.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("shard %d: %s", shard, fits.message()));
  }
  bytes_up_ += KMeansPartialBytes(partial);
  MergeKMeansPartial(step_, state_.options.dimension, state_.scale, partial,
                     merged_);
  answered_[static_cast<size_t>(shard)] = 1;
  if (++answers_ < expected_) return absl::OkStatus();
  Advance();
  if (!Done()) Issue();
  return absl::OkStatus();
}

void KMeansJob::Advance() {
  if (restore_ != Restore::kNone) return Restored();
  switch (state_.phase) {
    case KMeansPhase::kExtent:
      return FinishExtent();
    case KMeansPhase::kTotals:
      return FinishTotals();
    case KMeansPhase::kAssign:
    case KMeansPhase::kFinal:
    case KMeansPhase::kLast:
      return FinishAssign();
    case KMeansPhase::kRelocate:
      return FinishRelocate();
    case KMeansPhase::kPolish:
      return FinishPolish();
    case KMeansPhase::kBatch:
      return FinishBatch();
    case KMeansPhase::kReassign:
      return FinishReassign();
    case KMeansPhase::kMeasure:
      return FinishMeasure();
    case KMeansPhase::kSilhouette:
      return FinishSilhouette();
    default:
      return AdvanceSeeding();
  }
}

// A step of restoring has ended.
void KMeansJob::Restored() {
  if (restore_ == Restore::kExtent) {
    if (!(merged_.extent == state_.extent)) {
      return Fail(absl::FailedPreconditionError(absl::StrFormat(
          "the rows are not those of the checkpoint: %d rows with checksum "
          "%016x, then %d with %016x",
          state_.extent.rows, state_.extent.checksum, merged_.extent.rows,
          merged_.extent.checksum)));
    }
    restore_ = state_.phase == KMeansPhase::kTotals ? Restore::kNone
                                                    : Restore::kTotals;
    return;
  }
  if (restore_ == Restore::kTotals) {
    restore_ = NeedsLabels(state_) ? Restore::kLabels : Restore::kNone;
    return;
  }
  if (state_.options.form != KMeansSumForm::kFloat32 &&
      merged_.sums != state_.assigned.sums) {
    return Fail(absl::FailedPreconditionError(
        "the rows are not those of the checkpoint: sums of clusters differ"));
  }
  assigned_number_ = step_.number;
  restore_ = Restore::kNone;
}

void KMeansJob::FinishExtent() {
  state_.extent = std::move(merged_.extent);
  const KMeansExtent& extent = state_.extent;
  if (extent.rows == 0) {
    return Fail(absl::FailedPreconditionError("k-means over no rows"));
  }
  if (extent.positive_rows == 0) {
    return Fail(absl::InvalidArgumentError(
        absl::StrFormat("the weights of all %d rows are 0", extent.rows)));
  }
  if (state_.options.k > extent.rows) {
    return Fail(absl::InvalidArgumentError(absl::StrFormat(
        "k = %d clusters of %d rows", state_.options.k, extent.rows)));
  }
  state_.scale = ScaleFor(state_.options.metric, extent, state_.options.given);
  state_.phase = KMeansPhase::kTotals;
}

void KMeansJob::FinishTotals() {
  const KMeansScale& scale = state_.scale;
  const double weight = FromFixed64(merged_.weights[0], scale.weight_exponent);
  double spread =
      FromFixed128(merged_.objective, scale.objective_exponent) / weight;
  for (size_t j = 0; j < merged_.sums.size(); ++j) {
    const double mean =
        FromFixed64(merged_.sums[j], scale.sum_exponents[j]) / weight;
    spread -= mean * mean;
  }
  state_.mean_variance =
      std::max(0.0, spread) / static_cast<double>(merged_.sums.size());
  StartRun();
}

KMeansResult KMeansJob::Result() const {
  KMeansResult result;
  result.centres = state_.best.rows;
  result.active = state_.best.active;
  result.weights = BestWeights();
  for (double w : result.weights) {
    if (w > 0) ++result.non_empty;
  }
  result.objective =
      FromFixed128(state_.best.objective, state_.scale.objective_exponent);
  result.iterations = state_.best_iterations;
  result.run = state_.best_run;
  result.stop = state_.best_stop;
  result.quality = state_.quality;
  return result;
}

}  // namespace coterie
