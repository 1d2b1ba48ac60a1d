// The public services of a coordinator, for a gRPC server.
//
// Thread-safe, as gRPC needs. Slot and coordinator outlive them; they outlive
// the server they are registered with.

#ifndef COTERIE_COORDINATOR_SERVICES_H_
#define COTERIE_COORDINATOR_SERVICES_H_

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "api/limits.h"
#include "api/rpc_call.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class Services {
 public:
  virtual ~Services() = default;
  // Every public service, to be registered.
  virtual std::vector<grpc::Service*> all() = 0;
};

// Each RPC takes the coordinator that is in the slot as it begins, and fails
// with the slot's reason if there is none; Describe answers all the same.
std::unique_ptr<Services> MakeServices(const CoordinatorSlot& slot,
                                       RpcOptions options, std::string version);

// What the process says of itself.
struct ServiceInfo {
  std::string version;       // release and build
  std::string cluster_uuid;  // of the data it serves
};

// Over one coordinator for good. `observer`, if any, is told of every RPC as it
// ends.
std::unique_ptr<Services> MakeServices(Coordinator* coordinator,
                                       const Limits& limits, ServiceInfo info,
                                       RpcObserver observer = nullptr);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SERVICES_H_
