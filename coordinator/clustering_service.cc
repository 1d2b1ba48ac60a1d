#include "coordinator/clustering_service.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/clustering.h"
#include "api/clustering_convert.h"
#include "api/collection.h"
#include "api/job_info.h"
#include "api/job_info_convert.h"
#include "coordinator/job_call.h"
#include "coordinator/jobs.h"

namespace coterie {

// --- ClusteringService ------------------------------------------------------

grpc::ServerWriteReactor<v1::TrainKMeansResponse>*
CoordinatorClusteringService::TrainKMeans(
    grpc::CallbackServerContext* context,
    const v1::TrainKMeansRequest* request) {
  auto* rpc = new JobCall<v1::TrainKMeansResponse>(
      context, "ClusteringService/TrainKMeans", options_,
      absl::InfiniteDuration());
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<KMeansRequest> decoded =
      DecodeTrainKMeans(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  return SendEvents(
      rpc, coordinator->jobs().Train(*std::move(decoded), rpc->call()));
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::Assign(
    grpc::CallbackServerContext* context, const v1::AssignRequest* request,
    v1::AssignResponse* response) {
  auto* rpc = new UnaryCall(context, response, "ClusteringService/Assign",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<AssignRequest> decoded =
      DecodeAssign(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->jobs().Assign(*std::move(decoded), rpc->call(),
                             rpc->Replier<std::vector<AssignedPoint>>(
                                 [response](std::vector<AssignedPoint> points) {
                                   EncodeAssign(points, response);
                                 }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::GetClustering(
    grpc::CallbackServerContext* context,
    const v1::GetClusteringRequest* request,
    v1::GetClusteringResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "ClusteringService/GetClustering",
                    kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().GetClustering(
      request->collection(), request->name(), rpc->call(),
      rpc->Replier<Clustering>([response](Clustering clustering) {
        EncodeClustering(clustering, response->mutable_clustering());
      }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::ListClusterings(
    grpc::CallbackServerContext* context,
    const v1::ListClusteringsRequest* request,
    v1::ListClusteringsResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "ClusteringService/ListClusterings",
                    kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named =
      ValidateCollectionReference(request->collection(), options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().ListResults(
      JobKind::kKMeans, request->collection(), rpc->call(),
      rpc->Replier<std::vector<std::string>>(
          [response](std::vector<std::string> names) {
            for (std::string& name : names) {
              response->add_names(std::move(name));
            }
          }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::DeleteClustering(
    grpc::CallbackServerContext* context,
    const v1::DeleteClusteringRequest* request,
    v1::DeleteClusteringResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "ClusteringService/DeleteClustering",
                    kWriteDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().DeleteResult(JobKind::kKMeans, request->collection(),
                                   request->name(), rpc->call(),
                                   rpc->Replier<bool>([](bool) {}));
  return rpc;
}

// --- JobService -------------------------------------------------------------

grpc::ServerUnaryReactor* CoordinatorJobService::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  auto* rpc = new UnaryCall(context, response, "JobService/ListJobs",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  if (!request->collection().empty()) {
    absl::Status named =
        ValidateCollectionReference(request->collection(), options_.limits);
    if (!named.ok()) {
      return rpc->Refuse(named);
    }
  }
  coordinator->jobs().List(
      request->collection(), rpc->call(),
      rpc->Replier<std::vector<JobInfo>>([response](std::vector<JobInfo> jobs) {
        for (const JobInfo& job : jobs) {
          EncodeJob(job, response->add_jobs());
        }
      }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorJobService::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::GetJobResponse* response) {
  auto* rpc = new UnaryCall(context, response, "JobService/GetJob",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().Get(request->collection(), request->name(), rpc->call(),
                          rpc->Replier<JobInfo>([response](JobInfo job) {
                            EncodeJob(job, response->mutable_job());
                          }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorJobService::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::CancelJobResponse* response) {
  auto* rpc = new UnaryCall(context, response, "JobService/CancelJob",
                            kWriteDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().Cancel(request->collection(), request->name(),
                             rpc->call(),
                             rpc->Replier<JobInfo>([response](JobInfo job) {
                               EncodeJob(job, response->mutable_job());
                             }));
  return rpc;
}

grpc::ServerWriteReactor<v1::JobEvent>* CoordinatorJobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  auto* rpc = new JobCall<v1::JobEvent>(context, "JobService/WatchJob",
                                        options_, absl::InfiniteDuration());
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  const absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  return SendEvents(
      rpc, coordinator->jobs().Watch(request->collection(), request->name(),
                                     rpc->call()));
}

grpc::ServerWriteReactor<v1::JobEvent>* CoordinatorJobService::ResumeJob(
    grpc::CallbackServerContext* context, const v1::ResumeJobRequest* request) {
  auto* rpc = new JobCall<v1::JobEvent>(context, "JobService/ResumeJob",
                                        options_, absl::InfiniteDuration());
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  const absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  return SendEvents(
      rpc, coordinator->jobs().Resume(request->collection(), request->name(),
                                      rpc->call()));
}

}  // namespace coterie
