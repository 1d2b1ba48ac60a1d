// ShardService.SgdSteps: steps of a job and their answers over one stream, one
// after the other.
//
// Objects are made by `new` and delete themselves when gRPC is done with them.
// A step that fails ends the stream with its status.

#ifndef COTERIE_SHARD_STEP_STREAM_H_
#define COTERIE_SHARD_STEP_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "api/rpc_call.h"
#include "api/v1/shard.grpc.pb.h"
#include "shard/shard.h"

namespace coterie {

using StepStreamReactor =
    grpc::ServerBidiReactor<v1::JobStepRequest, v1::JobStepResponse>;

// `shard` outlives the stream.
StepStreamReactor* StartStepStream(Shard* shard, const RpcOptions& options);
// One that ends at once.
StepStreamReactor* RefuseStepStream(const absl::Status& status,
                                    const RpcOptions& options);

}  // namespace coterie

#endif  // COTERIE_SHARD_STEP_STREAM_H_
