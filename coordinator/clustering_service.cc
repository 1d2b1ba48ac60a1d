#include "coordinator/clustering_service.h"

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
  return Handle(rpc, *request, slot_, options_.limits, DecodeTrainKMeans,
                [rpc](Coordinator& coordinator, KMeansRequest decoded) {
                  SendEvents(rpc, coordinator.jobs().Train(std::move(decoded),
                                                           rpc->call()));
                });
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::Assign(
    grpc::CallbackServerContext* context, const v1::AssignRequest* request,
    v1::AssignResponse* response) {
  auto* rpc = new UnaryCall(context, response, "ClusteringService/Assign",
                            kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeAssign,
      [rpc, response](Coordinator& coordinator, AssignRequest decoded) {
        coordinator.jobs().Assign(
            std::move(decoded), rpc->call(),
            rpc->Replier<std::vector<AssignedPoint>>(
                [response](std::vector<AssignedPoint> points) {
                  EncodeAssign(points, response);
                }));
      });
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::GetClustering(
    grpc::CallbackServerContext* context,
    const v1::GetClusteringRequest* request,
    v1::GetClusteringResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "ClusteringService/GetClustering",
                    kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeName{},
      [rpc, response](Coordinator& coordinator, const JobName& of) {
        coordinator.jobs().GetClustering(
            of.collection, of.name, rpc->call(),
            rpc->Replier<Clustering>([response](Clustering clustering) {
              EncodeClustering(clustering, response->mutable_clustering());
            }));
      });
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::ListClusterings(
    grpc::CallbackServerContext* context,
    const v1::ListClusteringsRequest* request,
    v1::ListClusteringsResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "ClusteringService/ListClusterings",
                    kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeCollectionReference{},
      [rpc, response](Coordinator& coordinator, const std::string& collection) {
        coordinator.jobs().ListResults(JobKind::kKMeans, collection,
                                       rpc->call(),
                                       NamesReplier(rpc, response));
      });
}

grpc::ServerUnaryReactor* CoordinatorClusteringService::DeleteClustering(
    grpc::CallbackServerContext* context,
    const v1::DeleteClusteringRequest* request,
    v1::DeleteClusteringResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "ClusteringService/DeleteClustering",
                    kWriteDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeName{},
                [rpc](Coordinator& coordinator, const JobName& of) {
                  coordinator.jobs().DeleteResult(
                      JobKind::kKMeans, of.collection, of.name, rpc->call(),
                      rpc->Replier<bool>([](bool) {}));
                });
}

// --- JobService -------------------------------------------------------------

namespace {

// None named: those of all collections.
absl::StatusOr<std::string> DecodeJobsOf(const v1::ListJobsRequest& request,
                                         const Limits& limits) {
  if (request.collection().empty()) return std::string();
  return DecodeCollectionReference{}(request, limits);
}

}  // namespace

grpc::ServerUnaryReactor* CoordinatorJobService::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  auto* rpc = new UnaryCall(context, response, "JobService/ListJobs",
                            kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeJobsOf,
      [rpc, response](Coordinator& coordinator, const std::string& collection) {
        coordinator.jobs().List(collection, rpc->call(),
                                rpc->Replier<std::vector<JobInfo>>(
                                    [response](std::vector<JobInfo> jobs) {
                                      for (const JobInfo& job : jobs) {
                                        EncodeJob(job, response->add_jobs());
                                      }
                                    }));
      });
}

grpc::ServerUnaryReactor* CoordinatorJobService::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::GetJobResponse* response) {
  auto* rpc = new UnaryCall(context, response, "JobService/GetJob",
                            kReadDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeName{},
                [rpc, response](Coordinator& coordinator, const JobName& of) {
                  coordinator.jobs().Get(
                      of.collection, of.name, rpc->call(),
                      rpc->Replier<JobInfo>([response](JobInfo job) {
                        EncodeJob(job, response->mutable_job());
                      }));
                });
}

grpc::ServerUnaryReactor* CoordinatorJobService::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::CancelJobResponse* response) {
  auto* rpc = new UnaryCall(context, response, "JobService/CancelJob",
                            kWriteDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeName{},
                [rpc, response](Coordinator& coordinator, const JobName& of) {
                  coordinator.jobs().Cancel(
                      of.collection, of.name, rpc->call(),
                      rpc->Replier<JobInfo>([response](JobInfo job) {
                        EncodeJob(job, response->mutable_job());
                      }));
                });
}

grpc::ServerWriteReactor<v1::JobEvent>* CoordinatorJobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  auto* rpc = new JobCall<v1::JobEvent>(context, "JobService/WatchJob",
                                        options_, absl::InfiniteDuration());
  return Handle(rpc, *request, slot_, options_.limits, DecodeName{},
                [rpc](Coordinator& coordinator, const JobName& of) {
                  SendEvents(rpc, coordinator.jobs().Watch(
                                      of.collection, of.name, rpc->call()));
                });
}

grpc::ServerWriteReactor<v1::JobEvent>* CoordinatorJobService::ResumeJob(
    grpc::CallbackServerContext* context, const v1::ResumeJobRequest* request) {
  auto* rpc = new JobCall<v1::JobEvent>(context, "JobService/ResumeJob",
                                        options_, absl::InfiniteDuration());
  return Handle(rpc, *request, slot_, options_.limits, DecodeName{},
                [rpc](Coordinator& coordinator, const JobName& of) {
                  SendEvents(rpc, coordinator.jobs().Resume(
                                      of.collection, of.name, rpc->call()));
                });
}

}  // namespace coterie
