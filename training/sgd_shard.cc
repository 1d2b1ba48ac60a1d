#include "training/sgd_shard.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/draw.h"
#include "training/sgd_compress.h"
#include "training/sgd_draw.h"

namespace coterie {
namespace {

constexpr int64_t kPieces = 16;
constexpr int64_t kPieceRows = 1024;
// Pieces held at a time, unless one worker alone has more.
constexpr size_t kWave = 64;

struct Piece {
  size_t batch;
  int64_t begin;
  int64_t end;
};

void CutInto(size_t batch, int64_t rows, std::vector<Piece>& pieces) {
  const int64_t size = std::max(kPieceRows, (rows + kPieces - 1) / kPieces);
  for (int64_t begin = 0; begin < rows; begin += size) {
    pieces.push_back({batch, begin, std::min(rows, begin + size)});
  }
}

void AddTo(const SgdSums& part, SgdSums& sum) {
  sum.rows += part.rows;
  sum.loss += part.loss;
  sum.correct += part.correct;
  for (size_t j = 0; j < part.gradient.size(); ++j) {
    sum.gradient[j] += part.gradient[j];
  }
}

}  // namespace

double SgdShiftFactor(const SgdTask& task) {
  if (task.feedback == SgdFeedback::kEf21) return 1;
  const SgdCompression c = SgdCompressionOf(task);
  // 1 / tau and tau would round.
  return c.scale > 1 ? 1 : 1 / (1 + c.omega);
}

SgdShard::SgdShard(SgdTask task, SgdRows rows)
    : task_(std::move(task)),
      rows_(std::move(rows)),
      d_(SgdParameters(task_.model)) {}

absl::StatusOr<SgdPartial> SgdShard::Run(const SgdStep& step,
                                         const StepThreads& threads,
                                         absl::FunctionRef<bool()> stop) {
  const bool start = step.kind == SgdStepKind::kStart;
  if (step.number == last_number_ && last_answer_.has_value() &&
      last_answer_->kind == step.kind) {
    return *last_answer_;
  }
  if (!start && step.number <= last_number_) {
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step.number, " is not after step ", last_number_,
                     ", the last one answered"));
  }
  if (absl::Status s = Check(step); !s.ok()) return s;
  absl::StatusOr<SgdPartial> partial = Answer(step, threads, stop);
  if (!partial.ok()) return partial;
  partial->number = step.number;
  partial->kind = step.kind;
  partial->round = step.round;
  last_number_ = step.number;
  last_answer_ = *partial;
  return partial;
}

absl::Status SgdShard::Check(const SgdStep& step) const {
  if (step.kind == SgdStepKind::kStart) {
    if (!(step.task == task_)) {
      return absl::InvalidArgumentError("the step is for another task");
    }
    for (const SgdShift& shift : step.shifts) {
      if (shift.worker < 0 || shift.worker >= task_.workers ||
          static_cast<int64_t>(shift.values.size()) != d_) {
        return absl::InvalidArgumentError(
            absl::StrCat("shift of worker ", shift.worker, " with ",
                         shift.values.size(), " values; the job has ",
                         task_.workers, " workers and ", d_, " parameters"));
      }
    }
    return absl::OkStatus();
  }
  const bool stage = step.kind == SgdStepKind::kStage;
  if (!stage && static_cast<int64_t>(step.parameters.size()) != d_) {
    return absl::InvalidArgumentError(absl::StrCat(
        step.parameters.size(), " parameters; the model has ", d_));
  }
  if (const int64_t at = FindNonFinite(step.parameters); at >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", at, " is not finite"));
  }
  if (step.epoch_steps < 1 ||
      !(step.row_probability > 0 && step.row_probability <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(step.epoch_steps, " steps an epoch, row probability ",
                     step.row_probability, "; must be >= 1 and in (0, 1]"));
  }
  return absl::OkStatus();
}

absl::StatusOr<SgdPartial> SgdShard::Answer(const SgdStep& step,
                                            const StepThreads& threads,
                                            absl::FunctionRef<bool()> stop) {
  switch (step.kind) {
    case SgdStepKind::kStart:
      return Start(step);
    case SgdStepKind::kEvaluate:
    case SgdStepKind::kMeasure:
      return Evaluate(step, threads, stop);
    case SgdStepKind::kStage:
      return Stage(step, stop);
    case SgdStepKind::kGradient:
      break;
  }
  if (task_.estimator == SgdEstimator::kSaga ||
      task_.estimator == SgdEstimator::kSagaShared) {
    return Saga(step, threads, stop);
  }
  return Gradient(step, threads, stop);
}

SgdPartial SgdShard::Start(const SgdStep& step) {
  SgdPartial partial;
  h_.assign(static_cast<size_t>(task_.workers), {});
  for (int32_t w = 0; w < task_.workers; ++w) {
    if (rows_.count(w) == 0) continue;
    partial.extents.push_back({w, rows_.count(w)});
    if (task_.feedback != SgdFeedback::kPlain) {
      h_[static_cast<size_t>(w)].assign(static_cast<size_t>(d_), 0.0);
    }
  }
  for (const SgdShift& shift : step.shifts) {
    h_[static_cast<size_t>(shift.worker)] = shift.values;
  }
  table_.clear();
  front_.reset();
  back_.reset();
  committed_ = step.number;
  partial.held_out = rows_.count(task_.workers);
  partial.max_squared_norm = rows_.max_squared_norm();
  partial.checksum = rows_.checksum();
  partial.least_label = rows_.least_label();
  partial.most_label = rows_.most_label();
  return partial;
}

// Takes the differences sent last into h, or forgets them, as the coordinator
// did. False: h is not what the step builds on.
bool SgdShard::Settle(const SgdStep& step) {
  if (task_.feedback == SgdFeedback::kPlain) return true;
  if (h_.empty()) return false;
  if (step.base == committed_) return true;
  if (!last_answer_.has_value() || step.base != last_answer_->number ||
      last_answer_->kind != SgdStepKind::kGradient || last_answer_->lost) {
    return false;
  }
  const double factor = SgdShiftFactor(task_);
  for (const SgdContribution& c : last_answer_->contributions) {
    AddSgdPayload(task_, last_answer_->round, c.worker, c.payload, factor,
                  absl::MakeSpan(h_[static_cast<size_t>(c.worker)]));
  }
  committed_ = step.base;
  return true;
}

bool SgdShard::Picked(const SgdStep& step, int64_t row) const {
  const uint64_t id = rows_.id(row);
  if (task_.sampling == SgdSampling::kIndependent) {
    const uint64_t hash = SgdHash(
        SgdDraw::kBatch, {task_.seed, static_cast<uint64_t>(step.round), id});
    return UniformOf(hash) < step.row_probability;
  }
  const uint64_t epoch = static_cast<uint64_t>(step.round / step.epoch_steps);
  const uint64_t hash = SgdHash(SgdDraw::kBatch, {task_.seed, epoch, id});
  return hash % static_cast<uint64_t>(step.epoch_steps) ==
         static_cast<uint64_t>(step.round % step.epoch_steps);
}

SgdShard::Batch SgdShard::BatchOf(const SgdStep& step, int32_t worker) {
  Batch batch;
  batch.worker = worker;
  batch.begin = rows_.begin(worker);
  batch.end = rows_.end(worker);
  if (task_.estimator == SgdEstimator::kFull) return batch;
  for (int64_t i = batch.begin; i < batch.end; ++i) {
    if (!Picked(step, i)) continue;
    batch.rows.push_back(rows_.row(i));
    batch.labels.push_back(rows_.label(i));
  }
  batch.begin = batch.end = -1;
  return batch;
}

bool SgdShard::AddUp(const SgdStep& step, absl::Span<const Batch> batches,
                     bool gradient, const StepThreads& threads,
                     absl::FunctionRef<bool()> stop,
                     std::vector<Sums>& result) const {
  const size_t values = gradient ? static_cast<size_t>(d_) : 0;
  size_t next = 0;
  while (next < batches.size()) {
    std::vector<Piece> pieces;
    const size_t first = next;
    while (next < batches.size() && pieces.size() < kWave) {
      const Batch& batch = batches[next];
      CutInto(next++,
              batch.begin < 0 ? static_cast<int64_t>(batch.rows.size())
                              : batch.end - batch.begin,
              pieces);
    }
    std::vector<SgdSums> sums(pieces.size());
    std::atomic<bool> stopped = false;
    const auto body = [&](int32_t, int64_t task) {
      if (stopped || stop()) {
        stopped = true;
        return;
      }
      const Piece& piece = pieces[static_cast<size_t>(task)];
      const Batch& batch = batches[piece.batch];
      SgdSums& sum = sums[static_cast<size_t>(task)];
      sum.gradient.assign(values, 0.0);
      const int64_t count = piece.end - piece.begin;
      const bool picked = batch.begin < 0;
      AddSgdSums(task_.model, step.parameters,
                 picked ? absl::MakeSpan(batch.rows)
                              .subspan(static_cast<size_t>(piece.begin),
                                       static_cast<size_t>(count))
                        : rows_.rows(batch.begin + piece.begin, count),
                 picked ? absl::MakeSpan(batch.labels)
                              .subspan(static_cast<size_t>(piece.begin),
                                       static_cast<size_t>(count))
                        : rows_.labels(batch.begin + piece.begin, count),
                 sum);
    };
    threads.ForEach(static_cast<int64_t>(pieces.size()), body);
    if (stopped) return false;
    for (size_t b = first; b < next; ++b) {
      result.push_back({batches[b].worker, {}});
      result.back().sums.gradient.assign(values, 0.0);
    }
    for (size_t p = 0; p < pieces.size(); ++p) {
      AddTo(sums[p], result[result.size() - (next - pieces[p].batch)].sums);
    }
  }
  return true;
}

absl::StatusOr<SgdPartial> SgdShard::Evaluate(const SgdStep& step,
                                              const StepThreads& threads,
                                              absl::FunctionRef<bool()> stop) {
  // The answer before this one is forgotten. If h is lost, the next gradient
  // says so.
  Settle(step);
  const bool held_out =
      step.kind == SgdStepKind::kEvaluate && task_.held_out > 0;
  std::vector<Batch> batches;
  for (int32_t w = 0; w <= task_.workers; ++w) {
    if ((w == task_.workers) != held_out) continue;
    Batch batch;
    batch.worker = w;
    batch.begin = rows_.begin(w);
    batch.end = rows_.end(w);
    batches.push_back(std::move(batch));
  }
  std::vector<Sums> all;
  if (!AddUp(step, batches, false, threads, stop, all)) {
    return absl::CancelledError("stopped");
  }
  SgdPartial partial;
  for (const Sums& sums : all) {
    partial.rows += sums.sums.rows;
    partial.loss += sums.sums.loss;
    partial.correct += sums.sums.correct;
  }
  if (!std::isfinite(partial.loss)) {
    return absl::OutOfRangeError(
        absl::StrCat("update ", step.version, ": the loss is ", partial.loss));
  }
  return partial;
}

absl::StatusOr<SgdPartial> SgdShard::Gradient(const SgdStep& step,
                                              const StepThreads& threads,
                                              absl::FunctionRef<bool()> stop) {
  SgdPartial partial;
  if (!Settle(step)) {
    partial.lost = true;
    return partial;
  }
  std::vector<Batch> batches;
  for (int32_t w = 0; w < task_.workers; ++w) {
    if (rows_.count(w) > 0) batches.push_back(BatchOf(step, w));
  }
  std::vector<Sums> all;
  if (!AddUp(step, batches, true, threads, stop, all)) {
    return absl::CancelledError("stopped");
  }
  for (Sums& sums : all) {
    absl::Status s = AddContribution(step, sums, partial);
    if (!s.ok()) return s;
  }
  return partial;
}

// Turns a worker's sums into what is sent of them.
absl::Status SgdShard::AddContribution(const SgdStep& step, Sums& sums,
                                       SgdPartial& partial) {
  const int32_t worker = sums.worker;
  std::vector<double>& v = sums.sums.gradient;
  if (!std::isfinite(sums.sums.loss)) {
    return absl::OutOfRangeError(absl::StrCat("worker ", worker, ", update ",
                                              step.version, ": the loss is ",
                                              sums.sums.loss));
  }
  partial.loss += sums.sums.loss;
  partial.rows += sums.sums.rows;
  const bool plain = task_.feedback == SgdFeedback::kPlain;
  if (plain && sums.sums.rows == 0) return absl::OkStatus();
  double rows = static_cast<double>(sums.sums.rows);
  if (!plain) {
    // h stands for all of the worker's rows.
    if (task_.estimator != SgdEstimator::kFull) {
      const double share = task_.sampling == SgdSampling::kEpochs
                               ? 1.0 / static_cast<double>(step.epoch_steps)
                               : step.row_probability;
      for (double& g : v) g /= share;
    }
    rows = static_cast<double>(rows_.count(worker));
  }
  AddSgdWeights(task_.model, step.parameters, rows * task_.model.l2,
                absl::MakeSpan(v));
  if (!plain) {
    const std::vector<double>& h = h_[static_cast<size_t>(worker)];
    for (size_t j = 0; j < v.size(); ++j) v[j] -= h[j];
  }
  if (const int64_t at = FindNonFinite(v); at >= 0) {
    return absl::OutOfRangeError(
        absl::StrCat("worker ", worker, ", update ", step.version,
                     ": the gradient of parameter ", at, " is ",
                     v[static_cast<size_t>(at)]));
  }
  absl::StatusOr<SgdPayload> payload =
      CompressSgd(task_, step.round, worker, v);
  if (!payload.ok()) {
    return absl::OutOfRangeError(absl::StrCat("worker ", worker, ", update ",
                                              step.version, ": ",
                                              payload.status().message()));
  }
  partial.contributions.push_back(
      {worker, sums.sums.rows, *std::move(payload)});
  return absl::OkStatus();
}

}  // namespace coterie
