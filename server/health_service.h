// grpc.health.v1.Health over a Health.
//
// Thread-safe. gRPC's own default service says SERVING between start and the
// first word of the application, and keeps its Watch streams open through a
// drain; this one does neither. An unknown name is NOT_FOUND to Check and
// SERVICE_UNKNOWN, until it appears, to Watch.

#ifndef COTERIE_SERVER_HEALTH_SERVICE_H_
#define COTERIE_SERVER_HEALTH_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "server/health.h"

namespace coterie {

class HealthService {
 public:
  virtual ~HealthService() = default;
  // To be registered; owned here.
  virtual grpc::Service* service() = 0;
  // Ends every Watch with UNAVAILABLE, now and from now on.
  virtual void EndWatches() = 0;
};

// `health` outlives it; it outlives the server it is registered with.
std::unique_ptr<HealthService> MakeHealthService(Health* health);

}  // namespace coterie

#endif  // COTERIE_SERVER_HEALTH_SERVICE_H_
