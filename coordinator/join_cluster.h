// How a coordinator comes to its shards: are they the cluster that they should
// be, on the stores that it knows, and is every copy of the catalogue the same?
//
// Blocks; for the thread that starts a coordinator.

#ifndef COTERIE_COORDINATOR_JOIN_CLUSTER_H_
#define COTERIE_COORDINATOR_JOIN_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/shard_messages.h"
#include "coordinator/catalogue_store.h"
#include "coordinator/shard_client.h"

namespace coterie {

// As in CoordinatorOptions.
struct JoinOptions {
  bool shard_view = false;
  bool partial = false;
  std::map<int32_t, std::string> accepted_stores;
  absl::Duration timeout = absl::Seconds(30);  // of each answer
};

// Coordinator::Describe.
using DescribeCall =
    std::function<void(CallContext, Done<std::vector<ShardDescription>>)>;

// Checks the shards (cluster_checks.h), caches the newest catalogue in
// `catalogue`, records stores that are new or accepted, gives shard 0 the
// catalogue back that its lost store had, and copies it to whoever is behind.
// The names of the shards' stores; none if one is not known. With
// options.shard_view: reads the catalogue only.
absl::StatusOr<std::vector<std::string>> JoinCluster(
    ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
    const DescribeCall& describe, const JoinOptions& options);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOIN_CLUSTER_H_
