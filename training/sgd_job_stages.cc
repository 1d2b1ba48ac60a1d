// Updates of a model that is cut. See training/sgd_relay.h.

#include <cstddef>
#include <utility>
#include <vector>

#include "training/sgd_job.h"

namespace coterie {
namespace {

constexpr int64_t kGatherEvery = 64;

}  // namespace

void SgdJob::StartStages() {
  std::vector<int64_t> rows;
  for (const auto& extents : state_.extents) {
    int64_t of_shard = 0;
    for (const SgdWorkerRows& extent : extents) of_shard += extent.rows;
    rows.push_back(of_shard);
  }
  relay_.emplace(task_.model, rows, state_.options.micro_batches,
                 state_.options.back_copies);
  gathered_ = state_;
  SetStages();
}

// Gives the shards their parts of x.
void SgdJob::SetStages() { relay_->Set(gathered_.version, gathered_.x); }

// To when parts were last brought together. Numbers of steps go on rising, and
// what has been counted stays.
void SgdJob::GoBack() {
  state_.version = state_.progress.update = gathered_.version;
  state_.x = gathered_.x;
  state_.staleness = gathered_.staleness;
  for (Slot& slot : slots_) slot.waiting = slot.answered = false;
  SetStages();
  IssueAll();
}

// Values of what crosses the cut, 4 bytes each.
void SgdJob::CountCut(int32_t shard, const SgdPartial& partial) {
  SgdShardAccount& account = state_.accounts[static_cast<size_t>(shard)];
  const SgdStageOrder& order = slots_[static_cast<size_t>(shard)].step.stage;
  if (partial.stage.message.empty()) return;
  int64_t rows = partial.rows;
  if (order.task == SgdStageTask::kFront) {
    rows =
        SgdMicroRows(partial.stage.batch_rows, order.micro, order.micro_batches)
            .count;
  }
  (order.task == SgdStageTask::kFront ? account.bytes_forward
                                      : account.bytes_backward) +=
      rows * task_.model.hidden * 4;
}

void SgdJob::AcceptStage(int32_t shard, const SgdPartial& partial) {
  Slot& slot = slots_[static_cast<size_t>(shard)];
  slot.answered = false;
  CountCut(shard, partial);
  relay_->Accept(shard, slot.step.stage, std::move(slot.partial));
  slot.partial = SgdPartial();
  if (relay_->summed()) {
    TakeStageSums();
    relay_->Finish(SgdStepSize(state_.options, plan_, state_.version));
  } else if (relay_->finished()) {
    for (Slot& each : slots_) each.losses = 0;
    state_.progress.squared_gradient = relay_->squares();
    state_.progress.step = SgdStepSize(state_.options, plan_, state_.version);
    penalty_ = relay_->penalty();
    ++state_.version;
    MeanLoss();
    updated_ = !GatherDue();
    if (updated_) {
      relay_->Go();
    } else {
      relay_->Gather();
    }
  } else if (relay_->gathered()) {
    state_.x = relay_->TakeParameters();
    relay_->Go();
    state_.progress.update = state_.version;
    gathered_ = state_;
    updated_ = true;
  }
  if (!updated_) IssueAll();
}

// What the update's rows add up to, and what data parallelism would have sent.
void SgdJob::TakeStageSums() {
  const int64_t whole = SgdParameters(task_.model) * (task_.float64 ? 8 : 4);
  int64_t rows = 0;
  for (const SgdRelay::Sums& sums : relay_->sums()) {
    const auto s = static_cast<size_t>(sums.shard);
    state_.shard_loss[s] = sums.loss;
    state_.shard_rows[s] = sums.rows;
    rows += sums.rows;
    SgdShardAccount& account = state_.accounts[s];
    ++account.accepted;
    account.rows += sums.rows;
    if (sums.rows > 0) account.bytes_whole += whole;
    ++state_.staleness[0];
  }
  state_.progress.rows = rows;
}

bool SgdJob::GatherDue() const {
  const int64_t every = state_.options.gather_every > 0
                            ? state_.options.gather_every
                            : kGatherEvery;
  const SgdStop stop = WhyStop();
  return stop != SgdStop::kNone || MeasureDue(stop) ||
         state_.version % every == 0;
}

}  // namespace coterie
