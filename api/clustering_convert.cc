#include "api/clustering_convert.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "api/attribute_convert.h"
#include "api/collection.h"
#include "api/grpc_status.h"
#include "api/points_convert.h"
#include "api/search_convert.h"
#include "api/status_details.h"

namespace coterie {
namespace {

using Train = v1::TrainKMeansRequest;

constexpr int64_t kDefaultBatchRows = 1024;
constexpr double kDefaultTolerance = 1e-4;

template <typename T>
absl::Status InRange(absl::string_view field, T value, T least, T most) {
  // NaN is outside.
  if (value >= least && value <= most) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat(value, " is not in ", least, "..", most));
}

absl::Status NoChoice(absl::string_view field, int value) {
  return InvalidField(field, absl::StrCat(value, " is no choice"));
}

// The fields that choose among things.
absl::Status DecodeChoices(const Train& request, KMeansOptions* options) {
  switch (request.algorithm()) {
    case Train::ALGORITHM_UNSPECIFIED:
    case Train::AUTO:
    case Train::HAMERLY:
      break;
    case Train::LLOYD:
      options->algorithm = KMeansAlgorithm::kLloyd;
      break;
    case Train::ELKAN:
      options->algorithm = KMeansAlgorithm::kElkan;
      break;
    case Train::MINI_BATCH:
      options->batch_rows =
          request.batch_rows() == 0 ? kDefaultBatchRows : request.batch_rows();
      break;
    case Train::HARTIGAN:
      options->polish = KMeansPolish::kHartigan;
      break;
    case Train::HARTIGAN_WONG:
      options->polish = KMeansPolish::kHartiganWong;
      break;
    default:
      return NoChoice("algorithm", request.algorithm());
  }
  if (request.algorithm() != Train::MINI_BATCH && request.batch_rows() != 0) {
    return InvalidField("batch_rows", "is for MINI_BATCH alone");
  }
  if (!Train::EmptyClusters_IsValid(request.empty_clusters())) {
    return NoChoice("empty_clusters", request.empty_clusters());
  }
  // From 1 in the same order.
  if (request.empty_clusters() != Train::EMPTY_CLUSTERS_UNSPECIFIED) {
    options->empty = static_cast<KMeansEmptyPolicy>(request.empty_clusters());
  }
  if (!Train::Sums_IsValid(request.sums())) {
    return NoChoice("sums", request.sums());
  }
  if (request.sums() != Train::SUMS_UNSPECIFIED) {
    options->form = static_cast<KMeansSumForm>(request.sums());
  }
  return absl::OkStatus();
}

absl::Status DecodeInit(const Train& request, const Limits& limits,
                        KMeansRequest* out) {
  KMeansOptions& options = out->options;
  const bool centroids = request.initial_centroids_size() > 0;
  const bool stored = !request.initial_clustering().empty();
  if (!Train::Init_IsValid(request.init())) {
    return NoChoice("init", request.init());
  }
  if (centroids && stored) {
    return InvalidField("initial_clustering",
                        "initial_centroids are given as well");
  }
  const bool given =
      request.init() == Train::GIVEN ||
      (request.init() == Train::INIT_UNSPECIFIED && (centroids || stored));
  if (given != (centroids || stored)) {
    return InvalidField("init", given ? "GIVEN without initial centroids"
                                      : "initial centroids without GIVEN");
  }
  if (request.init() != Train::INIT_UNSPECIFIED) {
    options.seeding = static_cast<KMeansSeeding>(request.init());
  }
  if (given) options.seeding = KMeansSeeding::kGiven;
  if (stored) {
    const absl::Status name =
        ValidateCollectionName(request.initial_clustering(), limits);
    if (!name.ok()) return InvalidField("initial_clustering", name.message());
    out->initial_clustering = request.initial_clustering();
  }
  if (options.k == 0) options.k = request.initial_centroids_size();
  size_t dimension = 0;
  for (int i = 0; i < request.initial_centroids_size(); ++i) {
    const std::string field = absl::StrCat("initial_centroids[", i, "]");
    const auto vector =
        DecodeVector(request.initial_centroids(i), field, limits);
    if (!vector.ok()) return vector.status();
    if (i == 0) dimension = vector->size();
    if (vector->size() != dimension) {
      return InvalidField(field, absl::StrCat("dimension ", vector->size(),
                                              ", the first has ", dimension));
    }
    options.given.insert(options.given.end(), vector->begin(), vector->end());
  }
  return absl::OkStatus();
}

absl::Status DecodeNumbers(const Train& request, KMeansRequest* out) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  KMeansOptions& options = out->options;
  const absl::Status checks[] = {
      InRange<int64_t>("k", request.k(), 0, (int64_t{1} << 31) - 1),
      InRange<int64_t>("n_init", request.n_init(), 0, 1000000),
      InRange<int64_t>("max_iterations", request.max_iterations(), 0, kMost),
      InRange("tolerance", request.tolerance(), 0.0, 1e300),
      InRange("relative_tolerance", request.relative_tolerance(), 0.0, 1.0),
      InRange<int64_t>("batch_rows", request.batch_rows(), 0, kMost),
      InRange<int64_t>("threads_per_shard", request.threads_per_shard(), 0,
                       1 << 16),
      InRange<int64_t>("checkpoint_every", request.checkpoint_every(), 0,
                       kMost),
      InRange<int64_t>("silhouette_rows", request.silhouette_rows(), 0, kMost),
  };
  for (const absl::Status& check : checks) {
    if (!check.ok()) return check;
  }
  options.k = request.k();
  if (request.n_init() != 0) options.runs = request.n_init();
  if (request.max_iterations() != 0) {
    options.max_iterations = request.max_iterations();
  }
  options.tolerance =
      request.has_tolerance() ? request.tolerance() : kDefaultTolerance;
  options.relative_tolerance = request.relative_tolerance();
  options.seed = request.seed();
  options.measure = request.measure();
  options.silhouette_rows = request.silhouette_rows();
  if (request.silhouette_rows() > 0) options.measure = true;
  out->threads = request.threads_per_shard();
  if (request.checkpoint_every() != 0) {
    out->checkpoint_every = request.checkpoint_every();
  }
  return absl::OkStatus();
}

v1::Clustering::Stop StopOf(KMeansStop stop) {
  return static_cast<v1::Clustering::Stop>(stop);  // the same numbers
}

}  // namespace

absl::StatusOr<KMeansRequest> DecodeTrainKMeans(const Train& request,
                                                const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  status = ValidateCollectionName(request.name(), limits);
  if (!status.ok()) return InvalidField("name", status.message());
  KMeansRequest out;
  out.collection = request.collection();
  out.name = request.name();
  out.skip_missing = request.skip_missing();
  out.weight_attribute = request.weight_attribute();
  out.label_attribute = request.label_attribute();
  out.replace = request.replace();
  for (const auto& [field, key] :
       {std::pair("weight_attribute", &out.weight_attribute),
        std::pair("label_attribute", &out.label_attribute)}) {
    if (key->empty()) continue;
    status = CheckAttributeKey(*key, field, limits);
    if (!status.ok()) return status;
  }
  auto filter = DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  out.filter = *std::move(filter);
  status = DecodeNumbers(request, &out);
  if (status.ok()) status = DecodeChoices(request, &out.options);
  if (status.ok()) status = DecodeInit(request, limits, &out);
  if (!status.ok()) return status;
  if (out.options.k < 1 && out.initial_clustering.empty()) {
    return InvalidField("k", absl::StrCat(out.options.k, " is less than 1"));
  }
  return out;
}

absl::StatusOr<AssignRequest> DecodeAssign(const v1::AssignRequest& request,
                                           const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  status = ValidateCollectionName(request.clustering(), limits);
  if (!status.ok()) return InvalidField("clustering", status.message());
  AssignRequest out;
  out.collection = request.collection();
  out.clustering = request.clustering();
  const int64_t points = request.ids_size() + request.vectors_size();
  if (request.ids_size() > 0 && request.vectors_size() > 0) {
    return InvalidField("vectors", "ids are given as well");
  }
  if (points < 1)
    return InvalidField("ids", "there are neither ids nor vectors");
  if (points > limits.ids_per_request) {
    return OverLimit(request.ids_size() > 0 ? "ids" : "vectors", points,
                     "ids_per_request", limits.ids_per_request);
  }
  if (request.top_m() < 0) {
    return InvalidField("top_m", absl::StrCat(request.top_m(), " is negative"));
  }
  if (request.top_m() > limits.k) {
    return OverLimit("top_m", request.top_m(), "k", limits.k);
  }
  if (request.top_m() != 0) out.top_m = request.top_m();
  if (points * out.top_m > limits.queries_times_k) {
    return OverLimit("top_m", points * out.top_m, "queries_times_k",
                     limits.queries_times_k);
  }
  out.ids.assign(request.ids().begin(), request.ids().end());
  for (int i = 0; i < request.vectors_size(); ++i) {
    auto vector = DecodeVector(request.vectors(i),
                               absl::StrCat("vectors[", i, "]"), limits);
    if (!vector.ok()) return vector.status();
    out.vectors.push_back(*std::move(vector));
  }
  return out;
}

void EncodeAssign(const std::vector<AssignedPoint>& points,
                  v1::AssignResponse* out) {
  for (const AssignedPoint& point : points) {
    v1::Assignment* assignment = out->add_assignments();
    assignment->set_found(!point.nearest.empty());
    for (const AssignedPoint::Near& near : point.nearest) {
      assignment->add_clusters(static_cast<int32_t>(near.cluster));
      assignment->add_distances(near.distance);
    }
  }
}

void EncodeReport(const KMeansReport& report, v1::KMeansProgress* out) {
  const KMeansProgress& p = report.progress;
  out->set_run(p.run);
  out->set_iteration(p.iteration);
  out->set_inertia(p.objective);
  out->set_points_moved(p.moved);
  out->set_centroid_shift(std::sqrt(p.shift_squared));
  out->set_empty_clusters(p.empty);
  out->set_relocated_clusters(p.relocated);
  out->set_distances_computed(p.evaluated);
  out->set_distances_skipped(p.skipped);
  out->set_statistics_bytes_down(report.statistics_bytes_down);
  out->set_statistics_bytes_up(report.statistics_bytes_up);
  EncodeCost(report.cost, out->mutable_cost());
  out->set_seconds(report.seconds);
}

void EncodeClustering(const Clustering& clustering, v1::Clustering* out) {
  const KMeansResult& result = clustering.result;
  out->set_collection(clustering.collection);
  out->set_name(clustering.name);
  out->set_metric(static_cast<v1::Metric>(clustering.metric));
  out->set_dimension(clustering.dimension);
  const auto d = static_cast<size_t>(clustering.dimension);
  for (size_t j = 0; j < result.weights.size(); ++j) {
    v1::Cluster* cluster = out->add_clusters();
    EncodeVector(VectorView(result.centres.data() + j * d, d),
                 cluster->mutable_centroid());
    cluster->set_weight(result.weights[j]);
    cluster->set_inactive(result.active[j] == 0);
    if (j < result.quality.objectives.size()) {
      cluster->set_inertia(result.quality.objectives[j]);
    }
    if (j < result.quality.mean_radii.size()) {
      cluster->set_mean_radius(result.quality.mean_radii[j]);
    }
  }
  out->set_inertia(result.objective);
  out->set_non_empty_clusters(result.non_empty);
  out->set_iterations(result.iterations);
  out->set_run(result.run);
  out->set_stop(StopOf(result.stop));
  out->set_rows(clustering.rows);
  out->set_rows_missing(clustering.rows_missing);
  out->set_seed(clustering.seed);
  out->set_calinski_harabasz(result.quality.calinski_harabasz);
  out->set_davies_bouldin(result.quality.davies_bouldin);
  out->set_silhouette(result.quality.silhouette);
  out->set_imbalance(result.quality.imbalance);
  out->set_labelled(clustering.labelled);
  out->set_seconds(clustering.seconds);
  out->set_bytes_sent(clustering.bytes_sent);
  out->set_bytes_received(clustering.bytes_received);
  out->set_age_seconds(clustering.age_seconds);
  for (const std::string& warning : clustering.warnings) {
    out->add_warnings(warning);
  }
}

}  // namespace coterie
