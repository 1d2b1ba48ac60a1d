// Model parallelism: the MLP cut at its hidden layer into two stages, which
// exchange activations and their gradients in micro-batches.
//
//   front: W1, b1 and the rows      back: W2, b2
//   for each micro-batch m, in order:
//     front.Forward(m) --activations--> back.Process
//     front.Backward <--gradients------
//   back.Finish(step, rows), then front.Finish(step, rows)
//
// Objects are not thread-safe; each belongs to one process, and the two run at
// the same time: front may be micro-batches ahead. Nothing is applied before
// Finish, so that a step that either side gives up is dropped on both (Abort)
// and begun again. A step's number is the number of updates before it;
// messages of other steps are refused, which fences a stage that restarted.
//
// Across the cut go batch x hidden x 4 bytes each way, beside at most 30 bytes
// a message and a label a row (1 to 3 bytes); parameters stay. Sums travel, and
// both sides divide once, by the same number of rows.
//
// Parity: activations and their gradients are float32 in one process too
// (training/sgd_model.h), rows add up one after the other and micro-batches in
// order, so that parameters are those of SgdJob with one worker on one shard,
// full gradients and float64, bit for bit: for any micro-batches and up to
// 1,024 rows; with more, one process adds in pieces and differs in rounding.
//
// With M micro-batches of equal cost each stage idles for 1/(M+1) of a step
// (Huang et al., "GPipe", NeurIPS 2019). Data parallelism moves 8 bytes a
// parameter and worker, this 8 bytes a row and hidden unit: less while rows <
// parameters / hidden.

#ifndef COTERIE_TRAINING_SGD_PIPELINE_H_
#define COTERIE_TRAINING_SGD_PIPELINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "training/sgd_model.h"

namespace coterie {

// Rows of a micro-batch: of `pieces` that are as alike as can be, or one a row
// if there are fewer rows.
struct SgdMicroBatch {
  int64_t begin = 0;
  int64_t count = 0;
};
// REQUIRES: 0 <= micro < min(pieces, rows).
SgdMicroBatch SgdMicroRows(int64_t rows, int64_t micro, int64_t pieces);

struct SgdActivations {
  int64_t step = 0;
  int64_t micro = 0;            // from 0
  std::vector<float> values;    // rows x hidden
  std::vector<int32_t> labels;  // rows

  friend bool operator==(const SgdActivations&,
                         const SgdActivations&) = default;
};

// Of the sum of losses, with respect to the activations.
struct SgdActivationGradients {
  int64_t step = 0;
  int64_t micro = 0;
  std::vector<float> values;  // rows x hidden
  double loss = 0;            // sum
  int64_t correct = 0;

  friend bool operator==(const SgdActivationGradients&,
                         const SgdActivationGradients&) = default;
};

// One side's part of a checkpoint.
struct SgdStageState {
  int64_t step = 0;
  std::vector<double> parameters;

  friend bool operator==(const SgdStageState&, const SgdStageState&) = default;
};

// A model's parameters in two, for stages that begin at `step`.
// REQUIRES: a valid model of kind kMlp.
struct SgdStages {
  SgdStageState front;
  SgdStageState back;
};
absl::StatusOr<SgdStages> SplitSgdStages(const SgdModel& model, int64_t step,
                                         absl::Span<const double> parameters);
// FAILED_PRECONDITION when the two are of different steps.
absl::StatusOr<std::vector<double>> JoinSgdStages(const SgdModel& model,
                                                  const SgdStages& stages);

// What both stages keep of a step.
class SgdStage {
 public:
  const SgdStageState& state() const { return state_; }

  // Forgets what has been gathered of the present step.
  void Abort();
  // Sums of gradients so far, without l1 and l2, and of how many rows.
  const std::vector<double>& sums() const { return gradient_; }
  int64_t rows() const { return rows_; }
  // Takes the sums of all replicas, of so many rows, in place of its own.
  // INVALID_ARGUMENT when they do not fit.
  absl::Status TakeSums(std::vector<double> sums, int64_t rows);
  // Applies the step's update with the sums of `rows` rows; without rows l1
  // alone. FAILED_PRECONDITION when it is another step or the stage has seen
  // another number of rows; OUT_OF_RANGE, and nothing is applied, when a
  // gradient is not finite.
  absl::Status Finish(int64_t step, int64_t rows, double step_size);
  // Of the last update: squared norm of its mean gradient with l2, and this
  // part's penalties before it.
  double squares() const { return squares_; }
  double penalty() const { return penalty_; }

 protected:
  SgdStage(const SgdModel& model, SgdStageState state, int64_t weights);
  // The message is for the present step and micro-batch `next`.
  absl::Status Expect(int64_t step, int64_t micro) const;

  SgdModel model_;
  SgdStageState state_;
  int64_t weights_;  // of the parameters, the first; the rest are biases
  std::vector<double> gradient_;
  int64_t next_ = 0;  // micro-batch
  int64_t rows_ = 0;

 private:
  double squares_ = 0;
  double penalty_ = 0;
};

class SgdFrontStage : public SgdStage {
 public:
  // INVALID_ARGUMENT unless the model is a valid kMlp and the state fits.
  static absl::StatusOr<SgdFrontStage> Create(const SgdModel& model,
                                              SgdStageState state);

  // The next micro-batch's activations. Rows are kept (as views) until their
  // gradients are back; at most `kMaxInFlight` micro-batches, else
  // RESOURCE_EXHAUSTED. INVALID_ARGUMENT for a label that is out of range.
  static constexpr size_t kMaxInFlight = 64;
  absl::StatusOr<SgdActivations> Forward(absl::Span<const float* const> rows,
                                         absl::Span<const double> labels);
  // FAILED_PRECONDITION for another step, or not the next micro-batch that is
  // due; INVALID_ARGUMENT for other sizes. Then nothing has changed.
  absl::Status Backward(const SgdActivationGradients& gradients);
  void Abort();

  double loss() const { return loss_; }  // of the step so far: sum
  int64_t correct() const { return correct_; }

 private:
  struct InFlight {
    std::vector<const float*> rows;
    std::vector<float> activations;
  };

  using SgdStage::SgdStage;

  int64_t sent_ = 0;
  std::map<int64_t, InFlight> in_flight_;
  double loss_ = 0;
  int64_t correct_ = 0;
};

class SgdBackStage : public SgdStage {
 public:
  static absl::StatusOr<SgdBackStage> Create(const SgdModel& model,
                                             SgdStageState state);

  // As SgdFrontStage::Backward. Micro-batch 0 is always due: a back may have
  // several fronts, one after the other.
  absl::StatusOr<SgdActivationGradients> Process(
      const SgdActivations& activations);

 private:
  using SgdStage::SgdStage;
};

// Messages as bytes; sizes are exact: 4 bytes a value, labels as varints.
std::string EncodeSgdActivations(const SgdActivations& message);
std::string EncodeSgdActivationGradients(const SgdActivationGradients& message);
// INVALID_ARGUMENT naming what is wrong: sizes, values that are not finite.
absl::StatusOr<SgdActivations> DecodeSgdActivations(const SgdModel& model,
                                                    absl::string_view bytes);
absl::StatusOr<SgdActivationGradients> DecodeSgdActivationGradients(
    const SgdModel& model, absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_PIPELINE_H_
