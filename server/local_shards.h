// The shards of this process, one or all of a cluster's: loads them, then
// serves them through a coordinator.

#ifndef COTERIE_SERVER_LOCAL_SHARDS_H_
#define COTERIE_SERVER_LOCAL_SHARDS_H_

#include <memory>

#include "api/rpc_call.h"
#include "coordinator/coordinator_slot.h"
#include "server/backend.h"
#include "server/data_dir.h"
#include "server/health.h"
#include "server/options.h"

namespace coterie {

// Role "all": every shard of `dir`. Role "shard": the one of options.shard_id,
// with its service for coordinators, and a coordinator that sees its rows only.
// `rpc` is for that service. `slot` and `health` outlive it.
std::unique_ptr<Backend> MakeLocalShards(const ServerOptions& options,
                                         DataDir dir, const RpcOptions& rpc,
                                         CoordinatorSlot* slot, Health* health);

}  // namespace coterie

#endif  // COTERIE_SERVER_LOCAL_SHARDS_H_
