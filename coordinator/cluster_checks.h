// Whether shards are the one cluster that a coordinator takes them for.
//
// Stateless; any thread. FAILED_PRECONDITION naming shard and difference;
// UNAVAILABLE naming a shard that did not answer. O(shards).

#ifndef COTERIE_COORDINATOR_CLUSTER_CHECKS_H_
#define COTERIE_COORDINATOR_CLUSTER_CHECKS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "api/collection.h"
#include "api/shard_messages.h"
#include "coordinator/shard_client.h"

namespace coterie {

// That shard i stands at place i, and there is one.
absl::Status CheckIds(const std::vector<std::shared_ptr<ShardClient>>& shards);

// That what the shards say of themselves is one cluster of that many. With
// `partial`, shards that do not answer say nothing against it, but one has to.
// REQUIRES: shards is not empty.
absl::Status CheckIdentities(const std::vector<ShardDescription>& shards,
                             bool partial = false);

// That no copy of the catalogue is ahead of shard 0's, at `version`: shard 0
// would have lost data.
absl::Status CheckVersions(const std::vector<ShardDescription>& shards,
                           int64_t version);

// The shards' stores, as far as all of them are known; empty if one is not.
std::vector<std::string> StoresOf(const std::vector<ShardDescription>& shards);

// FAILED_PRECONDITION: the shard runs on another store than `known`, and how
// that may be accepted.
absl::Status AnotherStore(const ShardDescription& shard,
                          absl::string_view known);

// That every shard runs on the store that the catalogue knows it by, or on one
// accepted in its place; else AnotherStore. OK if there are no collections:
// then nothing is lost.
absl::Status CheckStores(const std::vector<ShardDescription>& shards,
                         const Catalogue& catalogue,
                         const std::map<int32_t, std::string>& accepted);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_CLUSTER_CHECKS_H_
