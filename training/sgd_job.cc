#include "training/sgd_job.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_codec.h"
#include "training/sgd_compress.h"

namespace coterie {
namespace {

constexpr int32_t kMaxShards = 1 << 16;
constexpr int32_t kMaxLosses = 3;

bool Saga(const SgdTask& task) {
  return task.estimator == SgdEstimator::kSaga ||
         task.estimator == SgdEstimator::kSagaShared;
}

absl::Status CheckShards(const SgdOptions& options, int32_t shards) {
  if (shards < 1 || shards > kMaxShards) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shards is ", shards, "; must be in [1, ", kMaxShards, "]"));
  }
  if (options.backup >= shards) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backup is ", options.backup, "; must be below shards = ", shards));
  }
  if (options.micro_batches > 0 && shards < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shards is ", shards,
        "; model parallelism needs at least 2, one for each part"));
  }
  return absl::OkStatus();
}

// What a checkpoint has for each shard, for another number of them.
void ResizeShards(size_t shards, SgdCheckpoint& state) {
  state.checksums.resize(shards);
  state.numbers.resize(shards);
  state.answers.resize(shards);
  state.shard_loss.resize(shards);
  state.shard_rows.resize(shards);
  state.accounts.resize(shards);
  const bool proximal = state.options.mode == SgdMode::kAsynchronous &&
                        state.options.rule == SgdAsyncRule::kProximal;
  if (proximal) state.points.resize(shards, state.x);
}

absl::Status CheckCheckpoint(const SgdCheckpoint& state) {
  if (absl::Status s = ValidateSgdOptions(state.options); !s.ok()) return s;
  const size_t d = static_cast<size_t>(SgdParameters(state.options.model));
  const size_t shards = state.numbers.size();
  bool fits =
      state.x.size() == d && state.answers.size() == shards &&
      state.checksums.size() == shards && state.shard_loss.size() == shards &&
      state.shard_rows.size() == shards && state.accounts.size() == shards &&
      state.version >= 0 && state.y.size() == state.v.size() &&
      state.y.size() == (state.options.accelerated ? d : 0) &&
      (state.extents.empty() || state.extents.size() == shards) &&
      (state.h_sum.empty() || state.h_sum.size() == d) &&
      (state.h.empty() || !state.h_sum.empty()) &&
      (state.buffered.empty() || state.buffered.size() == d) &&
      (state.points.empty() || state.points.size() == shards);
  for (const auto& [key, h] : state.h) fits = fits && h.size() == d;
  for (const auto& point : state.points) fits = fits && point.size() == d;
  if (fits && FindNonFinite(state.x) < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "checkpoint: sizes of its parts do not fit together");
}

}  // namespace

absl::StatusOr<SgdJob> SgdJob::Create(const SgdOptions& options,
                                      int32_t shards) {
  if (absl::Status s = ValidateSgdOptions(options); !s.ok()) return s;
  if (absl::Status s = CheckShards(options, shards); !s.ok()) return s;
  SgdCheckpoint state;
  state.options = options;
  state.x = InitialSgdParameters(options.model, options.seed);
  if (options.accelerated) state.y = state.v = state.x;
  ResizeShards(static_cast<size_t>(shards), state);
  SgdJob job(std::move(state), shards);
  job.IssueAll();
  return job;
}

absl::StatusOr<SgdJob> SgdJob::Resume(SgdCheckpoint state, int32_t shards) {
  if (absl::Status s = CheckCheckpoint(state); !s.ok()) return s;
  if (absl::Status s = CheckShards(state.options, shards); !s.ok()) return s;
  const int64_t every = state.options.refresh_every;
  if (Saga(SgdTaskOf(state.options)) && state.version > 0 &&
      (every == 0 || state.version % every != 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat("SAGA resumes where tables begin anew, every ", every,
                     " updates; the checkpoint is of update ", state.version));
  }
  if (state.phase == SgdPhase::kFailed) {
    return absl::FailedPreconditionError("checkpoint of a failed job");
  }
  const bool done = state.phase == SgdPhase::kDone;
  if (!done) state.phase = SgdPhase::kStart;
  ResizeShards(static_cast<size_t>(shards), state);
  SgdJob job(std::move(state), shards);
  job.resumed_ = !job.state_.extents.empty();
  if (!done) job.IssueAll();
  return job;
}

SgdJob::SgdJob(SgdCheckpoint state, int32_t shards)
    : state_(std::move(state)),
      shards_(shards),
      task_(SgdTaskOf(state_.options)),
      slots_(static_cast<size_t>(shards)) {}

bool SgdJob::Synchronous() const {
  return state_.options.mode == SgdMode::kSynchronous ||
         state_.options.mode == SgdMode::kBackup;
}

// May the shard begin another gradient?
bool SgdJob::Allowed(int32_t shard) const {
  if (state_.options.mode != SgdMode::kBoundedStaleness) return true;
  const int64_t slowest =
      *std::min_element(state_.answers.begin(), state_.answers.end());
  return state_.answers[static_cast<size_t>(shard)] - slowest <=
         state_.options.bound;
}

const SgdStep* SgdJob::NextStep(int32_t shard) const {
  const Slot& slot = slots_[static_cast<size_t>(shard)];
  return slot.waiting && !Done() ? &slot.step : nullptr;
}

void SgdJob::IssueAll() {
  for (int32_t s = 0; s < shards_; ++s) {
    const Slot& slot = slots_[static_cast<size_t>(s)];
    if (slot.waiting || slot.answered) continue;
    if (state_.phase == SgdPhase::kGradient && !Allowed(s)) continue;
    Issue(s);
  }
}

void SgdJob::Issue(int32_t shard) {
  Slot& slot = slots_[static_cast<size_t>(shard)];
  std::optional<SgdStageOrder> order;
  const bool stage = relay_.has_value() && !slot.restore &&
                     state_.phase == SgdPhase::kGradient;
  if (stage) {
    order = relay_->Next(shard);
    if (!order.has_value()) return;
  }
  slot.step = SgdStep();
  slot.step.number = ++state_.numbers[static_cast<size_t>(shard)];
  slot.step.version = state_.version;
  slot.waiting = true;
  const bool restore = slot.restore || state_.phase == SgdPhase::kRestore;
  if (restore || state_.phase == SgdPhase::kStart) {
    slot.step.kind = SgdStepKind::kStart;
    slot.step.task = task_;
    if (restore && !Saga(task_)) {
      for (const auto& [key, h] : state_.h) {
        if (key.first == shard) slot.step.shifts.push_back({key.second, h});
      }
    }
  } else if (stage) {
    slot.step.kind = SgdStepKind::kStage;
    slot.step.stage = *std::move(order);
    FillGradientStep(shard, slot.step);
  } else {
    slot.step.parameters = Parameters();
    slot.step.base = slot.base;
    slot.step.kind = state_.phase != SgdPhase::kEvaluate
                         ? SgdStepKind::kGradient
                     : confirming_ ? SgdStepKind::kMeasure
                                   : SgdStepKind::kEvaluate;
    if (slot.step.kind == SgdStepKind::kGradient) {
      FillGradientStep(shard, slot.step);
    }
  }
  const int64_t bytes = SgdStepBytes(task_, slot.step);
  state_.accounts[static_cast<size_t>(shard)].bytes_down += bytes;
  bytes_down_ += bytes;
}

void SgdJob::FillGradientStep(int32_t shard, SgdStep& step) const {
  const size_t s = static_cast<size_t>(shard);
  if (state_.options.accelerated) {
    step.parameters = state_.x;
    if (!task_.float64) {
      for (double& w : step.parameters) w = static_cast<float>(w);
    }
  }
  step.round = Synchronous() ? state_.version : state_.answers[s];
  step.refresh = Refreshing();
  if (task_.estimator == SgdEstimator::kFull) return;
  if (task_.sampling == SgdSampling::kIndependent) {
    step.row_probability = row_share_;
  } else {
    step.epoch_steps = std::llround(1 / row_share_);
  }
}

absl::Status SgdJob::Accept(int32_t shard, const SgdPartial& partial,
                            double now) {
  if (shard < 0 || shard >= shards_) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard is ", shard, "; must be in [0, ", shards_, ")"));
  }
  Slot& slot = slots_[static_cast<size_t>(shard)];
  SgdShardAccount& account = state_.accounts[static_cast<size_t>(shard)];
  if (Done() || !slot.waiting || partial.number != slot.step.number) {
    ++account.late;
    return absl::OkStatus();
  }
  if (absl::Status s = CheckPartial(shard, partial); !s.ok()) return s;
  const int64_t bytes = SgdPartialBytes(task_, partial);
  account.bytes_up += bytes;
  account.bytes_whole += static_cast<int64_t>(partial.contributions.size()) *
                         SgdParameters(task_.model) * (task_.float64 ? 8 : 4);
  bytes_up_ += bytes;
  if (partial.lost) {
    ShardRestarted(shard);
    return absl::OkStatus();
  }
  slot.waiting = false;
  slot.partial = partial;
  slot.answered = true;
  switch (partial.kind) {
    case SgdStepKind::kStart:
      AcceptStart(shard, partial);
      break;
    case SgdStepKind::kGradient:
      AcceptGradient(shard, partial);
      break;
    case SgdStepKind::kEvaluate:
    case SgdStepKind::kMeasure:
      AcceptEvaluation();
      break;
    case SgdStepKind::kStage:
      AcceptStage(shard, partial);
      break;
  }
  if (updated_) AfterUpdate(now);
  return absl::OkStatus();
}

void SgdJob::AcceptStart(int32_t shard, const SgdPartial& partial) {
  Slot& slot = slots_[static_cast<size_t>(shard)];
  slot.base = partial.number;
  if (slot.restore) {
    slot.restore = false;
    slot.answered = false;
    const auto s = static_cast<size_t>(shard);
    if (partial.extents != state_.extents[s] ||
        partial.checksum != state_.checksums[s]) {
      Fail(absl::FailedPreconditionError(absl::StrCat(
          "shard ", shard, " has other rows than before it restarted")));
      return;
    }
    IssueAll();
  } else if (std::all_of(slots_.begin(), slots_.end(),
                         [](const Slot& s) { return s.answered; })) {
    if (state_.phase == SgdPhase::kStart) {
      FinishStart();
    } else {
      FinishRestore();
    }
  }
}

void SgdJob::FinishStart() {
  std::vector<std::vector<SgdWorkerRows>> before;
  std::swap(before, state_.extents);
  const auto by_worker = [this](const auto& extents) {
    std::vector<int64_t> rows(static_cast<size_t>(task_.workers));
    for (const auto& of_shard : extents) {
      for (const SgdWorkerRows& e : of_shard) {
        rows[static_cast<size_t>(e.worker)] += e.rows;
      }
    }
    return rows;
  };
  const uint64_t rows_before = std::accumulate(
      state_.checksums.begin(), state_.checksums.end(), uint64_t{0});
  state_.checksums.clear();
  for (Slot& slot : slots_) {
    state_.extents.push_back(slot.partial.extents);
    state_.checksums.push_back(slot.partial.checksum);
    state_.max_squared_norm =
        std::max(state_.max_squared_norm, slot.partial.max_squared_norm);
    slot.answered = false;
  }
  if (resumed_ &&
      (by_worker(before) != by_worker(state_.extents) ||
       rows_before != std::accumulate(state_.checksums.begin(),
                                      state_.checksums.end(), uint64_t{0}))) {
    Fail(absl::FailedPreconditionError(
        "the rows are not those of the checkpoint"));
    return;
  }
  if (absl::Status s = CheckLabels(); !s.ok()) {
    Fail(std::move(s));
    return;
  }
  absl::StatusOr<SgdPlan> plan =
      PlanSgd(state_.options, WorkerRows(), state_.max_squared_norm);
  if (!plan.ok()) {
    Fail(plan.status());
    return;
  }
  plan_ = *std::move(plan);
  CountRows();
  if (before != state_.extents && !state_.h.empty()) {
    if (absl::Status s = MoveShifts(); !s.ok()) {
      Fail(s);
      return;
    }
  }
  state_.phase = !state_.h.empty() && !Saga(task_) ? SgdPhase::kRestore
                                                   : SgdPhase::kGradient;
  if (state_.options.micro_batches > 0) StartStages();
  if (state_.options.max_updates <= state_.version) {
    updated_ = true;  // nothing to do but to measure
    state_.phase = SgdPhase::kGradient;
    return;
  }
  IssueAll();
}

void SgdJob::FinishRestore() {
  for (Slot& slot : slots_) slot.answered = false;
  state_.phase = SgdPhase::kGradient;
  IssueAll();
}

// All that a worker has of h goes to its first shard.
absl::Status SgdJob::MoveShifts() {
  std::map<std::pair<int32_t, int32_t>, std::vector<double>> moved;
  for (auto& [key, h] : state_.h) {
    int32_t shard = 0;
    while (shard < shards_ && !HasWorker(shard, key.second, 0)) ++shard;
    if (shard == shards_) {
      return absl::FailedPreconditionError(
          absl::StrCat("worker ", key.second, " has no rows any more"));
    }
    std::vector<double>& to = moved[{shard, key.second}];
    to.resize(h.size());
    for (size_t j = 0; j < h.size(); ++j) to[j] += h[j];
  }
  state_.h = std::move(moved);
  return absl::OkStatus();
}

void SgdJob::AcceptGradient(int32_t shard, const SgdPartial& partial) {
  slots_[static_cast<size_t>(shard)].losses = 0;
  if (!Synchronous()) {
    slots_[static_cast<size_t>(shard)].answered = false;
    ApplyAnswer(shard, partial);
    if (!updated_) IssueAll();
    return;
  }
  const auto answered =
      std::count_if(slots_.begin(), slots_.end(),
                    [](const Slot& slot) { return slot.answered; });
  if (answered < shards_ - state_.options.backup) return;
  ApplyRound();
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].answered) ++state_.accounts[i].dropped;
    slots_[i].answered = slots_[i].waiting = false;
  }
}

void SgdJob::ShardRestarted(int32_t shard) {
  if (Done()) return;
  Slot& slot = slots_[static_cast<size_t>(shard)];
  if (Saga(task_) && state_.version > 0) {
    Fail(absl::FailedPreconditionError(absl::StrCat(
        "update ", state_.version, ": shard ", shard,
        " has lost its table; resume from the last checkpoint at which tables "
        "begin anew")));
    return;
  }
  if (++slot.losses > kMaxLosses) {
    Fail(absl::UnavailableError(absl::StrCat(
        "update ", state_.version, ": shard ", shard, " has lost its state ",
        kMaxLosses, " times without an answer in between")));
    return;
  }
  if (state_.phase != SgdPhase::kStart && state_.phase != SgdPhase::kRestore) {
    slot.restore = true;
    if (relay_.has_value() && state_.phase == SgdPhase::kGradient) {
      GoBack();
      return;
    }
    // The parts that it has lost are those of the present update.
    if (relay_.has_value()) SetStages();
    // What it has answered in this round counts; it starts again after it.
    if (slot.answered) return;
  }
  slot.answered = false;
  Issue(shard);
}

void SgdJob::ShardLost(int32_t shard, absl::string_view why) {
  if (Done()) return;
  Fail(absl::UnavailableError(absl::StrCat("update ", state_.version + 1,
                                           ": shard ", shard, ": ", why)));
}

void SgdJob::Fail(absl::Status status) {
  state_.phase = SgdPhase::kFailed;
  status_ = std::move(status);
}

}  // namespace coterie
