// The public services of a coordinator, for a gRPC server.
//
// Thread-safe, as gRPC needs. The coordinator outlives them; they outlive the
// server they are registered with.

#ifndef COTERIE_COORDINATOR_SERVICES_H_
#define COTERIE_COORDINATOR_SERVICES_H_

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <vector>

#include "api/limits.h"
#include "api/rpc_call.h"
#include "coordinator/cluster_service.h"
#include "coordinator/coordinator.h"

namespace coterie {

class Services {
 public:
  virtual ~Services() = default;
  // Collection, point, search and cluster service, to be registered.
  virtual std::vector<grpc::Service*> all() = 0;
};

// `observer`, if any, is told of every RPC as it ends.
std::unique_ptr<Services> MakeServices(Coordinator* coordinator,
                                       const Limits& limits, ServiceInfo info,
                                       RpcObserver observer = nullptr);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SERVICES_H_
