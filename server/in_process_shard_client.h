// A ShardClient whose shard lives in this process: calls, no wire.
// Thread-safe. Used by the all-in-one role and by tests.

#ifndef COTERIE_SERVER_IN_PROCESS_SHARD_CLIENT_H_
#define COTERIE_SERVER_IN_PROCESS_SHARD_CLIENT_H_

#include <memory>

#include "coordinator/shard_client.h"
#include "shard/shard.h"

namespace coterie {

// The client shares ownership: a shard outlives the calls made on it.
// `shard_id` must be the one the shard was opened with.
std::shared_ptr<ShardClient> MakeInProcessShardClient(
    int32_t shard_id, std::shared_ptr<Shard> shard);

}  // namespace coterie

#endif  // COTERIE_SERVER_IN_PROCESS_SHARD_CLIENT_H_
