#include "training/kmeans_shard.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

constexpr int64_t kRowsPerTask = 512;
// Far above 2 + ln k.
constexpr int64_t kMaxDraws = 1024;

}  // namespace

KMeansShard::KMeansShard(KMeansRows rows, const Options& options)
    : rows_(std::move(rows)), options_(options), d_(rows_.dimension()) {}

absl::StatusOr<KMeansPartial> KMeansShard::Run(const KMeansStep& step,
                                               const KMeansWorkers& workers,
                                               absl::FunctionRef<bool()> stop) {
  if (step.number == last_number_ && last_answer_.has_value()) {
    return *last_answer_;
  }
  if (step.number <= last_number_) {
    return absl::FailedPreconditionError(
        absl::StrFormat("k-means step %d comes after step %d was answered",
                        step.number, last_number_));
  }
  const absl::Status checked = Check(step);
  if (!checked.ok()) return checked;
  absl::StatusOr<KMeansPartial> answer = Answer(step, workers, stop);
  if (!answer.ok()) return answer;
  answer->number = step.number;
  answer->kind = step.kind;
  last_number_ = step.number;
  last_answer_ = *answer;
  return answer;
}

absl::Status KMeansShard::Check(const KMeansStep& step) const {
  const auto bad = [&step](const char* what) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means step %d of kind %d: %s", step.number,
                        static_cast<int>(step.kind), what));
  };
  if (d_ > 0 && static_cast<int64_t>(step.rows.size()) % d_ != 0) {
    return bad("rows are not of the shard's dimension");
  }
  if (step.count < 0 || step.first_row < 0) return bad("a negative count");
  if (step.kind == KMeansStepKind::kDraw && step.count > kMaxDraws) {
    return bad("too many draws");
  }
  for (size_t i = 0; i < step.rows.size(); i += static_cast<size_t>(d_)) {
    const absl::Status valid = ValidateVector(
        rows_.metric(),
        absl::MakeConstSpan(step.rows).subspan(i, static_cast<size_t>(d_)));
    if (!valid.ok()) {
      return bad("a row is not valid under the metric");
    }
  }
  if (step.kind != KMeansStepKind::kExtent &&
      step.kind != KMeansStepKind::kTotals &&
      step.kind != KMeansStepKind::kPick && !adder_.has_value()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d needs the scale of sums, which this shard does not "
        "have",
        step.number));
  }
  return absl::OkStatus();
}

absl::StatusOr<KMeansPartial> KMeansShard::Answer(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) {
  switch (step.kind) {
    case KMeansStepKind::kExtent: {
      KMeansPartial partial;
      partial.extent = ExtentOf(rows_);
      return partial;
    }
    case KMeansStepKind::kTotals:
      return Totals(step);
    case KMeansStepKind::kAssign:
      return Assign(step, workers, stop);
    case KMeansStepKind::kFarthest: {
      const absl::Status base = CheckBase(step);
      if (!base.ok()) return base;
      return Farthest(step);
    }
    case KMeansStepKind::kMeasure:
      return Measure(step);
    case KMeansStepKind::kSilhouette:
      return Silhouette(step, workers, stop);
    case KMeansStepKind::kSweep:
      return Sweep(step, stop);
    case KMeansStepKind::kPropose:
      return Propose(step, workers, stop);
    case KMeansStepKind::kApply:
      return Apply(step);
    case KMeansStepKind::kBatch:
      return Batch(step, workers, stop);
    case KMeansStepKind::kBatchPick:
      return BatchPick(step);
    case KMeansStepKind::kPick:
    case KMeansStepKind::kDraw:
    case KMeansStepKind::kTry:
    case KMeansStepKind::kPotential:
    case KMeansStepKind::kSample:
    case KMeansStepKind::kWeigh:
      return Seed(step, workers, stop);
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("k-means step %d is of an unknown kind, %d", step.number,
                      static_cast<int>(step.kind)));
}

absl::Status KMeansShard::CheckBase(const KMeansStep& step) const {
  if (assigned_ != 0 && assigned_ == step.base) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "k-means step %d needs the labels of step %d; this shard has those of %d",
      step.number, step.base, assigned_));
}

absl::StatusOr<KMeansPartial> KMeansShard::Totals(const KMeansStep& step) {
  if (!ScaleFits(step.scale, ExtentOf(rows_))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means step %d: a scale of %d columns that does not fit the %d rows "
        "of %d here",
        step.number, step.scale.sum_exponents.size(), rows_.size(), d_));
  }
  scale_ = step.scale;
  adder_.emplace(scale_, rows_.size());
  KMeansPartial partial;
  partial.sums.assign(static_cast<size_t>(d_), 0);
  partial.weights.assign(1, 0);
  for (int64_t i = 0; i < rows_.size(); ++i) {
    adder_->Add(rows_, i, partial.sums.data());
    partial.weights[0] += adder_->WeightUnits(rows_.weight(i));
    const double square = rows_.metric() == Metric::kCosine
                              ? 1.0
                              : CanonicalSquaredNorm(rows_.row(i));
    partial.objective += adder_->Objective(rows_.weight(i), square);
  }
  return partial;
}

bool KMeansShard::ForRows(
    const KMeansWorkers& workers, absl::FunctionRef<bool()> stop,
    absl::FunctionRef<void(int32_t, int64_t, int64_t)> body) const {
  std::atomic<bool> stopped = false;
  const int64_t tasks = (rows_.size() + kRowsPerTask - 1) / kRowsPerTask;
  workers.ForEach(tasks, [&](int32_t worker, int64_t task) {
    if (stopped.load(std::memory_order_relaxed)) return;
    if (stop()) {
      stopped.store(true, std::memory_order_relaxed);
      return;
    }
    const int64_t begin = task * kRowsPerTask;
    body(worker, begin, std::min(begin + kRowsPerTask, rows_.size()));
  });
  return !stopped.load();
}

void KMeansShard::AddPick(const KMeansPick& pick, int64_t row,
                          KMeansPartial& partial) const {
  partial.picks.push_back(pick);
  const VectorView x = rows_.row(row);
  partial.pick_rows.insert(partial.pick_rows.end(), x.begin(), x.end());
}

KMeansPartial KMeansShard::Farthest(const KMeansStep& step) const {
  KMeansPartial partial;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rows_.size(); ++i) {
    if (distances_[static_cast<size_t>(i)] > 0 && rows_.weight(i) > 0) {
      order.push_back(i);
    }
  }
  // Rows are in the order of ids.
  std::stable_sort(order.begin(), order.end(), [this](int64_t a, int64_t b) {
    return distances_[static_cast<size_t>(a)] >
           distances_[static_cast<size_t>(b)];
  });
  std::vector<int64_t> taken;
  for (int64_t i : order) {
    if (static_cast<int64_t>(taken.size()) >= step.count) break;
    const bool again = std::any_of(taken.begin(), taken.end(), [&](int64_t t) {
      return rows_.row(t) == rows_.row(i);
    });
    if (again) continue;
    taken.push_back(i);
    AddPick({.key = distances_[static_cast<size_t>(i)],
             .id = rows_.id(i),
             .slot = labels_[static_cast<size_t>(i)],
             .weight = rows_.weight(i)},
            i, partial);
  }
  return partial;
}

}  // namespace coterie
