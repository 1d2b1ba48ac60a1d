// A scan of a remote shard as a PointStream.
//
// One page is asked for at a time, so what waits unread is bounded by one page
// and gRPC's flow control. Destroying the stream ends the RPC.

#ifndef COTERIE_COORDINATOR_REMOTE_SCAN_H_
#define COTERIE_COORDINATOR_REMOTE_SCAN_H_

#include <memory>

#include "api/call.h"
#include "api/shard_messages.h"
#include "coordinator/shard_client.h"
#include "coordinator/shard_link.h"

namespace coterie {

std::unique_ptr<PointStream> StartRemoteScan(std::shared_ptr<ShardLink> link,
                                             const ScanRequest& request,
                                             CallContext call);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_REMOTE_SCAN_H_
