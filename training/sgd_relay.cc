#include "training/sgd_relay.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_mlp.h"

namespace coterie {
namespace {

using internal_sgd::BackParameters;
using internal_sgd::FrontParameters;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

// In order of copies, so that the sums have the same bits again.
template <typename Copies>
std::vector<double> Added(Copies& copies) {
  std::vector<double> sum;
  for (auto& copy : copies) {
    sum.resize(copy.sums.size());
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += copy.sums[j];
    copy.sums.clear();
  }
  return sum;
}

template <typename Parts>
auto* PartOf(Parts& parts, const std::vector<int32_t>& of, int32_t shard) {
  const int32_t at = of[static_cast<size_t>(shard)];
  return at < 0 ? nullptr : &parts[static_cast<size_t>(at)];
}

}  // namespace

SgdRelay::SgdRelay(const SgdModel& model, absl::Span<const int64_t> rows,
                   int64_t micro_batches, int32_t back_copies)
    : model_(model),
      micro_batches_(micro_batches),
      front_of_(rows.size(), -1),
      back_of_(rows.size(), -1),
      asked_(rows.size()) {
  for (size_t s = 0; s < rows.size(); ++s) {
    if (rows[s] == 0) continue;
    front_of_[s] = static_cast<int32_t>(fronts_.size());
    fronts_.emplace_back().shard = static_cast<int32_t>(s);
  }
  const size_t copies =
      std::min(fronts_.size(), static_cast<size_t>(std::max(1, back_copies)));
  for (size_t f = 0; f < fronts_.size(); ++f) {
    if (f < copies) {
      const size_t shard =
          (static_cast<size_t>(fronts_[f].shard) + 1) % rows.size();
      back_of_[shard] = static_cast<int32_t>(f);
      backs_.emplace_back().shard = static_cast<int32_t>(shard);
    }
    backs_[f % copies].fronts.push_back(f);
  }
}

SgdRelay::Front* SgdRelay::FrontOf(int32_t shard) {
  return PartOf(fronts_, front_of_, shard);
}

const SgdRelay::Front* SgdRelay::FrontOf(int32_t shard) const {
  return PartOf(fronts_, front_of_, shard);
}

SgdRelay::Back* SgdRelay::BackOf(int32_t shard) {
  return PartOf(backs_, back_of_, shard);
}

const SgdRelay::Back* SgdRelay::BackOf(int32_t shard) const {
  return PartOf(backs_, back_of_, shard);
}

bool SgdRelay::TakesPart(int32_t shard) const {
  switch (phase_) {
    case Phase::kSumFronts:
      return FrontOf(shard) != nullptr;
    case Phase::kSumBacks:
      return BackOf(shard) != nullptr;
    case Phase::kGather:
      // All copies have the same bits.
      return shard == fronts_[0].shard || shard == backs_[0].shard;
    default:
      return FrontOf(shard) != nullptr || BackOf(shard) != nullptr;
  }
}

void SgdRelay::Enter(Phase phase) {
  phase_ = phase;
  waiting_ = 0;
  for (size_t s = 0; s < asked_.size(); ++s) {
    asked_[s] = false;
    if (TakesPart(static_cast<int32_t>(s))) ++waiting_;
  }
}

void SgdRelay::Set(int64_t step, const std::vector<double>& parameters) {
  step_ = step;
  parts_ = *SplitSgdStages(model_, step, parameters);
  Enter(Phase::kSet);
}

void SgdRelay::Go() {
  phase_ = Phase::kRun;
  front_sums_.clear();
  back_sums_.clear();
  rows_ = 0;
  for (Front& front : fronts_) {
    const int32_t shard = front.shard;
    front = Front();
    front.shard = shard;
  }
  for (Back& back : backs_) {
    back.at = 0;
    back.processed = 0;
    back.sums.clear();
  }
}

void SgdRelay::Finish(double step_size) {
  step_size_ = step_size;
  Enter(Phase::kFinish);
}

void SgdRelay::Gather() { Enter(Phase::kGather); }

std::vector<double> SgdRelay::TakeParameters() {
  parts_.front.step = parts_.back.step = step_;
  // Check has seen to their sizes.
  return *JoinSgdStages(model_, std::exchange(parts_, SgdStages()));
}

std::vector<SgdRelay::Sums> SgdRelay::sums() const {
  std::vector<Sums> sums;
  for (const Front& front : fronts_) {
    sums.push_back({front.shard, front.loss, front.rows});
  }
  return sums;
}

bool SgdRelay::MaySend(const Front& front) const {
  // The first answer tells how many there are.
  if (front.pieces < 0) return front.sent == 0;
  return front.sent < front.pieces && front.sent - front.ended < kInFlight;
}

std::optional<SgdStageOrder> SgdRelay::NextBack(Back& back) {
  while (back.at < back.fronts.size()) {
    Front& front = fronts_[back.fronts[back.at]];
    if (back.processed == front.pieces) {
      ++back.at;
      back.processed = 0;
      continue;
    }
    if (front.forward.empty()) break;
    SgdStageOrder order;
    order.task = SgdStageTask::kBack;
    order.message = std::move(front.forward.front());
    front.forward.pop_front();
    ++back.processed;
    back.answering = back.fronts[back.at];
    return order;
  }
  return std::nullopt;
}

std::optional<SgdStageOrder> SgdRelay::NextFront(Front& front) {
  SgdStageOrder order;
  order.task = SgdStageTask::kFront;
  order.micro_batches = micro_batches_;
  if (!front.backward.empty()) {
    order.message = std::move(front.backward.front());
    front.backward.pop_front();
  }
  if (MaySend(front)) order.micro = front.sent++;
  if (order.micro < 0 && order.message.empty()) return std::nullopt;
  return order;
}

std::optional<SgdStageOrder> SgdRelay::Next(int32_t shard) {
  Front* front = FrontOf(shard);
  Back* back = BackOf(shard);
  SgdStageOrder order;
  switch (phase_) {
    case Phase::kRun: {
      std::optional<SgdStageOrder> next;
      if (back != nullptr) next = NextBack(*back);
      if (!next.has_value() && front != nullptr) next = NextFront(*front);
      return next;
    }
    case Phase::kSet:
      order.task = SgdStageTask::kSet;
      if (front != nullptr) order.front = parts_.front.parameters;
      if (back != nullptr) order.back = parts_.back.parameters;
      break;
    case Phase::kSumFronts:
      order.task = SgdStageTask::kFrontSums;
      break;
    case Phase::kSumBacks:
      order.task = SgdStageTask::kBackSums;
      break;
    case Phase::kFinish:
      order.task = SgdStageTask::kFinish;
      order.rows = rows_;
      order.step_size = step_size_;
      if (front != nullptr) order.front = front_sums_;
      if (back != nullptr) order.back = back_sums_;
      break;
    case Phase::kGather:
      order.task = SgdStageTask::kGather;
      break;
    default:
      return std::nullopt;
  }
  const size_t s = static_cast<size_t>(shard);
  if (asked_[s] || !TakesPart(shard)) return std::nullopt;
  asked_[s] = true;
  return order;
}

absl::Status SgdRelay::CheckFront(const Front& front,
                                  const SgdStageOrder& order,
                                  const SgdPartial& partial) const {
  const SgdStageAnswer& answer = partial.stage;
  if (order.micro < 0) {
    return answer.message.empty() ? absl::OkStatus()
                                  : Bad("activations that were not asked for");
  }
  if (front.pieces >= 0 &&
      std::min(micro_batches_, answer.batch_rows) != front.pieces) {
    return Bad(absl::StrCat("the update's rows are ", answer.batch_rows,
                            ", and were others before"));
  }
  if (answer.batch_rows == 0) {
    return answer.message.empty() ? absl::OkStatus()
                                  : Bad("activations of no rows");
  }
  const auto sent = DecodeSgdActivations(model_, answer.message);
  if (!sent.ok()) return sent.status();
  if (sent->step == step_ && sent->micro == order.micro) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat("activations of micro-batch ", sent->micro, ", step ",
                          sent->step, "; ", order.micro, " of ", step_,
                          " are due"));
}

absl::Status SgdRelay::CheckBack(const SgdStageOrder& order,
                                 const SgdPartial& partial) const {
  const auto sent = DecodeSgdActivations(model_, order.message);
  const auto back = DecodeSgdActivationGradients(model_, partial.stage.message);
  if (!sent.ok()) return sent.status();
  if (!back.ok()) return back.status();
  if (back->step == step_ && back->micro == sent->micro &&
      back->values.size() == sent->values.size() &&
      partial.rows == static_cast<int64_t>(sent->labels.size())) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat("gradients of micro-batch ", back->micro, ", step ",
                          back->step, ", ", back->values.size(), " values of ",
                          partial.rows, " rows; ", sent->micro, " of ", step_,
                          " with ", sent->values.size(), " are due"));
}

absl::Status SgdRelay::CheckParts(int32_t shard, const SgdStageOrder& order,
                                  const SgdStageAnswer& answer) const {
  const bool norms = order.task == SgdStageTask::kFinish;
  const auto size = [&](const void* part, SgdStageTask other,
                        int64_t parameters) -> size_t {
    if (part == nullptr || order.task == other) return 0;
    return norms ? 2 : static_cast<size_t>(parameters);
  };
  if (answer.front.size() == size(FrontOf(shard), SgdStageTask::kBackSums,
                                  FrontParameters(model_)) &&
      answer.back.size() == size(BackOf(shard), SgdStageTask::kFrontSums,
                                 BackParameters(model_))) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat("parts of ", answer.front.size(), " and ",
                          answer.back.size(), " values"));
}

absl::Status SgdRelay::Check(int32_t shard, const SgdStageOrder& order,
                             const SgdPartial& partial) const {
  switch (order.task) {
    case SgdStageTask::kFront:
      return CheckFront(*FrontOf(shard), order, partial);
    case SgdStageTask::kBack:
      return CheckBack(order, partial);
    case SgdStageTask::kSet:
      return absl::OkStatus();
    default:
      return CheckParts(shard, order, partial.stage);
  }
}

void SgdRelay::AcceptMicro(int32_t shard, const SgdStageOrder& order,
                           SgdPartial partial) {
  if (order.task == SgdStageTask::kBack) {
    Front& front = fronts_[BackOf(shard)->answering];
    front.loss += partial.loss;
    front.rows += partial.rows;
    front.backward.push_back(std::move(partial.stage.message));
    return;
  }
  Front& front = *FrontOf(shard);
  if (!order.message.empty()) ++front.ended;
  if (order.micro >= 0) {
    front.pieces = std::min(micro_batches_, partial.stage.batch_rows);
    if (front.pieces > 0) {
      front.forward.push_back(std::move(partial.stage.message));
    }
  }
  for (const Front& f : fronts_) {
    if (f.ended != f.pieces) return;
  }
  for (const Front& f : fronts_) rows_ += f.rows;
  SumNext();
}

void SgdRelay::SumNext() {
  if (fronts_.size() > 1 && front_sums_.empty()) {
    Enter(Phase::kSumFronts);
  } else if (backs_.size() > 1 && back_sums_.empty()) {
    Enter(Phase::kSumBacks);
  } else {
    phase_ = Phase::kSummed;
  }
}

void SgdRelay::Accept(int32_t shard, const SgdStageOrder& order,
                      SgdPartial partial) {
  SgdStageAnswer& answer = partial.stage;
  switch (phase_) {
    case Phase::kRun:
      return AcceptMicro(shard, order, std::move(partial));
    case Phase::kSumFronts:
      FrontOf(shard)->sums = std::move(answer.front);
      break;
    case Phase::kSumBacks:
      BackOf(shard)->sums = std::move(answer.back);
      break;
    case Phase::kFinish:
      if (shard == fronts_[0].shard) front_norms_ = std::move(answer.front);
      if (shard == backs_[0].shard) back_norms_ = std::move(answer.back);
      break;
    case Phase::kGather:
      if (shard == fronts_[0].shard) {
        parts_.front.parameters = std::move(answer.front);
      }
      if (shard == backs_[0].shard) {
        parts_.back.parameters = std::move(answer.back);
      }
      break;
    default:
      break;
  }
  if (--waiting_ > 0) return;
  switch (phase_) {
    case Phase::kSet:
      return Go();
    case Phase::kSumFronts:
      front_sums_ = Added(fronts_);
      return SumNext();
    case Phase::kSumBacks:
      back_sums_ = Added(backs_);
      return SumNext();
    case Phase::kFinish:
      ++step_;
      phase_ = Phase::kFinished;
      return;
    default:
      phase_ = Phase::kGathered;
  }
}

}  // namespace coterie
