// coterie.v1.ShardService over a shard: what its coordinators call.
//
// Thread-safe. Thin: decodes, calls, encodes; the shard does the work on its
// own threads. The gRPC deadline and the caller's cancellation reach the shard
// with the call. A request for another shard or cluster is refused before
// anything is done. Scans send a page when gRPC has taken the one before. A
// reply over limits.message_bytes is RESOURCE_EXHAUSTED naming it.

#ifndef COTERIE_SHARD_SHARD_SERVICE_H_
#define COTERIE_SHARD_SHARD_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "api/limits.h"
#include "api/rpc_call.h"
#include "shard/shard.h"

namespace coterie {

// The shard outlives the service, and is stopped before it is destroyed: RPCs
// that have ended may leave work behind on it. The observer sees methods as
// "ShardService/Search".
std::unique_ptr<grpc::Service> MakeShardService(Shard* shard,
                                                RpcOptions options);
std::unique_ptr<grpc::Service> MakeShardService(Shard* shard,
                                                const Limits& limits);

}  // namespace coterie

#endif  // COTERIE_SHARD_SHARD_SERVICE_H_
