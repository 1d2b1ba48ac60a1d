// State of the cluster, as coterie.v1.ClusterService (api/v1/cluster.proto has
// the contract). Thread-safe; the coordinator outlives it.

#ifndef COTERIE_COORDINATOR_CLUSTER_SERVICE_H_
#define COTERIE_COORDINATOR_CLUSTER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "api/rpc_call.h"
#include "api/stopwatch.h"
#include "api/v1/cluster.grpc.pb.h"
#include "coordinator/coordinator.h"

namespace coterie {

// What the process says of itself.
struct ServiceInfo {
  std::string version;       // release and build
  std::string cluster_uuid;  // of the data it serves
};

class CoordinatorClusterService final
    : public v1::ClusterService::CallbackService {
 public:
  // Uptime counts from here.
  CoordinatorClusterService(Coordinator* coordinator, RpcOptions options,
                            ServiceInfo info)
      : coordinator_(coordinator),
        options_(std::move(options)),
        info_(std::move(info)) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;

 private:
  Coordinator* const coordinator_;
  const RpcOptions options_;
  const ServiceInfo info_;
  const Stopwatch uptime_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_CLUSTER_SERVICE_H_
