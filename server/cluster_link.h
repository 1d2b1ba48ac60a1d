// A coordinator's hold on its shards: finds them, serves when they are one
// whole cluster, and watches them every second from then on.
//
// While something is wrong it keeps trying and says what: in the slot's reason,
// in health, and once per change on standard error. Shards may start in any
// order, restart, and come back at other addresses.
//
// Health follows with hysteresis: two rounds in a row have to agree, so that
// one lost reply does not take a coordinator out of its load balancer. A
// contradiction (cluster_verdict.h) counts at once, and empties the slot.
//
// A shard that comes back on an empty store, where the cluster knows of data,
// counts as one that does not answer (coordinator/cluster_checks.h).
//
// With serve_partial it serves as soon as one shard answers.

#ifndef COTERIE_SERVER_CLUSTER_LINK_H_
#define COTERIE_SERVER_CLUSTER_LINK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_slot.h"
#include "coordinator/shard_client.h"
#include "server/backend.h"
#include "server/health.h"
#include "server/shard_addresses.h"

namespace coterie {

struct ClusterLinkOptions {
  std::string cluster_uuid;  // empty: any
  bool serve_partial = false;
  CoordinatorOptions coordinator;
  // Between rounds, and for each answer within one.
  absl::Duration interval = absl::Seconds(1);
  absl::Duration timeout = absl::Seconds(1);
};

// A client for the shard at an address. Its id is -1, cluster and store are
// empty, if they are still to be asked.
using ShardClientFactory = std::function<std::shared_ptr<ShardClient>(
    int32_t shard_id, const std::string& address,
    const std::string& cluster_uuid, const std::string& store_id)>;

// `slot` and `health` outlive it.
std::unique_ptr<Backend> MakeClusterLink(
    ClusterLinkOptions options, std::unique_ptr<ShardAddresses> addresses,
    ShardClientFactory factory, CoordinatorSlot* slot, Health* health);

}  // namespace coterie

#endif  // COTERIE_SERVER_CLUSTER_LINK_H_
