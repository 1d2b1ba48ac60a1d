// coterie.v1.ShardService of a shard that may still be loading: gRPC wants its
// services before the server listens, and the shard comes later.
//
// Thread-safe. Until the shard is there, Describe answers LOADING under the
// shard's identity and everything else is UNAVAILABLE, naming the shard; then
// calls go to the shard's own service.

#ifndef COTERIE_SERVER_LATE_SHARD_SERVICE_H_
#define COTERIE_SERVER_LATE_SHARD_SERVICE_H_

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "api/rpc_call.h"
#include "api/shard_messages.h"
#include "shard/shard.h"

namespace coterie {

class LateShardService {
 public:
  virtual ~LateShardService() = default;
  // To be registered; owned here.
  virtual grpc::Service* service() = 0;
  // To be called once. The shard outlives this.
  virtual void Serve(Shard* shard) = 0;
};

// `loading` is what Describe says until then.
std::unique_ptr<LateShardService> MakeLateShardService(ShardDescription loading,
                                                       RpcOptions options);

}  // namespace coterie

#endif  // COTERIE_SERVER_LATE_SHARD_SERVICE_H_
