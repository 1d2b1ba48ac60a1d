// Clusterings and jobs, as coterie.v1.ClusteringService and JobService
// (api/v1/clustering.proto and jobs.proto have the contract). Thread-safe; the
// slot outlives them.

#ifndef COTERIE_COORDINATOR_CLUSTERING_SERVICE_H_
#define COTERIE_COORDINATOR_CLUSTERING_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "api/rpc_call.h"
#include "api/v1/clustering.grpc.pb.h"
#include "api/v1/jobs.grpc.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class CoordinatorClusteringService final
    : public v1::ClusteringService::CallbackService {
 public:
  CoordinatorClusteringService(const CoordinatorSlot& slot, RpcOptions options)
      : slot_(slot), options_(std::move(options)) {}

  grpc::ServerWriteReactor<v1::TrainKMeansResponse>* TrainKMeans(
      grpc::CallbackServerContext* context,
      const v1::TrainKMeansRequest* request) override;
  grpc::ServerUnaryReactor* Assign(grpc::CallbackServerContext* context,
                                   const v1::AssignRequest* request,
                                   v1::AssignResponse* response) override;
  grpc::ServerUnaryReactor* GetClustering(
      grpc::CallbackServerContext* context,
      const v1::GetClusteringRequest* request,
      v1::GetClusteringResponse* response) override;
  grpc::ServerUnaryReactor* ListClusterings(
      grpc::CallbackServerContext* context,
      const v1::ListClusteringsRequest* request,
      v1::ListClusteringsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteClustering(
      grpc::CallbackServerContext* context,
      const v1::DeleteClusteringRequest* request,
      v1::DeleteClusteringResponse* response) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
};

class CoordinatorJobService final : public v1::JobService::CallbackService {
 public:
  CoordinatorJobService(const CoordinatorSlot& slot, RpcOptions options)
      : slot_(slot), options_(std::move(options)) {}

  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(
      grpc::CallbackServerContext* context,
      const v1::WatchJobRequest* request) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext* context,
                                      const v1::CancelJobRequest* request,
                                      v1::CancelJobResponse* response) override;
  grpc::ServerWriteReactor<v1::JobEvent>* ResumeJob(
      grpc::CallbackServerContext* context,
      const v1::ResumeJobRequest* request) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_CLUSTERING_SERVICE_H_
