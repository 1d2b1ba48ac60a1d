// One UpsertStream RPC: items read, upserted and answered, a bounded number of
// them at a time.
//
// Made by `new`; deletes itself when gRPC is done with it. Callbacks come on
// any thread. An item counts as in work from the moment it is read until its
// answer has been taken by gRPC, and while kItemsInWork are, nothing is read:
// so neither a slow disk nor a client that reads no answers costs more than
// that many items of memory. Each item's bytes are charged to the budget.

#ifndef COTERIE_COORDINATOR_UPSERT_STREAM_H_
#define COTERIE_COORDINATOR_UPSERT_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>

#include "api/rpc_call.h"
#include "api/v1/points.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

inline constexpr int64_t kItemsInWork = 8;

using UpsertStreamReactor =
    grpc::ServerBidiReactor<v1::UpsertStreamRequest, v1::UpsertStreamResponse>;

// Starts the RPC. `slot` outlives it.
UpsertStreamReactor* StartUpsertStream(grpc::CallbackServerContext* context,
                                       const CoordinatorSlot& slot,
                                       const RpcOptions& options);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_UPSERT_STREAM_H_
