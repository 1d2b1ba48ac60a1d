// The coordinator's side of distributed SGD: a state machine that says what to
// send to each shard and takes what they answer. No clock, thread or socket.
//
//   while (!job.Done()) {
//     for each shard that is free and has a job.NextStep(shard): send it;
//     for each answer: job.Accept(shard, partial, now);
//   }
//
// Not thread-safe. What a step computes is in training/sgd_options.h. An update
// is x -= step * (sum of what workers sent) / (number of rows), then, with l1,
// the proximal step. In synchronous modes answers are added in order of shard
// and worker when all are there, so that a run repeats bit for bit whatever the
// order of arrival; the number of shards changes only the rounding of sums
// (1e-12 relative with float64), but for kTopK, kQsgd, kFp16 and kBf16, which
// compress each shard's part of a worker on its own.
//
// An answer counts once: one for another step than the shard's present one, or
// a second one, is ignored and counted as late. A contribution is thus
// identified by (round, worker, number of the shard's step).
//
// Asynchronous modes. An answer's staleness is the number of updates between
// the parameters it was computed at and those it is applied to. Beyond
// max_staleness it is dropped and counted. With p shards, a step for
// synchronous updates is divided by p for each answer.
//
// Model parallelism (options.micro_batches > 0): shards have parts of the model
// (training/sgd_relay.h), x is the model when they were last brought together.
// When a shard loses its part all go back to that, and come to the same bits
// again; version() then falls. At the end x is the model.
//
// Target losses. Asynchronous modes add up answers of several versions; when
// that is at or below the target, the rows to train on are measured at the
// present version, by all shards, and the job ends only if that is, too.
//
// Memory: 8 d bytes for x; 8 d for each shard's step in progress; 8 d for each
// (worker, shard) under kShift, kEf21 and SAGA.

#ifndef COTERIE_TRAINING_SGD_JOB_H_
#define COTERIE_TRAINING_SGD_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/sgd_messages.h"
#include "training/sgd_options.h"
#include "training/sgd_relay.h"

namespace coterie {

enum class SgdStop : uint8_t {
  kNone = 0,
  kMaxUpdates = 1,
  kTargetLoss = 2,
  kMinGradient = 3,
  kRequested = 4,
};

// What became of a shard's answers.
struct SgdShardAccount {
  int64_t accepted = 0;
  int64_t late = 0;     // ignored: for an older step, or again
  int64_t dropped = 0;  // too stale, or a backup shard's
  int64_t rows = 0;     // of those accepted
  int64_t bytes_down = 0;
  int64_t bytes_up = 0;
  // What the values of all contributions would have taken whole; for a model
  // that is cut, what gradients of whole models would have.
  int64_t bytes_whole = 0;
  // Values alone that crossed the cut from this shard: activations, and their
  // gradients.
  int64_t bytes_forward = 0;
  int64_t bytes_backward = 0;

  friend bool operator==(const SgdShardAccount&,
                         const SgdShardAccount&) = default;
};

// Of one update.
struct SgdProgress {
  int64_t update = 0;  // from 1
  // Mean over the rows of this update (asynchronous: of each shard's newest
  // answer), with l1 and l2, at the parameters it was computed at.
  double loss = 0;
  double squared_gradient = 0;  // of what x moved along
  double step = 0;
  int64_t rows = 0;
  int64_t bytes_down = 0;  // of this update, all shards, whole messages
  int64_t bytes_up = 0;
  double seconds = 0;  // between this update and the one before, as told
  // Newest measurement on rows held out (all rows if none are).
  double held_out_loss = 0;
  double held_out_accuracy = 0;
  int64_t measured_at = -1;  // update; -1: not yet

  friend bool operator==(const SgdProgress&, const SgdProgress&) = default;
};

struct SgdStaleness {
  int64_t p50 = 0;
  int64_t p95 = 0;
  int64_t max = 0;
};

enum class SgdPhase : uint8_t {
  kStart = 1,    // shards tell what rows they have
  kRestore = 2,  // and get their h
  kGradient = 3,
  kEvaluate = 4,
  kDone = 5,
  kFailed = 6,
};

// All that a job knows between updates.
struct SgdCheckpoint {
  SgdOptions options;
  SgdPhase phase = SgdPhase::kStart;
  int64_t version = 0;  // updates so far
  SgdStop stop = SgdStop::kNone;
  // Rows of each shard by worker; empty before shards have told.
  std::vector<std::vector<SgdWorkerRows>> extents;
  std::vector<uint64_t> checksums;  // of each shard's rows
  double max_squared_norm = 0;

  std::vector<double> x;
  // Accelerated: the two sequences; x is where the next gradient is taken.
  std::vector<double> y;
  std::vector<double> v;
  // Sum of all h, and each by (shard, worker); one for all under
  // kSagaShared, (0, 0).
  std::vector<double> h_sum;
  std::map<std::pair<int32_t, int32_t>, std::vector<double>> h;
  // kProximal: the point of each shard.
  std::vector<std::vector<double>> points;
  // kBuffered: what has come in.
  std::vector<double> buffered;
  int32_t buffered_answers = 0;

  std::vector<int64_t> numbers;  // of each shard's newest step
  std::vector<int64_t> answers;  // of each shard, accepted or dropped
  std::vector<double> shard_loss;
  std::vector<int64_t> shard_rows;
  std::vector<SgdShardAccount> accounts;
  std::map<int64_t, int64_t> staleness;  // how often
  SgdProgress progress;

  friend bool operator==(const SgdCheckpoint&, const SgdCheckpoint&) = default;
};

class SgdJob {
 public:
  // INVALID_ARGUMENT for options that ValidateSgdOptions refuses, shards < 1,
  // or as many backup shards as there are.
  static absl::StatusOr<SgdJob> Create(const SgdOptions& options,
                                       int32_t shards);

  // Goes on from a checkpoint. With shards that hold the same rows, each
  // worker's where they were, synchronous modes give the same bits as without
  // the interruption; with other shards a worker's h moves to the first of its
  // shards. Asynchronous ones lose what was under way.
  // FAILED_PRECONDITION for SAGA, unless the checkpoint was taken when
  // `refresh_every` updates had passed: tables are not in it, they begin anew
  // there with and without an interruption.
  // INVALID_ARGUMENT for a checkpoint that makes no sense.
  static absl::StatusOr<SgdJob> Resume(SgdCheckpoint checkpoint,
                                       int32_t shards);

  // What shard `shard` has to answer now, the same until it has; null while it
  // has to wait for others. Valid until the next call of Accept or
  // ShardRestarted.
  const SgdStep* NextStep(int32_t shard) const;

  // Takes an answer at time `now`, in seconds from any start. INVALID_ARGUMENT
  // for one that does not fit the step; it changes nothing.
  absl::Status Accept(int32_t shard, const SgdPartial& partial, double now);

  // The shard has lost its state, or is another process now: what it was to
  // answer is void, and it is started again. SAGA fails.
  void ShardRestarted(int32_t shard);

  // Fails the job with UNAVAILABLE naming update and shard.
  void ShardLost(int32_t shard, absl::string_view why);

  // Ends the job after the present update.
  void Stop() { stop_requested_ = true; }

  bool Done() const {
    return state_.phase == SgdPhase::kDone || state_.phase == SgdPhase::kFailed;
  }
  // Why the job failed: FAILED_PRECONDITION (no rows; one class alone; other
  // rows than before; parameters that are not finite), UNAVAILABLE.
  const absl::Status& status() const { return status_; }
  SgdStop stop() const { return state_.stop; }

  const SgdTask& task() const { return task_; }
  const SgdPlan& plan() const { return plan_; }
  const SgdProgress& progress() const { return state_.progress; }
  const SgdShardAccount& account(int32_t shard) const {
    return state_.accounts[static_cast<size_t>(shard)];
  }
  SgdStaleness Staleness() const;
  // Number of updates so far.
  int64_t version() const { return state_.version; }
  // The model: what shards have been or would be sent. Of a model that is cut,
  // when its parts were last brought together.
  std::vector<double> Parameters() const;
  // Of this moment, or when parts were last brought together. Answers to rounds
  // in progress are not in it.
  const SgdCheckpoint& Checkpoint() const {
    return relay_.has_value() && !Done() ? gathered_ : state_;
  }

 private:
  struct Slot {
    bool waiting = false;   // for the answer to `step`
    bool answered = false;  // in this round
    bool restore = false;   // has to be started again first
    int32_t losses = 0;     // of state, since the last gradient
    int64_t base = 0;       // see SgdStep
    SgdStep step;
    SgdPartial partial;  // accepted, not yet applied
  };

  SgdJob(SgdCheckpoint state, int32_t shards);

  // sgd_job.cc
  bool Synchronous() const;
  bool Allowed(int32_t shard) const;
  void IssueAll();
  void Issue(int32_t shard);
  void FillGradientStep(int32_t shard, SgdStep& step) const;
  void AcceptStart(int32_t shard, const SgdPartial& partial);
  void FinishStart();
  void FinishRestore();
  absl::Status MoveShifts();
  void AcceptGradient(int32_t shard, const SgdPartial& partial);
  void Fail(absl::Status status);

  // sgd_job_check.cc
  absl::Status CheckPartial(int32_t shard, const SgdPartial& partial) const;
  bool HasWorker(int32_t shard, int32_t worker, int64_t rows) const;
  absl::Status CheckLabels() const;

  // sgd_job_stages.cc
  void StartStages();
  void AcceptStage(int32_t shard, const SgdPartial& partial);
  void CountCut(int32_t shard, const SgdPartial& partial);
  void TakeStageSums();
  bool GatherDue() const;
  void SetStages();
  void GoBack();

  // sgd_job_update.cc
  void ApplyRound();
  void ApplyAnswer(int32_t shard, const SgdPartial& partial);
  void AddSaga(const SgdPartial& partial, int32_t shard,
               absl::Span<double> sum);
  void AddSagaEstimates(absl::Span<double> sum);
  void AddContribution(int32_t shard, const SgdPartial& partial,
                       const SgdContribution& c, absl::Span<double> sum);
  void Move(absl::Span<const double> sum, double rows, double step);
  void MoveAccelerated(absl::Span<const double> sum, double rows);
  void MoveProximal(int32_t shard, const SgdPartial& partial);
  double AnswerStep(int64_t staleness) const;
  bool Refreshing() const;
  void AfterUpdate(double now);
  void MeanLoss();
  SgdStop WhyStop() const;
  bool MeasureDue(SgdStop stop) const;
  // Goes on, or ends the job for this reason, after an update.
  void Conclude(SgdStop stop);
  void StopLanes();
  void AcceptEvaluation();
  void AcceptConfirmation(double loss);
  std::vector<int64_t> WorkerRows() const;
  void CountRows();

  SgdCheckpoint state_;
  int32_t shards_;
  SgdTask task_;
  SgdPlan plan_;
  absl::Status status_;
  std::vector<Slot> slots_;
  int64_t total_rows_ = 0;
  double row_share_ = 1;
  bool resumed_ = false;
  bool updated_ = false;  // by the answer being accepted
  bool stop_requested_ = false;
  bool ending_ = false;  // the evaluation in progress is the last
  // The evaluation in progress is to confirm that the target is reached.
  bool confirming_ = false;
  int64_t confirm_from_ = 0;  // update; not before
  // Model parallelism.
  std::optional<SgdRelay> relay_;
  SgdCheckpoint gathered_;
  double last_time_ = 0;
  double penalty_ = 0;      // at the parameters of the answer applied last
  int64_t bytes_down_ = 0;  // since the last update
  int64_t bytes_up_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_JOB_H_
