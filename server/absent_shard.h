// A shard that has not been seen yet: every call is UNAVAILABLE, at once.
//
// Thread-safe.

#ifndef COTERIE_SERVER_ABSENT_SHARD_H_
#define COTERIE_SERVER_ABSENT_SHARD_H_

#include <cstdint>
#include <memory>

#include "coordinator/shard_client.h"

namespace coterie {

std::shared_ptr<ShardClient> MakeAbsentShard(int32_t shard_id);

}  // namespace coterie

#endif  // COTERIE_SERVER_ABSENT_SHARD_H_
