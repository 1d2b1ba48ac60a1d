// A scan of a whole collection: the shards' scans, one after another.
//
// The stream is as thread-safe as any PointStream: one Next at a time. Nothing
// blocks. Each shard is read at one sequence, taken when its turn comes.

#ifndef COTERIE_COORDINATOR_SCAN_STREAM_H_
#define COTERIE_COORDINATOR_SCAN_STREAM_H_

#include <memory>

#include "api/call.h"
#include "api/shard_messages.h"
#include "coordinator/catalogue_store.h"
#include "coordinator/shard_client.h"

namespace coterie {

// The collection is looked up by the first Next; errors of shards name them.
// A page is handed on as it comes; at most one is held. request.limit is of
// the whole scan.
std::unique_ptr<PointStream> MakeScanStream(
    ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
    ScanRequest request, CallContext call);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SCAN_STREAM_H_
