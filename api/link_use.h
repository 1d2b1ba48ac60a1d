// What one call to a shard put on the link between them. Plain data.

#ifndef COTERIE_API_LINK_USE_H_
#define COTERIE_API_LINK_USE_H_

#include <cstdint>

namespace coterie {

// All zero for a call within the process: no byte left it.
struct LinkUse {
  // Of requests and replies, as api/wire_counters.h counts them.
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  // The shard's part of the round trip, waiting included.
  double shard_seconds = 0;

  int64_t bytes() const { return bytes_sent + bytes_received; }
};

}  // namespace coterie

#endif  // COTERIE_API_LINK_USE_H_
