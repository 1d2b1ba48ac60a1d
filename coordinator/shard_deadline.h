// How long a shard is given for its part of a call.
//
// Stateless; any thread.

#ifndef COTERIE_COORDINATOR_SHARD_DEADLINE_H_
#define COTERIE_COORDINATOR_SHARD_DEADLINE_H_

#include <algorithm>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/call.h"

namespace coterie {

// The same call, ending earlier by `reserve` (by half of what remains, if that
// is less): so that what the shards said, or which of them said nothing,
// reaches the caller before the caller's own clock ends the call.
inline CallContext ShardCall(CallContext call, absl::Duration reserve) {
  if (call.deadline != absl::InfiniteFuture()) {
    const absl::Duration remaining =
        std::max(call.deadline - absl::Now(), absl::ZeroDuration());
    call.deadline -= std::min(reserve, remaining / 2);
  }
  return call;
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SHARD_DEADLINE_H_
