// Where shards are now, as --shards says: a list, or a name with an address per
// shard (the headless Service of a StatefulSet).
//
// Not thread-safe.

#ifndef COTERIE_SERVER_SHARD_ADDRESSES_H_
#define COTERIE_SERVER_SHARD_ADDRESSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace coterie {

class ShardAddresses {
 public:
  virtual ~ShardAddresses() = default;
  // Whether the addresses are always all there are.
  virtual bool complete_list() const = 0;
  // Sorted, each once. Waits at most `timeout` for DNS: UNAVAILABLE naming the
  // name if it has not answered by then, or does not exist (yet).
  virtual absl::StatusOr<std::vector<std::string>> Resolve(
      absl::Duration timeout) = 0;
};

// REQUIRES: `shards` as ServerOptions has them.
std::unique_ptr<ShardAddresses> MakeShardAddresses(
    const std::vector<std::string>& shards);

}  // namespace coterie

#endif  // COTERIE_SERVER_SHARD_ADDRESSES_H_
