#include "api/job_info_convert.h"

#include <variant>

#include "api/clustering_convert.h"
#include "api/grpc_status.h"
#include "api/training_convert.h"

namespace coterie {
void EncodeJob(const JobInfo& job, v1::Job* out) {
  out->set_collection(job.collection);
  out->set_name(job.name);
  out->set_kind(static_cast<v1::JobKind>(job.kind));
  out->set_state(static_cast<v1::Job::State>(job.state));
  if (!job.status.ok()) *out->mutable_error() = ToRpcStatus(job.status);
  out->set_owner_epoch(job.epoch);
  out->set_owner(job.owner);
  if (const auto* kmeans = std::get_if<KMeansReport>(&job.last)) {
    if (kmeans->progress.iteration > 0) {
      EncodeReport(*kmeans, out->mutable_kmeans_progress());
    }
  } else if (const auto* sgd = std::get_if<SgdReport>(&job.last)) {
    if (sgd->progress.update > 0) {
      EncodeSgdReport(*sgd, out->mutable_sgd_report());
    }
  }
  out->set_iterations(job.iterations);
  out->set_checkpoint_iterations(job.checkpoint_iteration);
  out->set_age_seconds(job.age_seconds);
}

void EncodeEvent(const JobEvent& event, v1::TrainKMeansResponse* out) {
  if (const auto* report = std::get_if<KMeansReport>(&event.what)) {
    EncodeReport(*report, out->mutable_progress());
  } else if (const auto* result = std::get_if<Clustering>(&event.what)) {
    EncodeClustering(*result, out->mutable_result());
  }
}

void EncodeEvent(const JobEvent& event, v1::TrainSgdResponse* out) {
  if (const auto* report = std::get_if<SgdReport>(&event.what)) {
    EncodeSgdReport(*report, out->mutable_report());
  } else if (const auto* result = std::get_if<TrainedModel>(&event.what)) {
    EncodeTrainedModel(*result, false, out->mutable_model());
  }
}

void EncodeEvent(const JobEvent& event, v1::JobEvent* out) {
  if (const auto* report = std::get_if<KMeansReport>(&event.what)) {
    EncodeReport(*report, out->mutable_kmeans_progress());
  } else if (const auto* result = std::get_if<Clustering>(&event.what)) {
    EncodeClustering(*result, out->mutable_kmeans_result());
  } else if (const auto* sgd = std::get_if<SgdReport>(&event.what)) {
    EncodeSgdReport(*sgd, out->mutable_sgd_report());
  } else if (const auto* model = std::get_if<TrainedModel>(&event.what)) {
    EncodeTrainedModel(*model, false, out->mutable_sgd_result());
  }
}

}  // namespace coterie
