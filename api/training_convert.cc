#include "api/training_convert.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "api/attribute_convert.h"
#include "api/collection.h"
#include "api/points_convert.h"
#include "api/search_convert.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr int64_t kMostUpdates = 1'000'000'000;
constexpr int64_t kMostBatch = int64_t{1} << 40;
constexpr int32_t kMostThreads = 1 << 16;
constexpr int64_t kMostParameters = kMaxSgdParameters;
constexpr int64_t kDefaultUpdates = 1000;
constexpr int64_t kMicroBatches = 8;

// A whole number that has to lie in low..high.
struct Whole {
  const char* field;
  int64_t value;
  int64_t low;
  int64_t high;
};

absl::Status CheckWhole(std::initializer_list<Whole> wholes) {
  for (const Whole& w : wholes) {
    if (w.value >= w.low && w.value <= w.high) continue;
    return InvalidField(
        w.field, absl::StrCat(w.value, " is not in ", w.low, "..", w.high));
  }
  return absl::OkStatus();
}

struct Real {
  const char* field;
  double value;
};

absl::Status CheckReals(std::initializer_list<Real> reals) {
  for (const Real& r : reals) {
    if (std::isfinite(r.value) && r.value >= 0) continue;
    return InvalidField(r.field,
                        absl::StrCat(r.value, " is not finite and >= 0"));
  }
  return absl::OkStatus();
}

absl::Status DecodeModel(const v1::SgdModelSpec& spec, SgdModel* out) {
  using Kind = v1::SgdModelSpec::KindCase;
  switch (spec.kind_case()) {
    case Kind::kLinear:
      out->kind = SgdModelKind::kLinear;
      break;
    case Kind::kLogistic:
      out->kind = SgdModelKind::kLogistic;
      break;
    case Kind::kSoftmax:
      out->kind = SgdModelKind::kSoftmax;
      out->classes = spec.softmax().classes();
      break;
    case Kind::kMlp:
      out->kind = SgdModelKind::kMlp;
      out->classes = spec.mlp().classes();
      out->hidden = spec.mlp().hidden();
      break;
    case Kind::KIND_NOT_SET:
      return InvalidField("model.kind",
                          "is not set: choose linear, logistic, softmax or "
                          "mlp");
  }
  out->intercept = spec.intercept();
  out->l2 = spec.l2();
  out->l1 = spec.l1();
  SgdModel model = *out;
  model.dimension = 1;
  const absl::Status status = ValidateSgdModel(model);
  return status.ok() ? status : InvalidField("model", status.message());
}

void EncodeModel(const SgdModel& model, v1::SgdModelSpec* out) {
  switch (model.kind) {
    case SgdModelKind::kLinear:
      out->mutable_linear();
      break;
    case SgdModelKind::kLogistic:
      out->mutable_logistic();
      break;
    case SgdModelKind::kSoftmax:
      out->mutable_softmax()->set_classes(static_cast<int32_t>(model.classes));
      break;
    case SgdModelKind::kMlp:
      out->mutable_mlp()->set_classes(static_cast<int32_t>(model.classes));
      out->mutable_mlp()->set_hidden(static_cast<int32_t>(model.hidden));
      break;
  }
  out->set_intercept(model.intercept);
  out->set_l2(model.l2);
  out->set_l1(model.l1);
}

absl::Status DecodeMethod(const v1::SgdMethod& method, SgdOptions* out) {
  if (method.preset() == v1::SgdMethod::PRESET_UNSPECIFIED ||
      !v1::SgdMethod::Preset_IsValid(method.preset())) {
    return InvalidField("method.preset",
                        absl::StrCat(static_cast<int>(method.preset()),
                                     " is no preset: choose one, such as "
                                     "ISEGA"));
  }
  if (!v1::SgdMethod::Compressor_IsValid(method.compressor())) {
    return InvalidField("method.compressor",
                        absl::StrCat(static_cast<int>(method.compressor()),
                                     " is no compressor"));
  }
  if (!v1::SgdMethod::Feedback_IsValid(method.feedback())) {
    return InvalidField(
        "method.feedback",
        absl::StrCat(static_cast<int>(method.feedback()), " is no feedback"));
  }
  // NaN is outside.
  if (!(method.block_fraction() >= 0 && method.block_fraction() <= 1)) {
    return InvalidField(
        "method.block_fraction",
        absl::StrCat(method.block_fraction(), " is not in (0, 1], or 0"));
  }
  absl::Status status =
      CheckWhole({{"method.blocks", method.blocks(), 0, kMostParameters},
                  {"method.top_k", method.top_k(), 0, kMostParameters},
                  {"method.levels", method.levels(), 0, 32'767}});
  if (status.ok()) {
    status = CheckReals({{"method.strong_growth", method.strong_growth()}});
  }
  if (!status.ok()) return status;
  *out = SgdPreset(static_cast<SgdMethod>(method.preset()), *out);
  if (method.compressor() != v1::SgdMethod::COMPRESSOR_UNSPECIFIED) {
    out->compressor = static_cast<SgdCompressor>(method.compressor());
  }
  if (method.feedback() != v1::SgdMethod::FEEDBACK_UNSPECIFIED) {
    out->feedback = static_cast<SgdFeedback>(method.feedback());
  }
  out->block_fraction = method.block_fraction();
  out->blocks = method.blocks();
  out->top_k = std::max<int64_t>(1, method.top_k());
  out->levels = std::max(1, method.levels());
  out->strong_growth = method.strong_growth();
  return absl::OkStatus();
}

absl::Status DecodeRule(v1::SgdModeSpec::Rule rule, SgdOptions* out) {
  if (!v1::SgdModeSpec::Rule_IsValid(rule)) {
    return InvalidField("mode.rule",
                        absl::StrCat(static_cast<int>(rule), " is no rule"));
  }
  if (rule == v1::SgdModeSpec::RULE_UNSPECIFIED) {
    // The proximal preset has its own.
    if (out->rule != SgdAsyncRule::kProximal) {
      out->rule = out->feedback == SgdFeedback::kPlain
                      ? SgdAsyncRule::kDelayAdaptive
                      : SgdAsyncRule::kTable;
    }
    return absl::OkStatus();
  }
  out->rule = static_cast<SgdAsyncRule>(rule);
  return absl::OkStatus();
}

// The method has been decoded: a preset may have a mode of its own.
absl::Status DecodeMode(const v1::SgdModeSpec& mode, SgdOptions* out) {
  using Kind = v1::SgdModeSpec::KindCase;
  absl::Status status = CheckWhole(
      {{"mode.max_staleness", mode.max_staleness(), 0, kMostUpdates}});
  if (!status.ok()) return status;
  out->max_staleness = mode.max_staleness();
  switch (mode.kind_case()) {
    case Kind::KIND_NOT_SET:
      return absl::OkStatus();
    case Kind::kSynchronous:
      out->mode = SgdMode::kSynchronous;
      return absl::OkStatus();
    case Kind::kBackup:
      out->mode = SgdMode::kBackup;
      out->backup = mode.backup().shards();
      return CheckWhole({{"mode.backup.shards", out->backup, 1, kMostThreads}});
    case Kind::kStaleSynchronous:
      out->mode = SgdMode::kBoundedStaleness;
      out->bound = mode.stale_synchronous().bound();
      status = CheckWhole(
          {{"mode.stale_synchronous.bound", out->bound, 0, kMostUpdates}});
      if (!status.ok()) return status;
      return DecodeRule(mode.stale_synchronous().rule(), out);
    case Kind::kAsynchronous:
      out->mode = SgdMode::kAsynchronous;
      return DecodeRule(mode.asynchronous().rule(), out);
    case Kind::kBuffered:
      out->mode = SgdMode::kBuffered;
      out->buffer = mode.buffered().answers();
      status =
          CheckWhole({{"mode.buffered.answers", out->buffer, 1, kMostThreads}});
      if (!status.ok()) return status;
      return DecodeRule(mode.buffered().rule(), out);
  }
  return absl::OkStatus();
}

absl::Status DecodeStepRule(const v1::SgdStepRule& rule, SgdOptions* out) {
  using Kind = v1::SgdStepRule::KindCase;
  const absl::Status status =
      CheckReals({{"step_rule.smoothness", rule.smoothness()},
                  {"step_rule.strong_convexity", rule.strong_convexity()},
                  {"step_rule.constant.step", rule.constant().step()},
                  {"step_rule.inverse.step", rule.inverse().step()},
                  {"step_rule.inverse.decay", rule.inverse().decay()}});
  if (!status.ok()) return status;
  out->smoothness = rule.smoothness();
  out->strong_convexity = rule.strong_convexity();
  const char* field = nullptr;
  switch (rule.kind_case()) {
    case Kind::KIND_NOT_SET:
    case Kind::kTight:
      out->schedule = SgdSchedule::kTight;
      if (out->model.kind == SgdModelKind::kMlp && out->smoothness == 0) {
        return InvalidField("step_rule",
                            "no smoothness of an MLP is known: give a "
                            "constant or inverse step");
      }
      break;
    case Kind::kTheorem:
      out->schedule = SgdSchedule::kTheorem;
      break;
    case Kind::kConstant:
      out->schedule = SgdSchedule::kConstant;
      out->step = rule.constant().step();
      field = "step_rule.constant.step";
      break;
    case Kind::kInverse:
      out->schedule = SgdSchedule::kInverse;
      out->step = rule.inverse().step();
      out->decay = rule.inverse().decay();
      field = "step_rule.inverse.step";
      break;
    case Kind::kTheoremInverse:
      out->schedule = SgdSchedule::kTheoremInverse;
      break;
  }
  if (field != nullptr && !(out->step > 0)) {
    return InvalidField(field, absl::StrCat(out->step, " is not above 0"));
  }
  return absl::OkStatus();
}

absl::Status DecodeStop(const v1::TrainSgdRequest& request, SgdOptions* out) {
  const absl::Status status =
      CheckReals({{"min_squared_gradient", request.min_squared_gradient()}});
  if (!status.ok()) return status;
  // NaN is outside.
  if (!(request.held_out() >= 0 && request.held_out() < 1)) {
    return InvalidField("held_out",
                        absl::StrCat(request.held_out(), " is not in [0, 1)"));
  }
  if (request.has_target_loss() &&
      !(std::isfinite(request.target_loss()) && request.target_loss() >= 0)) {
    return InvalidField("target_loss", absl::StrCat(request.target_loss(),
                                                    " is not finite and >= 0"));
  }
  out->target_loss = request.has_target_loss() ? request.target_loss() : -1;
  out->min_gradient = request.min_squared_gradient();
  out->held_out = request.held_out();
  out->evaluate_every = request.evaluate_every();
  out->refresh_every = request.refresh_every();
  out->max_updates =
      request.max_updates() == 0 ? kDefaultUpdates : request.max_updates();
  return absl::OkStatus();
}

absl::Status DecodePartition(const v1::SgdPartition& partition,
                             SgdOptions* out) {
  if (!partition.has_model_parallel()) return absl::OkStatus();
  const int32_t pieces = partition.model_parallel().micro_batches();
  const absl::Status status =
      CheckWhole({{"partition.model_parallel.micro_batches", pieces, 0,
                   kMaxSgdMicroBatches},
                  {"partition.model_parallel.back_copies",
                   partition.model_parallel().back_copies(), 0, kMostThreads}});
  if (!status.ok()) return status;
  out->back_copies = partition.model_parallel().back_copies();
  out->micro_batches = pieces > 0       ? pieces
                       : out->batch > 0 ? std::min(kMicroBatches, out->batch)
                                        : kMicroBatches;
  return absl::OkStatus();
}

absl::Status CheckNumbers(const v1::TrainSgdRequest& r) {
  return CheckWhole(
      {{"num_workers", r.num_workers(), 0, kMostSgdWorkers},
       {"batch", r.batch(), 0, kMostBatch},
       {"expected_global_batch", r.expected_global_batch(), 0, kMostBatch},
       {"max_updates", r.max_updates(), 0, kMostUpdates},
       {"evaluate_every", r.evaluate_every(), 0, kMostUpdates},
       {"refresh_every", r.refresh_every(), 0, kMostUpdates},
       {"threads", r.threads(), 0, kMostThreads},
       {"checkpoint_every", r.checkpoint_every(), 0, kMostUpdates},
       {"report_every", r.report_every(), 0, kMostUpdates}});
}

absl::Status DecodeOptions(const v1::TrainSgdRequest& request,
                           SgdOptions* out) {
  absl::Status status = CheckNumbers(request);
  if (status.ok()) status = DecodeModel(request.model(), &out->model);
  if (!status.ok()) return status;
  out->seed = request.seed();
  out->workers = std::max(1, request.num_workers());
  out->batch = request.batch();
  out->expected_global_batch = request.expected_global_batch();
  status = DecodeMethod(request.method(), out);
  if (status.ok()) status = DecodeMode(request.mode(), out);
  if (status.ok()) status = DecodeStepRule(request.step_rule(), out);
  if (status.ok()) status = DecodeStop(request, out);
  if (status.ok()) status = DecodePartition(request.partition(), out);
  if (!status.ok()) return status;
  if (request.independent_sampling()) {
    out->sampling = SgdSampling::kIndependent;
  }
  out->float64 = request.float64();
  SgdOptions checked = *out;
  checked.model.dimension = 1;
  checked.blocks = 0;
  checked.top_k = 1;
  status = ValidateSgdOptions(checked);
  return status.ok() ? status : InvalidField("method", status.message());
}

absl::Status CheckName(const std::string& name, const char* field,
                       const Limits& limits) {
  const absl::Status valid = ValidateCollectionName(name, limits);
  return valid.ok() ? valid : InvalidField(field, valid.message());
}

}  // namespace

absl::StatusOr<SgdRequest> DecodeTrainSgd(const v1::TrainSgdRequest& request,
                                          const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (status.ok()) status = CheckName(request.name(), "name", limits);
  if (status.ok()) {
    status =
        CheckAttributeKey(request.label_attribute(), "label_attribute", limits);
  }
  if (!status.ok()) return status;
  auto filter = DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  SgdRequest out;
  out.collection = request.collection();
  out.name = request.name();
  out.filter = *std::move(filter);
  out.label_attribute = request.label_attribute();
  out.skip_missing = request.skip_missing();
  out.threads = request.threads();
  out.report_every = request.report_every();
  out.replace = request.replace();
  status = DecodeOptions(request, &out.options);
  if (!status.ok()) return status;
  out.checkpoint_every = request.checkpoint_every();
  if (out.options.micro_batches > 0) {
    out.options.gather_every = request.checkpoint_every();
  }
  return out;
}

absl::StatusOr<PredictRequest> DecodePredict(const v1::PredictRequest& request,
                                             const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (status.ok()) status = CheckName(request.model(), "model", limits);
  if (!status.ok()) return status;
  if (request.ids().empty() == request.vectors().empty()) {
    return InvalidField("ids", "exactly one of ids and vectors is needed");
  }
  const int64_t items = request.ids_size() + request.vectors_size();
  if (items > limits.queries) {
    return OverLimit(request.ids().empty() ? "vectors" : "ids", items,
                     "queries", limits.queries);
  }
  PredictRequest out;
  out.collection = request.collection();
  out.model = request.model();
  out.ids.assign(request.ids().begin(), request.ids().end());
  for (int i = 0; i < request.vectors_size(); ++i) {
    const std::string field = absl::StrCat("vectors[", i, "]");
    auto vector = DecodeVector(request.vectors(i), field, limits);
    if (!vector.ok()) return vector.status();
    if (i > 0 && vector->size() != out.vectors.front().size()) {
      return InvalidField(
          field, absl::StrCat(vector->size(), " components; the first has ",
                              out.vectors.front().size()));
    }
    out.vectors.push_back(*std::move(vector));
  }
  return out;
}

void EncodeSgdReport(const SgdReport& report, v1::SgdReport* out) {
  const SgdProgress& p = report.progress;
  out->set_update(p.update);
  out->set_loss(p.loss);
  out->set_squared_gradient(p.squared_gradient);
  out->set_step(p.step);
  out->set_rows(p.rows);
  out->set_global_batch(report.global_batch);
  if (p.measured_at >= 0) {
    out->set_held_out_loss(p.held_out_loss);
    out->set_held_out_accuracy(p.held_out_accuracy);
    out->set_measured_at(p.measured_at);
  }
  out->set_packed_bytes_down(p.bytes_down);
  out->set_packed_bytes_up(p.bytes_up);
  for (size_t s = 0; s < report.shards.size(); ++s) {
    const SgdShardAccount& account = report.shards[s];
    v1::SgdShardAccount* shard = out->add_shards();
    shard->set_shard_id(static_cast<int32_t>(s));
    shard->set_accepted(account.accepted);
    shard->set_late(account.late);
    shard->set_dropped(account.dropped);
    shard->set_rows(account.rows);
    shard->set_bytes_down(account.bytes_down);
    shard->set_bytes_up(account.bytes_up);
    shard->set_bytes_whole(account.bytes_whole);
    shard->set_bytes_forward(account.bytes_forward);
    shard->set_bytes_backward(account.bytes_backward);
  }
  out->mutable_staleness()->set_p50(report.staleness.p50);
  out->mutable_staleness()->set_p95(report.staleness.p95);
  out->mutable_staleness()->set_max(report.staleness.max);
  EncodeCost(report.cost, out->mutable_cost());
  out->set_seconds(report.seconds);
}

void EncodeTrainedModel(const TrainedModel& model, bool with_parameters,
                        v1::SgdModel* out) {
  out->set_collection(model.collection);
  out->set_name(model.name);
  EncodeModel(model.model, out->mutable_spec());
  out->set_dimension(static_cast<int32_t>(model.model.dimension));
  out->set_parameter_count(SgdParameters(model.model));
  if (with_parameters) {
    out->mutable_parameters()->Add(model.parameters.begin(),
                                   model.parameters.end());
  }
  if (model.stop != SgdStop::kRequested) {
    out->set_stop(static_cast<v1::SgdModel::Stop>(model.stop));
  }
  EncodeSgdReport(model.last, out->mutable_last());
  out->set_rows(model.rows);
  out->set_rows_missing(model.rows_missing);
  out->set_seed(model.seed);
  out->set_num_workers(model.workers);
  out->set_first_step(model.first_step);
  out->set_smoothness(model.smoothness);
  out->set_block_fraction(model.block_fraction);
  out->set_seconds(model.seconds);
  out->set_bytes_sent(model.bytes_sent);
  out->set_bytes_received(model.bytes_received);
  for (const std::string& warning : model.warnings) out->add_warnings(warning);
  out->set_age_seconds(model.age_seconds);
}

void EncodePredictions(const std::vector<Prediction>& predictions,
                       v1::PredictResponse* out) {
  for (const Prediction& prediction : predictions) {
    v1::Prediction* encoded = out->add_predictions();
    encoded->mutable_outputs()->Add(prediction.outputs.begin(),
                                    prediction.outputs.end());
    encoded->set_label(prediction.label);
  }
}

}  // namespace coterie
