#include "training/sgd_options.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "training/sgd_compress.h"

namespace coterie {
namespace {

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(why);
}

absl::Status AtLeast(absl::string_view name, double value, double low) {
  if (std::isfinite(value) && value >= low) return absl::OkStatus();
  return Refuse(
      absl::StrCat(name, " is ", value, "; must be finite and >= ", low));
}

bool Masks(SgdCompressor c) {
  return c == SgdCompressor::kRandomBlock || c == SgdCompressor::kPermBlock ||
         c == SgdCompressor::kWholeOrNothing;
}

bool Saga(SgdEstimator e) {
  return e == SgdEstimator::kSaga || e == SgdEstimator::kSagaShared;
}

bool Rounds(SgdCompressor c) {
  return c == SgdCompressor::kFp16 || c == SgdCompressor::kBf16;
}

absl::Status CheckFeedback(const SgdOptions& o) {
  const SgdCompressor c = o.compressor;
  switch (o.feedback) {
    case SgdFeedback::kPlain:
      if (c == SgdCompressor::kTopK) {
        return Refuse(
            "top-k without feedback: it is biased, and what it leaves out is "
            "lost for good; use EF21");
      }
      break;
    case SgdFeedback::kShift:
      if (c == SgdCompressor::kNone) {
        return Refuse(
            "shift without a compressor: there is nothing to shift; "
            "use plain");
      }
      if (c == SgdCompressor::kTopK || Rounds(c)) {
        return Refuse(
            "shift with a biased compressor (top-k, fp16, bf16): its estimate "
            "is unbiased only for unbiased ones; use EF21");
      }
      break;
    case SgdFeedback::kEf21:
      if (c == SgdCompressor::kQsgd) {
        return Refuse(
            "EF21 with qsgd: it does not shrink the error, its "
            "variance can exceed the vector; use shift");
      }
      if (o.estimator != SgdEstimator::kFull) {
        return Refuse(
            "EF21 with mini-batches: the estimate follows their "
            "noise and does not converge; use full gradients");
      }
      break;
  }
  return absl::OkStatus();
}

absl::Status CheckEstimator(const SgdOptions& o) {
  if (o.estimator == SgdEstimator::kFull) {
    if (o.batch != 0) {
      return Refuse(absl::StrCat("batch is ", o.batch,
                                 "; full gradients take all rows, set 0"));
    }
    return absl::OkStatus();
  }
  constexpr int64_t kMaxBatch = int64_t{1} << 40;
  if (o.batch < 1 || o.batch > kMaxBatch) {
    return Refuse(absl::StrCat("batch is ", o.batch, "; must be in [1, ",
                               kMaxBatch, "]"));
  }
  if (!Saga(o.estimator)) return absl::OkStatus();
  if (o.model.kind != SgdModelKind::kLinear &&
      o.model.kind != SgdModelKind::kLogistic) {
    return Refuse(
        "SAGA with softmax or mlp: its table has one number a row "
        "and block only for linear and logistic models");
  }
  if (o.feedback != SgdFeedback::kPlain) {
    return Refuse(
        "SAGA with feedback: its table is a shift already; use "
        "plain");
  }
  if (o.compressor != SgdCompressor::kNone &&
      o.compressor != SgdCompressor::kRandomBlock &&
      o.compressor != SgdCompressor::kWholeOrNothing) {
    return Refuse(
        "SAGA needs no compressor, random blocks or whole-or-nothing "
        "messages: the table is updated on the blocks that were "
        "sent");
  }
  if (o.mode != SgdMode::kSynchronous || o.accelerated) {
    return Refuse(
        "SAGA is synchronous and not accelerated: tables of shards "
        "and coordinator have to agree");
  }
  return absl::OkStatus();
}

absl::Status CheckPenalty(const SgdOptions& o) {
  if (o.model.l1 == 0 || o.feedback != SgdFeedback::kPlain) {
    return absl::OkStatus();
  }
  if (Masks(o.compressor) && o.rule != SgdAsyncRule::kProximal &&
      o.estimator == SgdEstimator::kFull) {
    return Refuse(
        "plain blocks with l1: gradients do not vanish at the optimum, where "
        "they balance l1, so a constant step stalls; use shift");
  }
  if (Saga(o.estimator) && Masks(o.compressor)) {
    return Refuse(
        "SAGA on blocks with l1: no proximal step is known for it; "
        "send all blocks or use shift");
  }
  if (o.accelerated) {
    return Refuse("acceleration with l1: not covered by its theory");
  }
  return absl::OkStatus();
}

absl::Status CheckAccelerated(const SgdOptions& o) {
  if (!o.accelerated) return absl::OkStatus();
  if (o.feedback != SgdFeedback::kPlain || o.mode != SgdMode::kSynchronous ||
      (o.compressor != SgdCompressor::kNone &&
       o.compressor != SgdCompressor::kRandomBlock &&
       o.compressor != SgdCompressor::kWholeOrNothing)) {
    return Refuse(
        "acceleration is for synchronous steps with plain unbiased "
        "blocks: two momentum sequences amplify any bias");
  }
  if (o.strong_growth != 0 && !(o.strong_growth >= 1)) {
    return Refuse(absl::StrCat("strong growth is ", o.strong_growth,
                               "; must be >= 1, or 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckRule(const SgdOptions& o) {
  const bool table = o.feedback != SgdFeedback::kPlain;
  if (o.mode == SgdMode::kAsynchronous && o.rule == SgdAsyncRule::kTable &&
      !table) {
    return Refuse(
        "the table rule needs EF21 or shift: the estimates h are the "
        "table");
  }
  const bool each_answer = o.mode == SgdMode::kAsynchronous ||
                           o.mode == SgdMode::kBoundedStaleness ||
                           o.mode == SgdMode::kBuffered;
  if (each_answer && table &&
      !(o.mode == SgdMode::kAsynchronous && o.rule == SgdAsyncRule::kTable)) {
    return Refuse(
        "asynchronous updates with EF21 or shift need the table rule "
        "and the asynchronous mode");
  }
  if (each_answer && o.compressor == SgdCompressor::kPermBlock) {
    return Refuse(
        "dealt blocks need all workers at one step; use random "
        "blocks");
  }
  if (o.rule == SgdAsyncRule::kProximal &&
      (o.mode != SgdMode::kAsynchronous ||
       (o.compressor != SgdCompressor::kNone &&
        o.compressor != SgdCompressor::kRandomBlock))) {
    return Refuse(
        "the proximal rule is for the asynchronous mode with all or "
        "random blocks");
  }
  return absl::OkStatus();
}

absl::Status CheckMode(const SgdOptions& o) {
  if (o.mode < SgdMode::kSynchronous || o.mode > SgdMode::kBuffered ||
      o.rule < SgdAsyncRule::kTable || o.rule > SgdAsyncRule::kProximal) {
    return Refuse("mode or rule is not known");
  }
  for (const absl::Status& s :
       {AtLeast("backup", o.backup, 0), AtLeast("bound", o.bound, 0.0),
        AtLeast("buffer", o.buffer, 1),
        AtLeast("max staleness", static_cast<double>(o.max_staleness), 0)}) {
    if (!s.ok()) return s;
  }
  if (o.mode != SgdMode::kBackup && o.backup != 0) {
    return Refuse(
        absl::StrCat("backup is ", o.backup, " in another mode; must be 0"));
  }
  return CheckRule(o);
}

absl::Status CheckSchedule(const SgdOptions& o) {
  if (o.schedule < SgdSchedule::kConstant ||
      o.schedule > SgdSchedule::kTheoremInverse) {
    return Refuse("schedule is not known");
  }
  const bool given = o.schedule == SgdSchedule::kConstant ||
                     o.schedule == SgdSchedule::kInverse;
  if (given && !(std::isfinite(o.step) && o.step > 0)) {
    return Refuse(absl::StrCat("step is ", o.step, "; must be > 0"));
  }
  if (o.schedule == SgdSchedule::kTheoremInverse &&
      (o.estimator != SgdEstimator::kMiniBatch ||
       o.feedback != SgdFeedback::kPlain || o.accelerated)) {
    return Refuse("the decreasing step of Theorem 6 is for plain mini-batches");
  }
  for (const absl::Status& s :
       {AtLeast("decay", o.decay, 0), AtLeast("smoothness", o.smoothness, 0),
        AtLeast("strong convexity", o.strong_convexity, 0),
        AtLeast("max updates", static_cast<double>(o.max_updates), 0),
        AtLeast("minimal gradient", o.min_gradient, 0),
        AtLeast("evaluate every", static_cast<double>(o.evaluate_every), 0),
        AtLeast("refresh every", static_cast<double>(o.refresh_every), 0)}) {
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CheckCut(const SgdOptions& o) {
  for (const absl::Status& s :
       {AtLeast("micro batches", static_cast<double>(o.micro_batches), 0),
        AtLeast("back copies", o.back_copies, 0),
        AtLeast("gather every", static_cast<double>(o.gather_every), 0)}) {
    if (!s.ok()) return s;
  }
  if (o.micro_batches == 0) return absl::OkStatus();
  if (o.micro_batches > kMaxSgdMicroBatches) {
    return Refuse(absl::StrCat("micro batches is ", o.micro_batches,
                               "; must be at most ", kMaxSgdMicroBatches));
  }
  if (o.model.kind != SgdModelKind::kMlp) {
    return Refuse(
        "model parallelism is for an mlp: other models have no layer to be "
        "cut at");
  }
  if (o.compressor != SgdCompressor::kNone ||
      o.feedback != SgdFeedback::kPlain || o.accelerated ||
      o.mode != SgdMode::kSynchronous) {
    return Refuse(
        "model parallelism is exact: synchronous gradient descent or sgd, "
        "without compressor, feedback or acceleration");
  }
  if (o.workers != 1) {
    return Refuse(absl::StrCat(
        "num_workers is ", o.workers,
        "; model parallelism has no workers, an update is of one batch: set "
        "1"));
  }
  if (o.estimator == SgdEstimator::kMiniBatch && o.micro_batches > o.batch) {
    return Refuse(absl::StrCat("micro batches is ", o.micro_batches,
                               "; must be at most batch = ", o.batch));
  }
  return absl::OkStatus();
}

// m and the number of blocks sent that come nearest to tau.
void ChooseBlocks(const SgdOptions& o, int64_t d, SgdTask& task) {
  const double tau = o.block_fraction > 0 ? o.block_fraction : 1.0 / o.workers;
  double best = 2;
  for (int64_t m : {int64_t{o.workers}, int64_t{2} * o.workers, d}) {
    if (o.blocks > 0) m = o.blocks;
    if (m > d) continue;
    const int64_t sent =
        std::clamp<int64_t>(std::llround(tau * static_cast<double>(m)), 1, m);
    const double off =
        std::abs(static_cast<double>(sent) / static_cast<double>(m) - tau);
    if (off >= best - 1e-12) continue;
    best = off;
    task.blocks = m;
    task.blocks_sent = sent;
  }
}

}  // namespace

SgdOptions SgdPreset(SgdMethod method, SgdOptions o) {
  const SgdEstimator either =
      o.batch > 0 ? SgdEstimator::kMiniBatch : SgdEstimator::kFull;
  const auto set = [&o](SgdEstimator e, SgdCompressor c, SgdFeedback f) {
    o.estimator = e;
    o.compressor = c;
    o.feedback = f;
  };
  constexpr auto kPlain = SgdFeedback::kPlain;
  constexpr auto kBlocks = SgdCompressor::kRandomBlock;
  switch (method) {
    case SgdMethod::kGradientDescent:
      set(SgdEstimator::kFull, SgdCompressor::kNone, kPlain);
      break;
    case SgdMethod::kSgd:
      set(SgdEstimator::kMiniBatch, SgdCompressor::kNone, kPlain);
      break;
    case SgdMethod::kIbcd:
      set(SgdEstimator::kFull, kBlocks, kPlain);
      break;
    case SgdMethod::kIbgd:
      set(SgdEstimator::kFull, SgdCompressor::kWholeOrNothing, kPlain);
      break;
    case SgdMethod::kIsgd:
      set(SgdEstimator::kMiniBatch, kBlocks, kPlain);
      break;
    case SgdMethod::kIsaga:
      set(SgdEstimator::kSaga, kBlocks, kPlain);
      o.sampling = SgdSampling::kIndependent;
      break;
    case SgdMethod::kIsagaShared:
      set(SgdEstimator::kSagaShared, kBlocks, kPlain);
      o.sampling = SgdSampling::kIndependent;
      break;
    case SgdMethod::kIsega:
      set(SgdEstimator::kFull, kBlocks, SgdFeedback::kShift);
      break;
    case SgdMethod::kAccelerated:
      set(either, kBlocks, kPlain);
      o.accelerated = true;
      break;
    case SgdMethod::kAsynchronousProximal:
      set(either, kBlocks, kPlain);
      o.mode = SgdMode::kAsynchronous;
      o.rule = SgdAsyncRule::kProximal;
      break;
    case SgdMethod::kEf21:
      set(SgdEstimator::kFull, SgdCompressor::kTopK, SgdFeedback::kEf21);
      break;
  }
  return o;
}

absl::Status ValidateSgdOptions(const SgdOptions& o) {
  if (absl::Status s = ValidateSgdModel(o.model); !s.ok()) return s;
  if (!(o.block_fraction >= 0 && o.block_fraction <= 1)) {
    return Refuse(absl::StrCat("block fraction is ", o.block_fraction,
                               "; must be in (0, 1], or 0"));
  }
  if (o.workers < 1) {
    return Refuse(absl::StrCat("num_workers is ", o.workers, "; must be >= 1"));
  }
  if (o.blocks < 0 || o.blocks > SgdParameters(o.model)) {
    return Refuse(absl::StrCat("blocks is ", o.blocks, "; must be in [0, ",
                               SgdParameters(o.model), "]"));
  }
  if (absl::Status s = ValidateSgdTask(SgdTaskOf(o)); !s.ok()) return s;
  for (auto check : {CheckFeedback, CheckEstimator, CheckPenalty,
                     CheckAccelerated, CheckMode, CheckSchedule, CheckCut}) {
    if (absl::Status s = check(o); !s.ok()) return s;
  }
  return absl::OkStatus();
}

SgdTask SgdTaskOf(const SgdOptions& o) {
  SgdTask task;
  task.model = o.model;
  task.seed = o.seed;
  task.workers = o.workers;
  task.estimator = o.estimator;
  task.compressor = o.compressor;
  task.feedback = o.feedback;
  task.sampling = o.sampling;
  task.top_k = o.top_k;
  task.levels = o.levels;
  task.float64 = o.float64;
  task.held_out = o.held_out;
  const int64_t d = SgdParameters(o.model);
  switch (o.compressor) {
    case SgdCompressor::kRandomBlock:
      ChooseBlocks(o, d, task);
      break;
    case SgdCompressor::kPermBlock:
      task.blocks = o.blocks > 0 ? o.blocks : std::min<int64_t>(d, o.workers);
      break;
    case SgdCompressor::kWholeOrNothing:
      task.send_probability =
          o.block_fraction > 0 ? o.block_fraction : 1.0 / o.workers;
      break;
    default:
      break;
  }
  // A table has one number a row and block.
  if (Saga(o.estimator) && o.compressor != SgdCompressor::kRandomBlock) {
    task.blocks = 1;
  }
  return task;
}

}  // namespace coterie
