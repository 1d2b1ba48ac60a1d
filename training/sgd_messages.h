// What travels between the coordinator of an SGD job and its shards.
//
// Plain data, no behaviour. Encoded by training/sgd_codec.h, whose byte counts
// are exact.
//
// A worker is a part of the rows, given by the row's id (SgdWorkerOf), and may
// lie on several shards: what one shard sends for one worker is a
// *contribution*. Sums travel, with the number of rows that are in them; the
// coordinator divides once.

#ifndef COTERIE_TRAINING_SGD_MESSAGES_H_
#define COTERIE_TRAINING_SGD_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "training/sgd_model.h"

namespace coterie {

// How a worker estimates its gradient.
enum class SgdEstimator : uint8_t {
  kFull = 1,       // all of its rows
  kMiniBatch = 2,  // some of them
  // Some of them, corrected by a table of earlier gradients (SAGA).
  kSaga = 3,
  // As kSaga, with rows dealt to the workers anew in each step, and one table
  // for all of them.
  kSagaShared = 4,
};

// What a worker sends of a vector v of d values.
enum class SgdCompressor : uint8_t {
  kNone = 1,
  kRandomBlock = 2,     // blocks drawn for each worker and step
  kPermBlock = 3,       // blocks dealt out among the workers in each step
  kWholeOrNothing = 4,  // v with a probability, else nothing
  kTopK = 5,            // the largest values and where they are
  kQsgd = 6,            // |v| and random integers (Alistarh et al., NIPS 2017)
  kFp16 = 7,            // float16 in units of a power of two
  kBf16 = 8,            // bfloat16
};

// How what compression leaves out is made up for.
enum class SgdFeedback : uint8_t {
  kPlain = 1,  // not at all
  // Differences to an estimate h of the gradient, which follows it (ISEGA,
  // DIANA): for unbiased compressors.
  kShift = 2,
  // As kShift, moving by h plus what was sent (EF21, Richtarik et al., NeurIPS
  // 2021): for compressors that shrink the error.
  kEf21 = 3,
};

// How a step's rows are drawn, always by hashes of their ids.
enum class SgdSampling : uint8_t {
  kEpochs = 1,       // each row once an epoch
  kIndependent = 2,  // each row with the same probability, anew in each step
};

// What a shard has to know of a job.
struct SgdTask {
  SgdModel model;
  uint64_t seed = 0;
  int32_t workers = 1;
  SgdEstimator estimator = SgdEstimator::kFull;
  SgdCompressor compressor = SgdCompressor::kNone;
  SgdFeedback feedback = SgdFeedback::kPlain;
  SgdSampling sampling = SgdSampling::kEpochs;
  int64_t blocks = 1;           // m, of parameters; at least 1
  int64_t blocks_sent = 1;      // kRandomBlock: 1 to m
  double send_probability = 1;  // kWholeOrNothing: in (0, 1]
  int64_t top_k = 1;            // kTopK: 1 to the number of parameters
  int32_t levels = 1;           // kQsgd: 1 to 32,767
  // Parameters and values travel as float64 instead of float32.
  bool float64 = false;
  double held_out = 0;  // share of rows, in [0, 1)

  friend bool operator==(const SgdTask&, const SgdTask&) = default;
};

// v compressed. Which blocks it has is drawn again by the receiver.
//   kNone, kBf16        d values
//   blocks              the blocks' values, in ascending order
//   kWholeOrNothing     d values or none
//   kTopK               values, and their ascending indices
//   kQsgd               d integers in [-levels, levels]; v is scale / levels
//                       times them
//   kFp16               d values in units of `scale`
// Values are such that their encoding loses nothing.
struct SgdPayload {
  std::vector<double> values;
  std::vector<uint32_t> indices;
  double scale = 1;

  friend bool operator==(const SgdPayload&, const SgdPayload&) = default;
};

struct SgdContribution {
  int32_t worker = 0;
  int64_t rows = 0;  // that were evaluated
  SgdPayload payload;

  friend bool operator==(const SgdContribution&,
                         const SgdContribution&) = default;
};

enum class SgdStepKind : uint8_t {
  // task, shifts -> extents. The shard starts with these shifts (0 where there
  // is none).
  kStart = 1,
  // parameters, round, ... -> contributions, workers ascending
  kGradient = 2,
  // parameters -> loss, correct, rows: of the rows held out, or of all if none
  // are
  kEvaluate = 3,
  // The same of the rows to train on.
  kMeasure = 4,
  // stage -> stage: model parallelism
  kStage = 5,
};

// What a shard does with its parts of a model that is cut
// (training/sgd_pipeline.h). A shard may have both parts, of two pipelines.
enum class SgdStageTask : uint8_t {
  // front, back -> nothing. The shard has these parts, after `version` updates.
  kSet = 1,
  // message, micro -> message, batch_rows. Takes the gradients back that are
  // next, if there are some; sends the activations of a micro-batch, if asked.
  kFront = 2,
  // message -> message, and the loss, correct and rows: activations to their
  // gradients.
  kBack = 3,
  // -> front: sums of gradients.
  kFrontSums = 4,
  // -> back: the same.
  kBackSums = 5,
  // front, back, rows, step_size -> front, back. Makes the update, with the
  // sums of all copies in place of its own where there are some. Answers with
  // the squared norm of each part's mean gradient with l2, and the part's
  // penalties before the update.
  kFinish = 6,
  // -> front, back: parameters.
  kGather = 7,
};

struct SgdStageOrder {
  SgdStageTask task = SgdStageTask::kSet;
  // kFront: which of how many at most; as many as there are rows if those are
  // fewer. -1: none.
  int64_t micro = -1;
  int64_t micro_batches = 1;
  int64_t rows = 0;  // kFinish: of all pipelines
  double step_size = 0;
  std::string message;
  std::vector<double> front;
  std::vector<double> back;

  friend bool operator==(const SgdStageOrder&, const SgdStageOrder&) = default;
};

struct SgdStageAnswer {
  std::string message;     // kFront: empty where no rows are drawn
  int64_t batch_rows = 0;  // kFront, if asked for a micro-batch: of the update
  std::vector<double> front;
  std::vector<double> back;

  friend bool operator==(const SgdStageAnswer&,
                         const SgdStageAnswer&) = default;
};

// A worker's h on one shard.
struct SgdShift {
  int32_t worker = 0;
  std::vector<double> values;

  friend bool operator==(const SgdShift&, const SgdShift&) = default;
};

struct SgdStep {
  // Rises from step to step of a shard; 1 is the first.
  int64_t number = 0;
  SgdStepKind kind = SgdStepKind::kStart;
  SgdTask task;                  // kStart
  std::vector<SgdShift> shifts;  // kStart
  // Number of updates that the parameters have had.
  int64_t version = 0;
  // Blocks and rows are drawn for this.
  int64_t round = 0;
  // Number of the step of this shard whose differences are the last ones that
  // were accepted: the shard's h must have them, and none after them.
  int64_t base = 0;
  // kEpochs: steps in an epoch. kIndependent: probability of a row.
  int64_t epoch_steps = 1;
  double row_probability = 1;
  // kSaga: all rows are evaluated and the table begins anew.
  bool refresh = false;
  std::vector<double> parameters;
  SgdStageOrder stage;  // kStage

  friend bool operator==(const SgdStep&, const SgdStep&) = default;
};

// Rows that a shard has of a worker, to train on.
struct SgdWorkerRows {
  int32_t worker = 0;
  int64_t rows = 0;

  friend bool operator==(const SgdWorkerRows&, const SgdWorkerRows&) = default;
};

struct SgdPartial {
  int64_t number = 0;  // of the step answered
  SgdStepKind kind = SgdStepKind::kStart;
  int64_t round = 0;
  // The shard does not have what the step builds on, and answers nothing else.
  bool lost = false;
  std::vector<SgdWorkerRows> extents;  // kStart: workers with rows, ascending
  double max_squared_norm = 0;         // kStart
  int64_t held_out = 0;                // kStart: rows
  uint64_t checksum = 0;               // kStart: SgdRows::checksum
  double least_label = 0;              // kStart: of rows to train on
  double most_label = 0;
  std::vector<SgdContribution> contributions;  // kGradient
  // As in the step: payloads are whole vectors, as under kNone.
  bool refresh = false;
  // Of the rows evaluated, without l1 and l2: kGradient, kEvaluate, kMeasure,
  // kBack.
  double loss = 0;
  int64_t correct = 0;  // not kGradient
  int64_t rows = 0;
  SgdStageAnswer stage;  // kStage

  friend bool operator==(const SgdPartial&, const SgdPartial&) = default;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_MESSAGES_H_
