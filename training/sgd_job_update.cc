// What answers do to the parameters. See training/sgd_options.h.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_compress.h"
#include "training/sgd_draw.h"
#include "training/sgd_job.h"
#include "training/sgd_shard.h"

namespace coterie {
namespace {

bool Saga(const SgdTask& task) {
  return task.estimator == SgdEstimator::kSaga ||
         task.estimator == SgdEstimator::kSagaShared;
}

}  // namespace

// The rows there are, and the share of a worker's rows in one step.
void SgdJob::CountRows() {
  const std::vector<int64_t> rows = WorkerRows();
  total_rows_ = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  row_share_ = 1;
  if (task_.estimator == SgdEstimator::kFull) return;
  const double largest =
      task_.estimator == SgdEstimator::kSagaShared
          ? static_cast<double>(total_rows_) / task_.workers
          : static_cast<double>(*std::max_element(rows.begin(), rows.end()));
  row_share_ =
      std::min(1.0, static_cast<double>(state_.options.batch) / largest);
  if (task_.sampling == SgdSampling::kEpochs) {
    row_share_ = 1 / std::ceil(1 / row_share_);
  }
}

bool SgdJob::Refreshing() const {
  const int64_t every = state_.options.refresh_every;
  return Saga(task_) &&
         (state_.version == 0 || (every > 0 && state_.version % every == 0));
}

void SgdJob::AddContribution(int32_t shard, const SgdPartial& partial,
                             const SgdContribution& c, absl::Span<double> sum) {
  const double scale = SgdCompressionOf(task_).scale;
  const auto add = [&](double factor, absl::Span<double> to) {
    AddSgdPayload(task_, partial.round, c.worker, c.payload, factor, to);
  };
  if (task_.feedback == SgdFeedback::kPlain) {
    add(state_.options.accelerated ? scale : 1, sum);
    return;
  }
  const double factor = SgdShiftFactor(task_);
  std::vector<double>& h = state_.h[{shard, c.worker}];
  h.resize(state_.x.size());
  add(factor, absl::MakeSpan(h));
  add(factor, absl::MakeSpan(state_.h_sum));
  if (task_.feedback == SgdFeedback::kShift) add(scale, sum);
}

// What h and l2 say of every worker, on the blocks of this round.
void SgdJob::AddSagaEstimates(absl::Span<double> sum) {
  std::vector<double> penalty(sum.size());
  AddSgdWeights(task_.model, slots_[0].step.parameters, task_.model.l2,
                absl::MakeSpan(penalty));
  const auto add = [&](int32_t worker, const std::vector<double>& h,
                       double factor, double rows) {
    for (const auto& run : SgdMask(task_, state_.version, worker)) {
      for (size_t j = static_cast<size_t>(run.first);
           j < static_cast<size_t>(run.second); ++j) {
        sum[j] += factor * h[j] + rows * penalty[j];
      }
    }
  };
  if (task_.estimator == SgdEstimator::kSagaShared) {
    const double n = task_.workers;
    for (int32_t w = 0; w < task_.workers; ++w) {
      add(w, state_.h_sum, 1 / n, static_cast<double>(total_rows_) / n);
    }
    return;
  }
  for (int32_t s = 0; s < shards_; ++s) {
    for (const SgdWorkerRows& e : state_.extents[static_cast<size_t>(s)]) {
      add(e.worker, state_.h[{s, e.worker}], 1, static_cast<double>(e.rows));
    }
  }
}

void SgdJob::AddSaga(const SgdPartial& partial, int32_t shard,
                     absl::Span<double> sum) {
  SgdTask task = task_;
  if (partial.refresh) task.compressor = SgdCompressor::kNone;
  const bool shared = task_.estimator == SgdEstimator::kSagaShared;
  for (const SgdContribution& c : partial.contributions) {
    const auto add = [&](double factor, absl::Span<double> to) {
      AddSgdPayload(task, partial.round, c.worker, c.payload, factor, to);
    };
    add(partial.refresh ? 1 : 1 / row_share_, sum);
    add(1, absl::MakeSpan(shared ? state_.h_sum : state_.h[{shard, c.worker}]));
  }
}

void SgdJob::ApplyRound() {
  std::vector<double> sum(state_.x.size());
  if (task_.feedback != SgdFeedback::kPlain) {
    state_.h_sum.resize(sum.size());
    sum = state_.h_sum;
  }
  const bool refresh = Refreshing();
  if (Saga(task_)) {
    state_.h_sum.resize(sum.size());
    if (refresh) {
      state_.h.clear();
      for (int32_t s = 0; s < shards_; ++s) {
        if (task_.estimator == SgdEstimator::kSagaShared) break;
        for (const SgdWorkerRows& e : state_.extents[static_cast<size_t>(s)]) {
          state_.h[{s, e.worker}].assign(sum.size(), 0.0);
        }
      }
      std::fill(state_.h_sum.begin(), state_.h_sum.end(), 0.0);
      AddSgdWeights(task_.model, slots_[0].step.parameters,
                    task_.model.l2 * static_cast<double>(total_rows_),
                    absl::MakeSpan(sum));
    } else {
      AddSagaEstimates(absl::MakeSpan(sum));
    }
  }
  int64_t rows = 0;
  for (int32_t s = 0; s < shards_; ++s) {
    Slot& slot = slots_[static_cast<size_t>(s)];
    if (!slot.answered) continue;
    if (Saga(task_)) {
      AddSaga(slot.partial, s, absl::MakeSpan(sum));
    } else {
      for (const SgdContribution& c : slot.partial.contributions) {
        AddContribution(s, slot.partial, c, absl::MakeSpan(sum));
      }
    }
    rows += slot.partial.rows;
    slot.base = slot.partial.number;
    state_.shard_loss[static_cast<size_t>(s)] = slot.partial.loss;
    state_.shard_rows[static_cast<size_t>(s)] = slot.partial.rows;
    ++state_.answers[static_cast<size_t>(s)];
    SgdShardAccount& account = state_.accounts[static_cast<size_t>(s)];
    ++account.accepted;
    account.rows += slot.partial.rows;
    ++state_.staleness[0];
  }
  if (task_.feedback == SgdFeedback::kEf21) sum = state_.h_sum;
  state_.progress.rows = rows;
  penalty_ = SgdPenalty(task_.model, slots_[0].step.parameters);
  const bool all = task_.feedback != SgdFeedback::kPlain || Saga(task_);
  const double divisor = static_cast<double>(all ? total_rows_ : rows);
  if (state_.options.accelerated) {
    MoveAccelerated(sum, divisor);
  } else {
    Move(sum, divisor, SgdStepSize(state_.options, plan_, state_.version));
  }
  ++state_.version;
  updated_ = true;
}

void SgdJob::Move(absl::Span<const double> sum, double rows, double step) {
  double squares = 0;
  if (rows > 0) {
    for (size_t j = 0; j < sum.size(); ++j) {
      const double g = sum[j] / rows;
      squares += g * g;
      state_.x[j] -= step * g;
    }
  }
  ShrinkSgdWeights(task_.model, step, absl::MakeSpan(state_.x));
  state_.progress.squared_gradient = squares;
  state_.progress.step = step;
}

void SgdJob::MoveAccelerated(absl::Span<const double> sum, double rows) {
  const double step = SgdStepSize(state_.options, plan_, state_.version);
  const double rho = plan_.strong_growth;
  const double q = std::sqrt(plan_.mu * step / rho);
  const double eta = 1 / (rho * q);
  const double a = q / (1 + q);
  double squares = 0;
  for (size_t j = 0; j < sum.size(); ++j) {
    const double g = rows > 0 ? sum[j] / rows : 0;
    squares += g * g;
    const double x = state_.x[j];
    state_.y[j] = x - step * g;
    state_.v[j] = (1 - q) * state_.v[j] + q * x - eta * step * g;
    state_.x[j] = a * state_.v[j] + (1 - a) * state_.y[j];
  }
  state_.progress.squared_gradient = squares;
  state_.progress.step = step;
}

// The step for an answer, as if all shards had answered alike.
double SgdJob::AnswerStep(int64_t staleness) const {
  const double step = SgdStepSize(state_.options, plan_, state_.version);
  if (state_.options.mode != SgdMode::kAsynchronous) return step;
  const double s = static_cast<double>(staleness);
  switch (state_.options.rule) {
    case SgdAsyncRule::kStalenessScaled:
      return step / std::max(1.0, s);
    case SgdAsyncRule::kDelayAdaptive:
      if (staleness <= shards_) return step;
      return plan_.smoothness > 0
                 ? std::min(step, shards_ / (4 * plan_.smoothness * s))
                 : step * shards_ / s;
    default:
      return step;
  }
}

void SgdJob::ApplyAnswer(int32_t shard, const SgdPartial& partial) {
  const size_t s = static_cast<size_t>(shard);
  const SgdOptions& o = state_.options;
  Slot& slot = slots_[s];
  ++state_.answers[s];
  const int64_t staleness = state_.version - slot.step.version;
  const int64_t limit =
      o.max_staleness > 0 ? o.max_staleness : 10 * int64_t{shards_};
  if (staleness > limit) {
    ++state_.accounts[s].dropped;
    return;
  }
  slot.base = partial.number;
  state_.shard_loss[s] = partial.loss;
  state_.shard_rows[s] = partial.rows;
  ++state_.accounts[s].accepted;
  state_.accounts[s].rows += partial.rows;
  ++state_.staleness[staleness];
  state_.progress.rows = partial.rows;
  penalty_ = SgdPenalty(task_.model, slot.step.parameters);
  const bool table = task_.feedback != SgdFeedback::kPlain;
  if (!table && o.mode == SgdMode::kAsynchronous &&
      o.rule == SgdAsyncRule::kProximal) {
    MoveProximal(shard, partial);
  } else {
    std::vector<double> sum(state_.x.size());
    if (table) state_.h_sum.resize(sum.size());
    if (o.mode == SgdMode::kBuffered && !state_.buffered.empty()) {
      sum = state_.buffered;
    }
    for (const SgdContribution& c : partial.contributions) {
      AddContribution(shard, partial, c, absl::MakeSpan(sum));
    }
    if (o.mode == SgdMode::kBuffered) {
      state_.buffered = sum;
      if (++state_.buffered_answers < o.buffer) return;
      state_.buffered.clear();
      state_.buffered_answers = 0;
    }
    if (table) {
      Move(state_.h_sum, static_cast<double>(total_rows_),
           AnswerStep(staleness) / shards_);
    } else {
      Move(sum, static_cast<double>(total_rows_) * row_share_,
           AnswerStep(staleness));
    }
  }
  ++state_.version;
  updated_ = true;
}

void SgdJob::MoveProximal(int32_t shard, const SgdPartial& partial) {
  const double step = SgdStepSize(state_.options, plan_, state_.version);
  std::vector<double> sum(state_.x.size());
  for (const SgdContribution& c : partial.contributions) {
    AddContribution(shard, partial, c, absl::MakeSpan(sum));
  }
  std::vector<double>& point = state_.points[static_cast<size_t>(shard)];
  point = slots_[static_cast<size_t>(shard)].step.parameters;
  double squares = 0;
  for (size_t j = 0; j < sum.size() && partial.rows > 0; ++j) {
    const double g = sum[j] / static_cast<double>(partial.rows);
    squares += g * g;
    point[j] -= step * g;
  }
  const double total = static_cast<double>(total_rows_);
  std::fill(state_.x.begin(), state_.x.end(), 0.0);
  for (size_t s = 0; s < state_.points.size(); ++s) {
    int64_t rows = 0;
    for (const SgdWorkerRows& e : state_.extents[s]) rows += e.rows;
    for (size_t j = 0; j < sum.size(); ++j) {
      state_.x[j] += static_cast<double>(rows) / total * state_.points[s][j];
    }
  }
  ShrinkSgdWeights(task_.model, step, absl::MakeSpan(state_.x));
  state_.progress.squared_gradient = squares;
  state_.progress.step = step;
}

void SgdJob::AcceptEvaluation() {
  double loss = 0;
  int64_t correct = 0, rows = 0;
  for (const Slot& slot : slots_) {
    const SgdStepKind kind = slot.partial.kind;
    if (!slot.answered ||
        (kind != SgdStepKind::kEvaluate && kind != SgdStepKind::kMeasure)) {
      return;
    }
    loss += slot.partial.loss;
    correct += slot.partial.correct;
    rows += slot.partial.rows;
  }
  const double count = static_cast<double>(std::max<int64_t>(rows, 1));
  for (Slot& slot : slots_) slot.answered = false;
  if (confirming_) {
    AcceptConfirmation(loss / count);
    return;
  }
  SgdProgress& progress = state_.progress;
  progress.measured_at = state_.version;
  progress.held_out_loss = loss / count;
  progress.held_out_accuracy = static_cast<double>(correct) / count;
  state_.phase = ending_ ? SgdPhase::kDone : SgdPhase::kGradient;
  if (!ending_) IssueAll();
}

// The loss of the rows to train on, at one version.
void SgdJob::AcceptConfirmation(double loss) {
  confirming_ = false;
  state_.phase = SgdPhase::kGradient;
  state_.progress.loss = loss + SgdPenalty(task_.model, Parameters());
  // Each shard may answer once before it is tried again.
  confirm_from_ = state_.version + shards_;
  Conclude(WhyStop());
}

// Mean over the rows of the update.
void SgdJob::MeanLoss() {
  double loss = 0;
  int64_t rows = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    loss += state_.shard_loss[s];
    rows += state_.shard_rows[s];
  }
  if (rows > 0) {
    state_.progress.loss = loss / static_cast<double>(rows) + penalty_;
  }
}

SgdStop SgdJob::WhyStop() const {
  const SgdOptions& o = state_.options;
  const SgdProgress& progress = state_.progress;
  if (stop_requested_) return SgdStop::kRequested;
  if (o.min_gradient > 0 && progress.squared_gradient <= o.min_gradient) {
    return SgdStop::kMinGradient;
  }
  const bool evaluated =
      std::any_of(state_.shard_rows.begin(), state_.shard_rows.end(),
                  [](int64_t rows) { return rows > 0; });
  if (o.target_loss >= 0 && evaluated && progress.loss <= o.target_loss) {
    return SgdStop::kTargetLoss;
  }
  return state_.version >= o.max_updates ? SgdStop::kMaxUpdates
                                         : SgdStop::kNone;
}

bool SgdJob::MeasureDue(SgdStop stop) const {
  const SgdOptions& o = state_.options;
  if (stop != SgdStop::kNone) return o.held_out > 0 || o.evaluate_every > 0;
  return o.evaluate_every > 0 && state_.version % o.evaluate_every == 0;
}

// What is under way would change what is measured.
void SgdJob::StopLanes() {
  for (size_t s = 0; s < slots_.size(); ++s) {
    state_.accounts[s].dropped += slots_[s].waiting ? 1 : 0;
    slots_[s].waiting = false;
  }
}

void SgdJob::AfterUpdate(double now) {
  updated_ = false;
  SgdProgress& progress = state_.progress;
  const SgdOptions& o = state_.options;
  progress.update = state_.version;
  MeanLoss();
  progress.bytes_down = std::exchange(bytes_down_, 0);
  progress.bytes_up = std::exchange(bytes_up_, 0);
  progress.seconds = now - last_time_;
  last_time_ = now;
  if (const int64_t at = FindNonFinite(state_.x); at >= 0) {
    Fail(absl::FailedPreconditionError(
        absl::StrCat("update ", state_.version, ": parameter ", at, " is ",
                     state_.x[static_cast<size_t>(at)], "; the step ",
                     progress.step, " is too large")));
    return;
  }
  SgdStop stop = WhyStop();
  if (stop == SgdStop::kTargetLoss && o.mode != SgdMode::kSynchronous) {
    // Of several versions: is it so of this one?
    const bool last = state_.version >= o.max_updates;
    if (last || state_.version >= confirm_from_) {
      confirming_ = true;
      StopLanes();
      state_.phase = SgdPhase::kEvaluate;
      IssueAll();
      return;
    }
    stop = SgdStop::kNone;
  }
  Conclude(stop);
}

void SgdJob::Conclude(SgdStop stop) {
  state_.stop = stop;
  ending_ = stop != SgdStop::kNone;
  const bool due = MeasureDue(stop);
  if (ending_) {
    for (Slot& slot : slots_) slot.waiting = slot.answered = false;
    if (!due) {
      state_.phase = SgdPhase::kDone;
      return;
    }
  }
  if (due) {
    StopLanes();
    state_.phase = SgdPhase::kEvaluate;
  }
  IssueAll();
}

SgdStaleness SgdJob::Staleness() const {
  int64_t total = 0;
  for (const auto& [staleness, count] : state_.staleness) total += count;
  SgdStaleness result;
  int64_t seen = 0;
  for (const auto& [staleness, count] : state_.staleness) {
    // The least value that at least half, 95 %, do not exceed.
    if (2 * seen < total) result.p50 = staleness;
    if (100 * seen < 95 * total) result.p95 = staleness;
    result.max = staleness;
    seen += count;
  }
  return result;
}

std::vector<double> SgdJob::Parameters() const {
  std::vector<double> w = state_.options.accelerated ? state_.y : state_.x;
  if (!task_.float64) {
    for (double& value : w) value = static_cast<float>(value);
  }
  return w;
}

std::vector<int64_t> SgdJob::WorkerRows() const {
  std::vector<int64_t> rows(static_cast<size_t>(task_.workers));
  for (const auto& extents : state_.extents) {
    for (const SgdWorkerRows& extent : extents) {
      rows[static_cast<size_t>(extent.worker)] += extent.rows;
    }
  }
  return rows;
}

}  // namespace coterie
