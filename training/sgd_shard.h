// One shard's part of an SGD job: answers the steps of an SgdJob
// (training/sgd_job.h) over the shard's rows.
//
// Not thread-safe: one step at a time. Within a step the work is shared out to
// the caller's threads; answers are the same bits for any number of them and
// every SIMD target. Rows of a worker are cut by their number alone into at
// most 16 pieces of at least 1,024; a piece adds its rows in order of id, the
// pieces add up in order.
//
// State is a function of the steps answered: estimates h (kShift, kEf21),
// tables (SAGA), parts of a model that is cut (kStage; one thread, which looks
// for `stop` before each micro-batch). A shard that does not have what a step
// builds on answers `lost`, and is started again.
//
// Memory beside the rows: 8 d bytes for each h; 8 m bytes a row for a table; 8
// d for each piece during a step, for at least one worker at a time.

#ifndef COTERIE_TRAINING_SGD_SHARD_H_
#define COTERIE_TRAINING_SGD_SHARD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/sgd_messages.h"
#include "training/sgd_pipeline.h"
#include "training/sgd_rows.h"
#include "training/step_threads.h"

namespace coterie {

class SgdShard {
 public:
  // REQUIRES: a valid task, rows made with its model, workers, seed and
  // held-out share.
  SgdShard(SgdTask task, SgdRows rows);

  // Answers `step`. The last step again gets the same answer again. `stop` is
  // asked before each piece, by all threads; once it says true the answer is
  // CANCELLED, and the step may be tried again.
  // INVALID_ARGUMENT for a step that makes no sense; FAILED_PRECONDITION for
  // one older than the last; OUT_OF_RANGE naming worker and update for a
  // gradient that is not finite or does not fit into the wire format.
  absl::StatusOr<SgdPartial> Run(const SgdStep& step,
                                 const StepThreads& threads,
                                 absl::FunctionRef<bool()> stop);

  const SgdRows& rows() const { return rows_; }

 private:
  // What a worker's rows add up to in a step.
  struct Sums {
    int32_t worker = 0;
    SgdSums sums;
  };
  // A worker's rows of a step: all of [begin, end), or those picked.
  struct Batch {
    int32_t worker = 0;
    int64_t begin = 0;
    int64_t end = 0;
    std::vector<const float*> rows;
    std::vector<double> labels;
  };

  absl::Status Check(const SgdStep& step) const;
  absl::StatusOr<SgdPartial> Answer(const SgdStep& step,
                                    const StepThreads& threads,
                                    absl::FunctionRef<bool()> stop);
  SgdPartial Start(const SgdStep& step);
  absl::StatusOr<SgdPartial> Evaluate(const SgdStep& step,
                                      const StepThreads& threads,
                                      absl::FunctionRef<bool()> stop);
  absl::StatusOr<SgdPartial> Gradient(const SgdStep& step,
                                      const StepThreads& threads,
                                      absl::FunctionRef<bool()> stop);
  bool Settle(const SgdStep& step);
  Batch BatchOf(const SgdStep& step, int32_t worker);
  bool Picked(const SgdStep& step, int64_t row) const;
  // Sums of each batch; false if stopped.
  bool AddUp(const SgdStep& step, absl::Span<const Batch> batches,
             bool gradient, const StepThreads& threads,
             absl::FunctionRef<bool()> stop, std::vector<Sums>& result) const;
  absl::Status AddContribution(const SgdStep& step, Sums& sums,
                               SgdPartial& partial);

  // sgd_shard_stages.cc
  absl::StatusOr<SgdPartial> Stage(const SgdStep& step,
                                   absl::FunctionRef<bool()> stop);
  absl::StatusOr<SgdPartial> SetStages(const SgdStep& step);
  absl::StatusOr<SgdPartial> RunFront(const SgdStep& step);
  absl::StatusOr<SgdPartial> RunBack(const SgdStep& step);
  absl::StatusOr<SgdPartial> TellStages(const SgdStep& step);
  absl::StatusOr<SgdPartial> FinishStages(const SgdStep& step);

  // sgd_shard_saga.cc
  absl::StatusOr<SgdPartial> Saga(const SgdStep& step,
                                  const StepThreads& threads,
                                  absl::FunctionRef<bool()> stop);
  struct SagaBatch;
  std::vector<SagaBatch> SagaBatches(const SgdStep& step) const;
  void AddSagaRows(const SgdStep& step, SagaBatch& batch) const;
  absl::Status AddSagaContribution(const SgdStep& step, const SagaBatch& batch,
                                   SgdPartial& partial);

  SgdTask task_;
  SgdRows rows_;
  int64_t d_;  // number of parameters

  int64_t last_number_ = 0;
  std::optional<SgdPartial> last_answer_;
  // Step whose differences are the last ones in h_ and table_.
  int64_t committed_ = 0;
  // h of workers that have rows here; empty for others and under kPlain.
  std::vector<std::vector<double>> h_;
  // Factor of each row's last gradient in each block: rows x m. Empty: lost.
  std::vector<double> table_;
  // Parts of a model that is cut, and the rows of the update in progress.
  std::optional<SgdFrontStage> front_;
  std::optional<SgdBackStage> back_;
  Batch stage_batch_;
};

// What a payload adds to h, as a factor: 1 under kEf21 and for masks.
double SgdShiftFactor(const SgdTask& task);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_SHARD_H_
