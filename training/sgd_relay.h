// The coordinator's side of model parallelism: what passes between the parts of
// an MLP that is cut at its hidden layer (training/sgd_pipeline.h), each part
// on a shard of its own. No clock, thread or socket.
//
//   shard a: front           coordinator            shard b: back
//     forward 0     --activations 0-->
//     forward 1     --activations 1-->  --0-->        process 0
//     backward 0    <--gradients 0---  <--0--
//     ...                all micro-batches: finish, both
//
// Rows stay where they are: each shard that has some has a copy of the front.
// The back has one copy, on the shard after the first of these, or more, each
// on the shard after a front's; fronts take turns among copies. What has
// several copies has its sums of gradients added by the coordinator at the end
// of each update, in order of shards, and sent back to all of them.
//
// A shard has one step at a time. It prefers to give activations to a back and
// gradients to a front over new micro-batches, of which kInFlight are under way
// at most for each front: front and back work at the same time once the
// pipeline is full. A back takes its fronts one after the other and
// micro-batches in order, whatever the order of arrival, so that a run repeats
// bit for bit.
//
// Across the cut go rows x hidden x 4 bytes each way, on the link of each of
// the two shards; beside it, each way, 8 bytes a parameter and copy of what has
// several.
//
// Not thread-safe. Memory: 8 bytes a parameter, and as much for each copy of
// what has several; kInFlight messages for each front.

#ifndef COTERIE_TRAINING_SGD_RELAY_H_
#define COTERIE_TRAINING_SGD_RELAY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "training/sgd_messages.h"
#include "training/sgd_pipeline.h"

namespace coterie {

class SgdRelay {
 public:
  static constexpr int64_t kInFlight = 4;

  // rows: of each shard, of which there are at least two; not all without.
  // back_copies: 0 is 1; more than fronts are as many.
  // REQUIRES: a valid kMlp.
  SgdRelay(const SgdModel& model, absl::Span<const int64_t> rows,
           int64_t micro_batches, int32_t back_copies);

  // All shards get their parts of these parameters anew; what was under way is
  // void.
  void Set(int64_t step, const std::vector<double>& parameters);

  // What the shard is to do now; nothing while it has to wait. It is said once:
  // the answer has to come, or Set.
  std::optional<SgdStageOrder> Next(int32_t shard);

  // Whether the answer fits the order: INVALID_ARGUMENT if not.
  absl::Status Check(int32_t shard, const SgdStageOrder& order,
                     const SgdPartial& partial) const;
  // REQUIRES: Check says so.
  void Accept(int32_t shard, const SgdStageOrder& order, SgdPartial partial);

  // All sums are there: Finish() ends the update.
  bool summed() const { return phase_ == Phase::kSummed; }
  void Finish(double step_size);
  // All parts have been updated: Gather() or Go() comes next.
  bool finished() const { return phase_ == Phase::kFinished; }
  void Gather();
  // Parameters are there.
  bool gathered() const { return phase_ == Phase::kGathered; }
  std::vector<double> TakeParameters();
  // The next update begins.
  void Go();

  // Of the present update, while summed() or finished(): by shard of a front.
  struct Sums {
    int32_t shard = 0;  // that has the rows
    double loss = 0;
    int64_t rows = 0;
  };
  std::vector<Sums> sums() const;
  // While finished(): of the mean gradient, and penalties before the update.
  double squares() const { return front_norms_[0] + back_norms_[0]; }
  double penalty() const { return front_norms_[1] + back_norms_[1]; }

 private:
  enum class Phase : uint8_t {
    kSet = 1,
    kRun = 2,
    kSumFronts = 3,
    kSumBacks = 4,
    kSummed = 5,
    kFinish = 6,
    kFinished = 7,
    kGather = 8,
    kGathered = 9,
  };
  struct Front {
    int32_t shard = 0;
    // Of the present update.
    int64_t pieces = -1;              // micro-batches; -1: not known yet
    int64_t sent = 0;                 // asked for
    int64_t ended = 0;                // gradients are back
    std::deque<std::string> forward;  // to the back
    std::deque<std::string> backward;
    double loss = 0;
    int64_t rows = 0;
    std::vector<double> sums;  // of gradients
  };
  struct Back {
    int32_t shard = 0;
    std::vector<size_t> fronts;  // ascending
    // Of the present update.
    size_t at = 0;          // of `fronts`: whose turn it is
    int64_t processed = 0;  // of its micro-batches
    size_t answering = 0;   // front whose micro-batch is under way
    std::vector<double> sums;
  };

  Front* FrontOf(int32_t shard);
  const Front* FrontOf(int32_t shard) const;
  Back* BackOf(int32_t shard);
  const Back* BackOf(int32_t shard) const;
  bool MaySend(const Front& front) const;
  std::optional<SgdStageOrder> NextBack(Back& back);
  std::optional<SgdStageOrder> NextFront(Front& front);
  absl::Status CheckFront(const Front& front, const SgdStageOrder& order,
                          const SgdPartial& partial) const;
  absl::Status CheckBack(const SgdStageOrder& order,
                         const SgdPartial& partial) const;
  absl::Status CheckParts(int32_t shard, const SgdStageOrder& order,
                          const SgdStageAnswer& answer) const;
  void AcceptMicro(int32_t shard, const SgdStageOrder& order,
                   SgdPartial partial);
  // Every shard that takes part in the phase is asked once.
  void Enter(Phase phase);
  bool TakesPart(int32_t shard) const;
  // All rows have been through: what is summed next, or nothing.
  void SumNext();

  SgdModel model_;
  int64_t micro_batches_;
  std::vector<Front> fronts_;
  std::vector<Back> backs_;
  std::vector<int32_t> front_of_;  // of each shard; -1: none
  std::vector<int32_t> back_of_;

  Phase phase_ = Phase::kSet;
  std::vector<bool> asked_;  // of each shard, in this phase
  int64_t waiting_ = 0;      // answers of this phase that are to come
  int64_t step_ = 0;
  double step_size_ = 0;
  SgdStages parts_;                 // to be set, or gathered
  std::vector<double> front_sums_;  // of all copies; empty: there is one
  std::vector<double> back_sums_;
  int64_t rows_ = 0;
  // Of each part: squared norm and penalties.
  std::vector<double> front_norms_;
  std::vector<double> back_norms_;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_RELAY_H_
