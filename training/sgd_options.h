// What an SGD job is asked to do, which combinations are sound, and the step
// sizes that theory allows. Pure functions; any thread.
//
// The job minimises f(x) = (1/N) sum over rows = sum_i w_i f_i(x), worker i
// having the share w_i of the rows. A method is
//
//   estimator x compressor x feedback x schedule
//
// With n = 1 / max w_i, L the smoothness of each f_i (for SAGA and mini-batches
// of each row's loss), mu the strong convexity of f, tau the share of
// parameters sent ("block fraction"; not the staleness of asynchronous SGD),
// omega and delta those of training/sgd_compress.h, the steps are:
//
//   method                    kTheorem                      kTight
//   full, none, plain         1/(2L)                        1/L
//   full, block|whole, plain  n/(2L(tau n + 2(1-tau)))      n/(L(tau n+1-tau))
//   full, perm, plain         n/(2L)                        n/L
//   full, qsgd, plain         1/(2L(1 + 2 omega/n))         1/(L(1 + omega/n))
//   full, fp16|bf16, plain    1/(2L)                        1/L
//   full|batch, block|perm|whole|qsgd, shift
//                             min(1/(4L(1+(1+omega)/n)), 1/(L(1+(1+omega)/n))
//                             1/(mu(1+omega)+4L(1+omega)/n))
//   full, any but qsgd, EF21  1/(L(1 + sqrt(b/t)))          1/L
//   batch, none|block|whole|perm, plain
//                             1/(2L(tau + 2(1-tau)/n))      the same
//   batch, qsgd|fp16|bf16     1/(2L(1 + 2 omega/n))         the same
//   SAGA, none|block|whole    1/(L(3/n + tau))              the same
//   accelerated, full|batch, none|block|whole, plain
//                             1/(rho L)                     the same
//   asynchronous proximal     1/(2L(tau + 2/n))             the same
//
// with t = 1 - sqrt(1-delta), b = (1-delta)/t. The step is that on the *sum* of
// what workers send: blocks are not scaled by 1/tau, except under kShift and
// acceleration; so 1/(L(1+1/(n tau))) for blocks under kShift.
//
// Sources. Mishchenko, Hanzely, Richtarik, "99% of Distributed Optimization is
// a Waste of Time", arXiv 1901.09437: Theorem 1 (IBCD, IBGD), 2 and 5 (ISAGA),
// 3 (ISEGA), 6 (ISGD), 9 (asynchronous). kTight of plain blocks: the second
// moment is tau^2 |grad f|^2 + tau(1-tau) sum w_i^2 |grad f_i|^2 and both parts
// are at most 2L(f - f*) times a constant when gradients vanish at the optimum.
// kTight of kShift is the step of that paper's experiments, four times the one
// of its theorem and not proven; so is kTight under EF21 (whose theorem:
// arXiv 2106.05203). n stands for the paper's number of workers when shares
// differ. Acceleration: Vaswani, Bach, Schmidt, AISTATS 2019, rho that of
// strong growth; DIANA: arXiv 1901.09269.
//
// Where the claim holds that tau = 1/n costs nothing against 1/(2L): plain
// blocks need grad f_i(x*) = 0 for every worker, else they stall at a distance
// that does not shrink with n; kShift needs n <= L/mu or so; SGD whose noise
// dominates gains from a larger tau in any case. Only what workers send is
// sparse: what they receive is dense.

#ifndef COTERIE_TRAINING_SGD_OPTIONS_H_
#define COTERIE_TRAINING_SGD_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/sgd_messages.h"

namespace coterie {

// Named combinations: SgdPreset().
enum class SgdMethod : uint8_t {
  kGradientDescent = 1,        // full, none, plain
  kSgd = 2,                    // batch, none, plain
  kIbcd = 3,                   // full, blocks, plain
  kIbgd = 4,                   // full, whole or nothing, plain
  kIsgd = 5,                   // batch, blocks, plain
  kIsaga = 6,                  // SAGA, blocks, plain: distributed data
  kIsagaShared = 7,            // shared SAGA, blocks, plain
  kIsega = 8,                  // full, blocks, shift
  kAccelerated = 9,            // batch or full, blocks, plain, accelerated
  kAsynchronousProximal = 10,  // full or batch, blocks, plain
  kEf21 = 11,                  // full, top-k, EF21
};

enum class SgdMode : uint8_t {
  kSynchronous = 1,
  // Goes on without the last `backup` shards of a round, whose answers are
  // dropped and counted. Biased towards the rows of fast shards.
  kBackup = 2,
  // Each answer is an update; a shard may be at most `bound` answers ahead of
  // the slowest.
  kBoundedStaleness = 3,
  // Each answer is an update.
  kAsynchronous = 4,
  // Each `buffer` answers are an update.
  kBuffered = 5,
};

// What an answer does that was computed s updates ago.
enum class SgdAsyncRule : uint8_t {
  // x -= step/p times the mean of every worker's newest gradient, which is h:
  // needs EF21 or shifts. Unbiased by the speed of shards.
  kTable = 1,
  // step/p times its part of the gradient, while s <= p; beyond, with a step of
  // at most 1/(4 L s), or step p/s where L is not known (Koloskova, Stich,
  // Jaggi, NeurIPS 2022).
  kDelayAdaptive = 2,
  // step/p divided by max(1, s) (Zhang, Gupta, Lian, Liu, IJCAI 2016).
  kStalenessScaled = 3,
  kConstant = 4,
  // Each shard keeps a point of its own; x is the proximal step of their mean.
  kProximal = 5,
};

enum class SgdSchedule : uint8_t {
  kConstant = 1,  // `step`
  kTheorem = 2,   // what a theorem allows
  kTight = 3,     // the larger step of the table above
  kInverse = 4,   // step / (1 + decay t), t updates so far
  // 1/(a + c t), a = 2(tau + 2(1-tau)/n)L, c = mu tau/4: for batches whose
  // noise does not vanish (Theorem 6).
  kTheoremInverse = 5,
};

struct SgdOptions {
  SgdModel model;
  uint64_t seed = 0;
  int32_t workers = 1;
  // Rows that each worker draws for a step, as the largest worker does: others
  // draw in proportion to their rows. For estimators other than kFull.
  int64_t batch = 0;
  // What workers x batch ought to be; 0: not stated. Another value warns.
  int64_t expected_global_batch = 0;
  SgdSampling sampling = SgdSampling::kEpochs;

  SgdEstimator estimator = SgdEstimator::kFull;
  SgdCompressor compressor = SgdCompressor::kNone;
  SgdFeedback feedback = SgdFeedback::kPlain;
  bool accelerated = false;
  double strong_growth = 0;   // rho; 0: 1 + 2(1 - tau)/(tau n)
  double block_fraction = 0;  // tau; 0: 1/workers
  int64_t blocks = 0;         // m; 0: what meets tau best
  int64_t top_k = 1;
  int32_t levels = 1;
  bool float64 = false;

  SgdMode mode = SgdMode::kSynchronous;
  SgdAsyncRule rule = SgdAsyncRule::kTable;
  int32_t backup = 0;
  int64_t bound = 3;
  int32_t buffer = 1;
  int64_t max_staleness = 0;  // answers beyond are dropped; 0: 10 x shards

  SgdSchedule schedule = SgdSchedule::kTight;
  double step = 0;
  double decay = 0;
  double smoothness = 0;        // L; 0: from the rows, where the model has one
  double strong_convexity = 0;  // mu; 0: the model's l2

  int64_t max_updates = 1000;
  double target_loss = -1;     // stops at or below it; negative: does not
  double min_gradient = 0;     // stops at a squared norm at or below it
  double held_out = 0;         // share of rows to measure on
  int64_t evaluate_every = 0;  // updates; 0: at the end, if rows are held out
  // kSaga: tables begin anew, and checkpoints can be resumed from, after so
  // many updates; 0: never.
  int64_t refresh_every = 0;

  // Model parallelism: the MLP is cut at its hidden layer, and each update's
  // rows cross the cut in so many pieces (training/sgd_relay.h). 0: the model
  // is whole on each shard.
  int64_t micro_batches = 0;
  // Copies of the part above the cut, at most one for each shard with rows. 0:
  // 1. The part below has a copy on each of those shards.
  int32_t back_copies = 0;
  // Updates after which the parts are brought together, for checkpoints and to
  // go on from when a shard has lost its part. 0: 64.
  int64_t gather_every = 0;

  friend bool operator==(const SgdOptions&, const SgdOptions&) = default;
};

inline constexpr int64_t kMaxSgdMicroBatches = 65'536;

// `options` with estimator, compressor, feedback, mode and the rest as the
// method has them. batch > 0 chooses mini-batches where both are possible.
SgdOptions SgdPreset(SgdMethod method, SgdOptions options);

// OK, or INVALID_ARGUMENT: a field out of range, named with its value, or a
// combination that is not sound, with the reason.
absl::Status ValidateSgdOptions(const SgdOptions& options);

// REQUIRES: valid options, here and below.
SgdTask SgdTaskOf(const SgdOptions& options);

struct SgdPlan {
  double step = 0;        // at update 0
  double step_tau = 0;    // the same, times tau: on the expected gradient
  double smoothness = 0;  // L; 0: not known
  double mu = 0;
  double workers = 1;         // n = 1 / max w_i
  double block_fraction = 1;  // tau, as it came out
  double omega = 0;           // if unbiased
  double delta = 0;           // if contractive
  double strong_growth = 1;   // rho
  double inverse_a = 0;       // kTheoremInverse
  double inverse_c = 0;
  int64_t global_batch = 0;  // rows of an update: workers x batch, or all
  std::vector<std::string> warnings;
};

// `rows`: of each worker, all shards together. FAILED_PRECONDITION when there
// are none, or a schedule needs a smoothness that is not known.
absl::StatusOr<SgdPlan> PlanSgd(const SgdOptions& options,
                                absl::Span<const int64_t> rows,
                                double max_squared_norm);

// The step of update t.
double SgdStepSize(const SgdOptions& options, const SgdPlan& plan, int64_t t);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_OPTIONS_H_
