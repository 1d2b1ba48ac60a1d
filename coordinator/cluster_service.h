// State of the cluster, as coterie.v1.ClusterService (api/v1/cluster.proto has
// the contract). Thread-safe; the slot outlives it.

#ifndef COTERIE_COORDINATOR_CLUSTER_SERVICE_H_
#define COTERIE_COORDINATOR_CLUSTER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "api/rpc_call.h"
#include "api/stopwatch.h"
#include "api/v1/cluster.grpc.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class CoordinatorClusterService final
    : public v1::ClusterService::CallbackService {
 public:
  // `version`: release and build. Uptime counts from here.
  CoordinatorClusterService(const CoordinatorSlot& slot, RpcOptions options,
                            std::string version)
      : slot_(slot),
        options_(std::move(options)),
        version_(std::move(version)) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeResponse* response) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
  const std::string version_;
  const Stopwatch uptime_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_CLUSTER_SERVICE_H_
