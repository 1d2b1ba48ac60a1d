#include "training/sgd_pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "index/simd.h"
#include "training/sgd_mlp.h"
#include "training/sgd_wire.h"

namespace coterie {
namespace {

using internal_sgd::BackParameters;
using internal_sgd::FrontParameters;
using internal_sgd::In;
using internal_sgd::KernelsFor;
using internal_sgd::Out;
using internal_sgd::RowGroup;

constexpr uint8_t kActivationsMark = 0xa3;
constexpr uint8_t kGradientsMark = 0xa4;

absl::Status CheckStage(const SgdModel& model, const SgdStageState& state,
                        int64_t parameters) {
  if (absl::Status s = ValidateSgdModel(model); !s.ok()) return s;
  if (model.kind != SgdModelKind::kMlp) {
    return absl::InvalidArgumentError("only an MLP can be cut into stages");
  }
  if (state.step < 0 ||
      static_cast<int64_t>(state.parameters.size()) != parameters ||
      FindNonFinite(state.parameters) >= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "stage at step ", state.step, " with ", state.parameters.size(),
        " parameters; must have ", parameters, ", all finite"));
  }
  return absl::OkStatus();
}

std::vector<const float*> RowsOf(const std::vector<float>& values, int64_t h) {
  std::vector<const float*> rows;
  for (size_t at = 0; at < values.size(); at += static_cast<size_t>(h)) {
    rows.push_back(values.data() + at);
  }
  return rows;
}

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float v) { return std::isfinite(v); });
}

void WriteFloats(const std::vector<float>& values, Out& out) {
  out.Varint(static_cast<uint64_t>(values.size()));
  out.Raw(values.data(), values.size() * sizeof(float));
}

std::vector<float> ReadFloats(In& in) {
  const int64_t count = in.Count();
  std::vector<float> values;
  if (static_cast<uint64_t>(count) > in.left() / sizeof(float)) {
    in.Fail();
    return values;
  }
  values.resize(static_cast<size_t>(count));
  const char* at = in.Take(values.size() * sizeof(float));
  if (count > 0) std::memcpy(values.data(), at, values.size() * sizeof(float));
  return values;
}

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("stage message: ", what));
}

absl::Status CheckEnd(const In& in, const std::vector<float>& values,
                      const SgdModel& model) {
  if (!in.ok() || in.left() > 0) return Bad("too short or too long");
  if (values.empty() ||
      static_cast<int64_t>(values.size()) % model.hidden != 0) {
    return Bad(
        absl::StrCat(values.size(), " values are not rows of ", model.hidden));
  }
  return AllFinite(values) ? absl::OkStatus() : Bad("a value is not finite");
}

}  // namespace

absl::StatusOr<SgdStages> SplitSgdStages(const SgdModel& model, int64_t step,
                                         absl::Span<const double> parameters) {
  if (static_cast<int64_t>(parameters.size()) != SgdParameters(model)) {
    return absl::InvalidArgumentError(
        absl::StrCat(parameters.size(), " parameters; the model has ",
                     SgdParameters(model)));
  }
  const int64_t front = FrontParameters(model);
  SgdStages stages;
  stages.front = {step, {parameters.begin(), parameters.begin() + front}};
  stages.back = {step, {parameters.begin() + front, parameters.end()}};
  return stages;
}

absl::StatusOr<std::vector<double>> JoinSgdStages(const SgdModel& model,
                                                  const SgdStages& stages) {
  const SgdStageState& front = stages.front;
  const SgdStageState& back = stages.back;
  if (front.step != back.step) {
    return absl::FailedPreconditionError(absl::StrCat(
        "stages are of different steps: ", front.step, " and ", back.step));
  }
  for (const absl::Status& s :
       {CheckStage(model, front, FrontParameters(model)),
        CheckStage(model, back, BackParameters(model))}) {
    if (!s.ok()) return s;
  }
  std::vector<double> all = front.parameters;
  all.insert(all.end(), back.parameters.begin(), back.parameters.end());
  return all;
}

SgdMicroBatch SgdMicroRows(int64_t rows, int64_t micro, int64_t pieces) {
  pieces = std::min(pieces, rows);
  // Exact for any number of rows, as micro is below pieces.
  const auto begin = [&](int64_t m) {
    return rows / pieces * m + rows % pieces * m / pieces;
  };
  return {begin(micro), begin(micro + 1) - begin(micro)};
}

SgdStage::SgdStage(const SgdModel& model, SgdStageState state, int64_t weights)
    : model_(model),
      state_(std::move(state)),
      weights_(weights),
      gradient_(state_.parameters.size()) {}

void SgdStage::Abort() {
  std::fill(gradient_.begin(), gradient_.end(), 0.0);
  next_ = 0;
  rows_ = 0;
}

absl::Status SgdStage::Expect(int64_t step, int64_t micro) const {
  if (step == state_.step && micro == next_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("micro-batch ", micro, " of step ", step, "; due is ", next_,
                   " of step ", state_.step));
}

absl::Status SgdStage::TakeSums(std::vector<double> sums, int64_t rows) {
  if (sums.size() != gradient_.size() || rows < rows_) {
    return absl::InvalidArgumentError(
        absl::StrCat(sums.size(), " sums of ", rows, " rows; this stage has ",
                     gradient_.size(), " parameters and ", rows_, " rows"));
  }
  gradient_ = std::move(sums);
  rows_ = rows;
  return absl::OkStatus();
}

absl::Status SgdStage::Finish(int64_t step, int64_t rows, double step_size) {
  if (step != state_.step || rows != rows_) {
    return absl::FailedPreconditionError(
        absl::StrCat("end of step ", step, " with ", rows,
                     " rows; this is step ", state_.step, " with ", rows_));
  }
  if (const int64_t at = FindNonFinite(gradient_); at >= 0) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, ": the gradient of parameter ", at, " is ",
                     gradient_[static_cast<size_t>(at)]));
  }
  // In the order of operations of SgdShard and SgdJob.
  const double count = static_cast<double>(rows);
  const double by = step_size * model_.l1;
  squares_ = 0;
  double squared_weights = 0, weights = 0;
  for (size_t j = 0; j < gradient_.size(); ++j) {
    const bool weight = static_cast<int64_t>(j) < weights_;
    double& w = state_.parameters[j];
    if (weight) {
      squared_weights += w * w;
      weights += std::abs(w);
    }
    if (rows > 0) {
      double sum = gradient_[j];
      if (weight && model_.l2 != 0) sum += count * model_.l2 * w;
      const double g = sum / count;
      squares_ += g * g;
      w -= step_size * g;
    }
    if (weight && by != 0) w = w > by ? w - by : w < -by ? w + by : 0.0;
  }
  penalty_ = model_.l2 / 2 * squared_weights + model_.l1 * weights;
  ++state_.step;
  Abort();
  return absl::OkStatus();
}

absl::StatusOr<SgdFrontStage> SgdFrontStage::Create(const SgdModel& model,
                                                    SgdStageState state) {
  absl::Status s = CheckStage(model, state, FrontParameters(model));
  if (!s.ok()) return s;
  return SgdFrontStage(model, std::move(state), model.hidden * model.dimension);
}

absl::StatusOr<SgdActivations> SgdFrontStage::Forward(
    absl::Span<const float* const> rows, absl::Span<const double> labels) {
  if (rows.empty() || rows.size() != labels.size()) {
    return absl::InvalidArgumentError(absl::StrCat("micro-batch of ",
                                                   rows.size(), " rows and ",
                                                   labels.size(), " labels"));
  }
  if (in_flight_.size() >= kMaxInFlight) {
    return absl::ResourceExhaustedError(absl::StrCat(
        in_flight_.size(), " micro-batches wait for their gradients"));
  }
  if (next_ == 0 && in_flight_.empty()) {
    // A step begins.
    sent_ = 0;
    loss_ = 0;
    correct_ = 0;
  }
  SgdActivations message;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (absl::Status s = CheckSgdLabel(model_, labels[i]); !s.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("row ", i, ": ", s.message()));
    }
    message.labels.push_back(static_cast<int32_t>(labels[i]));
  }
  message.step = state_.step;
  message.micro = sent_;
  const size_t h = static_cast<size_t>(model_.hidden);
  message.values.resize(rows.size() * h);
  for (size_t i = 0; i < rows.size(); i += 4) {
    internal_sgd::FrontForward(model_, KernelsFor(ActiveSimdTarget()),
                               state_.parameters, RowGroup(rows, i),
                               message.values.data() + i * h);
  }
  if (!AllFinite(message.values)) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", state_.step, ", micro-batch ", sent_,
                     ": an activation does not fit into float32"));
  }
  in_flight_[sent_++] = {{rows.begin(), rows.end()}, message.values};
  return message;
}

absl::Status SgdFrontStage::Backward(const SgdActivationGradients& gradients) {
  if (absl::Status s = Expect(gradients.step, gradients.micro); !s.ok()) {
    return s;
  }
  const auto at = in_flight_.find(gradients.micro);
  if (at == in_flight_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("micro-batch ", gradients.micro, " was not sent"));
  }
  const InFlight& batch = at->second;
  if (gradients.values.size() != batch.activations.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(gradients.values.size(), " gradients of ",
                     batch.activations.size(), " activations"));
  }
  const size_t h = static_cast<size_t>(model_.hidden);
  for (size_t i = 0; i < batch.rows.size(); i += 4) {
    internal_sgd::FrontBackward(
        model_, KernelsFor(ActiveSimdTarget()), RowGroup(batch.rows, i),
        batch.activations.data() + i * h, gradients.values.data() + i * h,
        absl::MakeSpan(gradient_));
  }
  rows_ += static_cast<int64_t>(batch.rows.size());
  loss_ += gradients.loss;
  correct_ += gradients.correct;
  in_flight_.erase(at);
  ++next_;
  return absl::OkStatus();
}

void SgdFrontStage::Abort() {
  SgdStage::Abort();
  in_flight_.clear();
  sent_ = 0;
}

absl::StatusOr<SgdBackStage> SgdBackStage::Create(const SgdModel& model,
                                                  SgdStageState state) {
  absl::Status s = CheckStage(model, state, BackParameters(model));
  if (!s.ok()) return s;
  return SgdBackStage(model, std::move(state), model.classes * model.hidden);
}

absl::StatusOr<SgdActivationGradients> SgdBackStage::Process(
    const SgdActivations& activations) {
  // Another front's begin.
  if (activations.micro == 0) next_ = 0;
  if (absl::Status s = Expect(activations.step, activations.micro); !s.ok()) {
    return s;
  }
  const size_t h = static_cast<size_t>(model_.hidden);
  if (activations.values.size() != activations.labels.size() * h ||
      activations.labels.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        activations.values.size(), " activations of ",
        activations.labels.size(), " rows; the cut is ", h, " wide"));
  }
  std::vector<double> labels;
  for (int32_t label : activations.labels) {
    labels.push_back(label);
    if (absl::Status s = CheckSgdLabel(model_, label); !s.ok()) return s;
  }
  SgdActivationGradients reply;
  reply.step = activations.step;
  reply.micro = activations.micro;
  reply.values.resize(activations.values.size());
  const std::vector<const float*> rows =
      RowsOf(activations.values, model_.hidden);
  SgdSums sums;
  for (size_t i = 0; i < rows.size(); i += 4) {
    internal_sgd::BackBackward(
        model_, KernelsFor(ActiveSimdTarget()), state_.parameters,
        RowGroup(rows, i), labels.data() + i, sums, absl::MakeSpan(gradient_),
        reply.values.data() + i * h);
  }
  reply.loss = sums.loss;
  reply.correct = sums.correct;
  rows_ += sums.rows;
  ++next_;
  return reply;
}

std::string EncodeSgdActivations(const SgdActivations& message) {
  std::string bytes;
  Out out(&bytes);
  out.Byte(kActivationsMark);
  out.Varint(message.step);
  out.Varint(message.micro);
  WriteFloats(message.values, out);
  for (int32_t label : message.labels) out.Varint(int64_t{label});
  return bytes;
}

std::string EncodeSgdActivationGradients(
    const SgdActivationGradients& message) {
  std::string bytes;
  Out out(&bytes);
  out.Byte(kGradientsMark);
  out.Varint(message.step);
  out.Varint(message.micro);
  WriteFloats(message.values, out);
  out.Double(message.loss);
  out.Varint(message.correct);
  return bytes;
}

absl::StatusOr<SgdActivations> DecodeSgdActivations(const SgdModel& model,
                                                    absl::string_view bytes) {
  In in(bytes);
  if (in.Byte() != kActivationsMark) return Bad("not activations");
  SgdActivations message;
  message.step = in.Count();
  message.micro = in.Count();
  message.values = ReadFloats(in);
  const int64_t rows =
      static_cast<int64_t>(message.values.size()) / model.hidden;
  for (int64_t i = 0; i < rows && in.ok(); ++i) {
    message.labels.push_back(in.Small());
    if (message.labels.back() >= model.classes) {
      return Bad(absl::StrCat("label is ", message.labels.back()));
    }
  }
  if (absl::Status s = CheckEnd(in, message.values, model); !s.ok()) return s;
  return message;
}

absl::StatusOr<SgdActivationGradients> DecodeSgdActivationGradients(
    const SgdModel& model, absl::string_view bytes) {
  In in(bytes);
  if (in.Byte() != kGradientsMark) return Bad("not activation gradients");
  SgdActivationGradients message;
  message.step = in.Count();
  message.micro = in.Count();
  message.values = ReadFloats(in);
  message.loss = in.Double();
  message.correct = in.Count();
  if (absl::Status s = CheckEnd(in, message.values, model); !s.ok()) return s;
  if (!std::isfinite(message.loss)) return Bad("the loss is not finite");
  return message;
}

}  // namespace coterie
