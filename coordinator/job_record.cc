#include "coordinator/job_record.h"

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "training/byte_archive.h"
#include "training/kmeans_checkpoint.h"
#include "training/sgd_checkpoint.h"
#include "training/sgd_model.h"

namespace coterie {
namespace {

constexpr uint8_t kFormat = 1;

template <typename Self, typename Of>
concept Is = std::same_as<std::remove_const_t<Self>, Of>;

// A choice of some types, as its index and its value.
template <typename... Ts, size_t... Is>
bool GetIndexed(ByteParser& parser, std::variant<Ts...>& value, size_t index,
                std::index_sequence<Is...>) {
  return (
      (index == Is ? (parser(value.template emplace<Is>()), true) : false) ||
      ...);
}

}  // namespace

// Found by argument: not in the unnamed namespace.
template <typename... Ts>
void Fields(ByteWriter& writer, const std::variant<Ts...>& value) {
  writer(static_cast<uint8_t>(value.index()));
  std::visit([&writer](const auto& v) { writer(v); }, value);
}
template <typename... Ts>
void Fields(ByteParser& parser, std::variant<Ts...>& value) {
  uint8_t index = 0;
  parser(index);
  if (!GetIndexed(parser, value, index, std::index_sequence_for<Ts...>())) {
    parser.Fail();
  }
}

template <typename Archive, typename Self>
requires Is<Self, RangeCondition>
void Fields(Archive& archive, Self& range) {
  for (auto* bound : {&range.lower, &range.upper}) {
    bool has = bound->has_value();
    auto value = bound->value_or(RangeCondition::Bound());
    archive(has, value.value, value.inclusive);
    if constexpr (!std::is_const_v<Self>) {
      bound->reset();
      if (has) *bound = value;
    }
  }
  archive(range.attribute);
}

template <typename Archive, typename Self>
requires Is<Self, MatchCondition>
void Fields(Archive& archive, Self& match) {
  archive(match.attribute, match.any_of);
}

template <typename Archive, typename Self>
requires Is<Self, HasAttributeCondition>
void Fields(Archive& archive, Self& has) { archive(has.attribute); }

template <typename Archive, typename Self>
requires Is<Self, IdCondition>
void Fields(Archive& archive, Self& condition) { archive(condition.ids); }

template <typename Archive, typename Self>
requires Is<Self, Filter>
void Fields(Archive& archive, Self& filter) {
  archive(filter.must, filter.should, filter.must_not);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansRequest>
void Fields(Archive& archive, Self& r) {
  archive(r.collection, r.name, r.options, r.initial_clustering, r.filter,
          r.weight_attribute, r.skip_missing, r.threads, r.checkpoint_every,
          r.label_attribute, r.replace);
}

template <typename Archive, typename Self>
requires Is<Self, CommunicationCost>
void Fields(Archive& archive, Self& c) {
  archive(c.messages, c.bytes_sent, c.bytes_received, c.measured_seconds,
          c.compute_seconds, c.predicted_seconds, c.ratio, c.bytes_saved);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansReport>
void Fields(Archive& archive, Self& r) {
  archive(r.progress, r.statistics_bytes_down, r.statistics_bytes_up, r.cost,
          r.seconds);
}

template <typename Archive, typename Self>
requires Is<Self, SgdRequest>
void Fields(Archive& archive, Self& r) {
  archive(r.collection, r.name, r.options, r.filter, r.label_attribute,
          r.skip_missing, r.threads, r.checkpoint_every, r.report_every,
          r.replace);
}

template <typename Archive, typename Self>
requires Is<Self, SgdReport>
void Fields(Archive& archive, Self& r) {
  archive(r.progress, r.global_batch, r.shards, r.staleness, r.cost, r.seconds);
}

template <typename Archive, typename Self>
requires Is<Self, BlobRef>
void Fields(Archive& archive, Self& b) {
  archive(b.generation, b.bytes, b.checksum);
}

template <typename Archive, typename Self>
requires Is<Self, JobInfo>
void Fields(Archive& archive, Self& i) {
  auto code = static_cast<int32_t>(i.status.code());
  std::string message(i.status.message());
  archive(i.kind, i.state, code, message, i.epoch, i.owner, i.last,
          i.iterations, i.checkpoint_iteration);
  if constexpr (!std::is_const_v<Self>) {
    i.status = absl::Status(static_cast<absl::StatusCode>(code), message);
  }
}

template <typename Archive, typename Self>
requires Is<Self, JobRecord>
void Fields(Archive& archive, Self& r) {
  archive(r.info, r.request, r.checkpoint, r.rows_missing, r.seconds,
          r.bytes_sent, r.bytes_received);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansResult>
void Fields(Archive& archive, Self& r) {
  archive(r.centres, r.weights, r.active, r.non_empty, r.objective,
          r.iterations, r.run, r.stop, r.quality);
}

template <typename Archive, typename Self>
requires Is<Self, Clustering>
void Fields(Archive& archive, Self& c) {
  archive(c.collection, c.name, c.metric, c.dimension, c.rows, c.rows_missing,
          c.seed, c.result, c.labelled, c.seconds, c.bytes_sent,
          c.bytes_received, c.warnings);
}

template <typename Archive, typename Self>
requires Is<Self, TrainedModel>
void Fields(Archive& archive, Self& m) {
  archive(m.collection, m.name, m.model, m.parameters, m.stop, m.last, m.rows,
          m.rows_missing, m.seed, m.workers, m.first_step, m.smoothness,
          m.block_fraction, m.seconds, m.bytes_sent, m.bytes_received,
          m.warnings);
}

namespace {

template <typename T>
std::string Encode(const T& value) {
  ByteWriter writer;
  writer(kFormat, value);
  return writer.Finish();
}

template <typename T>
absl::StatusOr<T> Decode(absl::string_view what, absl::string_view bytes) {
  ByteParser parser(bytes);
  uint8_t format = 0;
  T value;
  parser(format, value);
  if (format != kFormat) parser.Fail();
  const absl::Status status = parser.Finish(what);
  if (!status.ok()) return status;
  return value;
}

}  // namespace

std::string EncodeJobRecord(const JobRecord& record) { return Encode(record); }

absl::StatusOr<JobRecord> DecodeJobRecord(absl::string_view bytes) {
  return Decode<JobRecord>("job record", bytes);
}

std::string EncodeClustering(const Clustering& clustering) {
  return Encode(clustering);
}

absl::StatusOr<Clustering> DecodeClustering(absl::string_view bytes) {
  auto clustering = Decode<Clustering>("clustering", bytes);
  if (!clustering.ok()) return clustering;
  const KMeansResult& result = clustering->result;
  const size_t k = result.weights.size();
  if (clustering->dimension < 1 || result.active.size() != k ||
      result.centres.size() != k * static_cast<size_t>(clustering->dimension)) {
    return absl::DataLossError("clustering: its centres do not fit its size");
  }
  return clustering;
}

std::string EncodeTrainedModel(const TrainedModel& model) {
  return Encode(model);
}

absl::StatusOr<TrainedModel> DecodeTrainedModel(absl::string_view bytes) {
  auto model = Decode<TrainedModel>("model", bytes);
  if (!model.ok()) return model;
  if (!ValidateSgdModel(model->model).ok() ||
      static_cast<int64_t>(model->parameters.size()) !=
          SgdParameters(model->model)) {
    return absl::DataLossError("model: its parameters do not fit its shape");
  }
  return model;
}

std::string EncodeBlobRef(const BlobRef& blob) { return Encode(blob); }

absl::StatusOr<BlobRef> DecodeBlobRef(absl::string_view bytes) {
  return Decode<BlobRef>("reference", bytes);
}

std::vector<std::string> WarningsOf(const KMeansOptions& options,
                                    const Clustering& clustering) {
  std::vector<std::string> warnings;
  const KMeansResult& result = clustering.result;
  const auto k = static_cast<int64_t>(result.weights.size());
  if (result.non_empty < k) {
    warnings.push_back(
        absl::StrCat(k - result.non_empty, " of ", k,
                     " clusters have no row: there are fewer distinct rows, "
                     "or the policy leaves them empty"));
  }
  if (result.stop == KMeansStop::kMaxIterations) {
    warnings.push_back(
        absl::StrCat("stopped after max_iterations = ", options.max_iterations,
                     " before it converged"));
  }
  if (clustering.metric == Metric::kInnerProduct) {
    warnings.push_back(
        "the collection's metric is INNER_PRODUCT; clusters minimise squared "
        "Euclidean distances");
  }
  if (options.form == KMeansSumForm::kFloat32) {
    warnings.push_back(
        "sums travelled as float32: the result depends on the number of "
        "shards");
  }
  if (clustering.rows_missing > 0) {
    warnings.push_back(absl::StrCat(clustering.rows_missing,
                                    " rows without weight were left out"));
  }
  return warnings;
}

}  // namespace coterie
