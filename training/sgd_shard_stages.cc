// A shard's parts of a model that is cut. See training/sgd_relay.h.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_mlp.h"
#include "training/sgd_shard.h"

namespace coterie {
namespace {

// The answer of a shard that has lost its parts.
SgdPartial Lost() {
  SgdPartial partial;
  partial.lost = true;
  return partial;
}

}  // namespace

absl::StatusOr<SgdPartial> SgdShard::Stage(const SgdStep& step,
                                           absl::FunctionRef<bool()> stop) {
  if (stop()) return absl::CancelledError("stopped");
  const SgdStageOrder& order = step.stage;
  switch (order.task) {
    case SgdStageTask::kSet:
      return SetStages(step);
    case SgdStageTask::kFront:
      return RunFront(step);
    case SgdStageTask::kBack:
      return RunBack(step);
    case SgdStageTask::kFinish:
      return FinishStages(step);
    case SgdStageTask::kFrontSums:
    case SgdStageTask::kBackSums:
    case SgdStageTask::kGather:
      break;
  }
  return TellStages(step);
}

// Sums of gradients of one part, or the parameters of both.
absl::StatusOr<SgdPartial> SgdShard::TellStages(const SgdStep& step) {
  const SgdStageTask task = step.stage.task;
  const bool all = task == SgdStageTask::kGather;
  SgdPartial partial;
  if (front_.has_value() && task != SgdStageTask::kBackSums) {
    partial.stage.front = all ? front_->state().parameters : front_->sums();
  }
  if (back_.has_value() && task != SgdStageTask::kFrontSums) {
    partial.stage.back = all ? back_->state().parameters : back_->sums();
  }
  if (partial.stage.front.empty() && partial.stage.back.empty()) return Lost();
  for (const auto* part : {&partial.stage.front, &partial.stage.back}) {
    if (const int64_t at = FindNonFinite(*part); at >= 0) {
      return absl::OutOfRangeError(absl::StrCat(
          "update ", step.version, ": ", all ? "" : "the gradient of ",
          "parameter ", at, " of a part of the model is ",
          (*part)[static_cast<size_t>(at)]));
    }
  }
  return partial;
}

absl::StatusOr<SgdPartial> SgdShard::SetStages(const SgdStep& step) {
  front_.reset();
  back_.reset();
  if (!step.stage.front.empty()) {
    auto front =
        SgdFrontStage::Create(task_.model, {step.version, step.stage.front});
    if (!front.ok()) return front.status();
    front_.emplace(*std::move(front));
  }
  if (!step.stage.back.empty()) {
    auto back =
        SgdBackStage::Create(task_.model, {step.version, step.stage.back});
    if (!back.ok()) return back.status();
    back_.emplace(*std::move(back));
  }
  return SgdPartial();
}

absl::StatusOr<SgdPartial> SgdShard::RunFront(const SgdStep& step) {
  const SgdStageOrder& order = step.stage;
  if (!front_.has_value()) return Lost();
  if (!order.message.empty()) {
    const auto gradients =
        DecodeSgdActivationGradients(task_.model, order.message);
    if (!gradients.ok()) return gradients.status();
    const absl::Status taken = front_->Backward(*gradients);
    if (!taken.ok()) return taken;
  }
  SgdPartial partial;
  if (order.micro < 0) return partial;
  if (order.micro == 0) stage_batch_ = BatchOf(step, 0);
  const Batch& batch = stage_batch_;
  const bool picked = batch.begin < 0;
  const int64_t rows = picked ? static_cast<int64_t>(batch.rows.size())
                              : batch.end - batch.begin;
  partial.stage.batch_rows = rows;
  if (rows == 0) return partial;
  const int64_t pieces = std::min(order.micro_batches, rows);
  if (order.micro >= pieces) {
    return absl::InvalidArgumentError(absl::StrCat(
        "micro-batch ", order.micro, "; the ", rows, " rows have ", pieces));
  }
  const auto [begin, count] =
      SgdMicroRows(rows, order.micro, order.micro_batches);
  const auto from = static_cast<size_t>(begin);
  const auto size = static_cast<size_t>(count);
  const absl::StatusOr<SgdActivations> sent =
      front_->Forward(picked ? absl::MakeSpan(batch.rows).subspan(from, size)
                             : rows_.rows(batch.begin + begin, count),
                      picked ? absl::MakeSpan(batch.labels).subspan(from, size)
                             : rows_.labels(batch.begin + begin, count));
  if (!sent.ok()) return sent.status();
  partial.stage.message = EncodeSgdActivations(*sent);
  return partial;
}

absl::StatusOr<SgdPartial> SgdShard::RunBack(const SgdStep& step) {
  if (!back_.has_value()) return Lost();
  const auto activations =
      DecodeSgdActivations(task_.model, step.stage.message);
  if (!activations.ok()) return activations.status();
  const auto gradients = back_->Process(*activations);
  if (!gradients.ok()) return gradients.status();
  for (const float value : gradients->values) {
    if (!std::isfinite(value) || !std::isfinite(gradients->loss)) {
      return absl::OutOfRangeError(
          absl::StrCat("update ", step.version, ", micro-batch ",
                       gradients->micro, ": the loss is ", gradients->loss,
                       ", the gradient of an activation ", value));
    }
  }
  SgdPartial partial;
  partial.loss = gradients->loss;
  partial.correct = gradients->correct;
  partial.rows = static_cast<int64_t>(activations->labels.size());
  partial.stage.message = EncodeSgdActivationGradients(*gradients);
  return partial;
}

absl::StatusOr<SgdPartial> SgdShard::FinishStages(const SgdStep& step) {
  const SgdStageOrder& order = step.stage;
  if (!front_.has_value() && !back_.has_value()) return Lost();
  SgdPartial partial;
  const auto finish = [&](auto& stage, const std::vector<double>& sums,
                          std::vector<double>& norms) -> absl::Status {
    if (!stage.has_value()) return absl::OkStatus();
    absl::Status status;
    if (!sums.empty()) status = stage->TakeSums(sums, order.rows);
    if (status.ok()) {
      status = stage->Finish(step.version, order.rows, order.step_size);
    }
    norms = {stage->squares(), stage->penalty()};
    return status;
  };
  absl::Status status = finish(front_, order.front, partial.stage.front);
  if (status.ok()) status = finish(back_, order.back, partial.stage.back);
  if (!status.ok()) return status;
  return partial;
}

}  // namespace coterie
