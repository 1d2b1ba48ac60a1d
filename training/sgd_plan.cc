// Step sizes of SGD: the table in training/sgd_options.h.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "training/sgd_compress.h"
#include "training/sgd_options.h"

namespace coterie {
namespace {

bool Masks(SgdCompressor c) {
  return c == SgdCompressor::kRandomBlock || c == SgdCompressor::kPermBlock ||
         c == SgdCompressor::kWholeOrNothing;
}

bool Rounds(SgdCompressor c) {
  return c == SgdCompressor::kFp16 || c == SgdCompressor::kBf16;
}

bool Saga(SgdEstimator e) {
  return e == SgdEstimator::kSaga || e == SgdEstimator::kSagaShared;
}

// Steps of the table in the header. n, tau, L as there.
struct Steps {
  double theorem;
  double tight;
};

Steps PlainSteps(const SgdOptions& o, const SgdPlan& p) {
  const double n = p.workers, tau = p.block_fraction, L = p.smoothness;
  if (Saga(o.estimator)) {
    const double step = 1 / (L * (3 / n + tau));
    return {step, step};
  }
  const bool batch = o.estimator == SgdEstimator::kMiniBatch;
  if (o.compressor == SgdCompressor::kQsgd || Rounds(o.compressor)) {
    const double theorem = 1 / (2 * L * (1 + 2 * p.omega / n));
    return {theorem, batch ? theorem : 1 / (L * (1 + p.omega / n))};
  }
  if (batch) {
    const double step = 1 / (2 * L * (tau + 2 * (1 - tau) / n));
    return {step, step};
  }
  if (o.compressor == SgdCompressor::kPermBlock) {
    return {n / (2 * L), n / L};
  }
  return {n / (2 * L * (tau * n + 2 * (1 - tau))),
          n / (L * (tau * n + 1 - tau))};
}

Steps StepsOf(const SgdOptions& o, const SgdPlan& p) {
  const double n = p.workers, tau = p.block_fraction, L = p.smoothness;
  if (o.mode == SgdMode::kAsynchronous && o.rule == SgdAsyncRule::kProximal) {
    const double step = 1 / (2 * L * (tau + 2 / n));
    return {step, step};
  }
  if (o.accelerated)
    return {1 / (p.strong_growth * L), 1 / (p.strong_growth * L)};
  switch (o.feedback) {
    case SgdFeedback::kPlain:
      return PlainSteps(o, p);
    case SgdFeedback::kShift: {
      const double noise = (1 + p.omega) / n;
      return {std::min(1 / (4 * L * (1 + noise)),
                       1 / (p.mu * (1 + p.omega) + 4 * L * noise)),
              1 / (L * (1 + noise))};
    }
    case SgdFeedback::kEf21:
      break;
  }
  const double t = 1 - std::sqrt(1 - p.delta);
  const double b = (1 - p.delta) / t;
  return {1 / (L * (1 + std::sqrt(b / t))), 1 / L};
}

void AddWarnings(const SgdOptions& o, SgdPlan& plan) {
  const bool sums = o.estimator != SgdEstimator::kFull;
  if (sums && o.expected_global_batch > 0 &&
      o.expected_global_batch != plan.global_batch) {
    plan.warnings.push_back(absl::StrCat(
        o.workers, " workers x batch ", o.batch, " = ", plan.global_batch,
        " rows an update, not the ", o.expected_global_batch,
        " stated: the number of workers changes the optimisation; set batch "
        "to ",
        std::max<int64_t>(1, o.expected_global_batch / o.workers)));
  }
  if (o.feedback == SgdFeedback::kPlain && Masks(o.compressor) &&
      !(o.mode == SgdMode::kAsynchronous &&
        o.rule == SgdAsyncRule::kProximal) &&
      o.estimator != SgdEstimator::kMiniBatch) {
    plan.warnings.push_back(
        "plain blocks stall unless every worker's gradient vanishes at the "
        "optimum; shift (ISEGA) does not");
  }
  if (o.feedback == SgdFeedback::kPlain && Rounds(o.compressor)) {
    plan.warnings.push_back(
        "rounded gradients stall near their relative error; EF21 does not");
  }
  if (o.mode == SgdMode::kBackup) {
    plan.warnings.push_back(
        "backup shards: rows of slow shards count less, and unless shards have "
        "like rows the result is another one");
  }
  if ((o.mode == SgdMode::kAsynchronous || o.mode == SgdMode::kBuffered) &&
      o.feedback == SgdFeedback::kPlain && o.rule != SgdAsyncRule::kProximal) {
    plan.warnings.push_back(
        "plain asynchronous updates weigh rows by the speed of their shard; "
        "the table rule does not");
  }
}

}  // namespace

absl::StatusOr<SgdPlan> PlanSgd(const SgdOptions& o,
                                absl::Span<const int64_t> rows,
                                double max_squared_norm) {
  int64_t total = 0, largest = 0;
  for (int64_t count : rows) {
    total += count;
    largest = std::max(largest, count);
  }
  if (total == 0) {
    return absl::FailedPreconditionError("there are no rows to train on");
  }
  SgdPlan plan;
  const SgdCompression c = SgdCompressionOf(SgdTaskOf(o));
  plan.workers = static_cast<double>(total) / static_cast<double>(largest);
  if (o.estimator == SgdEstimator::kSagaShared) plan.workers = o.workers;
  plan.block_fraction = c.share;
  plan.omega = c.omega;
  plan.delta = c.delta;
  plan.global_batch = o.estimator == SgdEstimator::kFull
                          ? total
                          : std::min(total, o.workers * o.batch);
  plan.mu = o.strong_convexity > 0 ? o.strong_convexity : o.model.l2;
  plan.smoothness = o.smoothness;
  const double curvature = SgdCurvature(o.model);
  if (plan.smoothness == 0 && curvature > 0) {
    plan.smoothness =
        curvature * (max_squared_norm + (o.model.intercept ? 1 : 0)) +
        o.model.l2;
  }
  const double tau = plan.block_fraction;
  plan.strong_growth = o.strong_growth > 0
                           ? o.strong_growth
                           : 1 + 2 * (1 - tau) / (tau * plan.workers);
  plan.inverse_a = 2 * (tau + 2 * (1 - tau) / plan.workers) * plan.smoothness;
  plan.inverse_c = plan.mu * tau / 4;
  const bool given = o.schedule == SgdSchedule::kConstant ||
                     o.schedule == SgdSchedule::kInverse;
  if (!given && !(plan.smoothness > 0)) {
    return absl::FailedPreconditionError(
        "the step needs a smoothness constant, which this model or these rows "
        "do not give: set smoothness or a constant step");
  }
  if (o.accelerated && !(plan.mu > 0 && plan.smoothness > 0)) {
    return absl::FailedPreconditionError(
        "acceleration needs smoothness and strong convexity: set both or l2");
  }
  const Steps steps = given ? Steps{o.step, o.step} : StepsOf(o, plan);
  plan.step = o.schedule == SgdSchedule::kTight ? steps.tight : steps.theorem;
  if (o.schedule == SgdSchedule::kTheoremInverse) {
    plan.step = 1 / plan.inverse_a;
  }
  plan.step_tau = plan.step;
  if (o.feedback == SgdFeedback::kPlain && !o.accelerated) {
    plan.step_tau *= tau;
  }
  AddWarnings(o, plan);
  return plan;
}

double SgdStepSize(const SgdOptions& o, const SgdPlan& plan, int64_t t) {
  switch (o.schedule) {
    case SgdSchedule::kInverse:
      return plan.step / (1 + o.decay * static_cast<double>(t));
    case SgdSchedule::kTheoremInverse:
      return 1 / (plan.inverse_a + plan.inverse_c * static_cast<double>(t));
    default:
      return plan.step;
  }
}

}  // namespace coterie
