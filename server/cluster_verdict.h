// Whether shards that answer at some addresses are one whole cluster.
//
// Stateless; any thread. The order of addresses does not matter.

#ifndef COTERIE_SERVER_CLUSTER_VERDICT_H_
#define COTERIE_SERVER_CLUSTER_VERDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/shard_messages.h"

namespace coterie {

// What came back from one address.
struct ShardProbe {
  std::string address;
  absl::StatusOr<ShardDescription> told;
};

struct ClusterVerdict {
  // OK: whole. UNAVAILABLE: shards are missing, silent or loading; patience may
  // help. FAILED_PRECONDITION: addresses contradict each other; a person has
  // to help. The message names shards and addresses.
  absl::Status status;
  std::string cluster_uuid;  // empty if no shard answered
  // Element i: the index of the probe that is shard i, or -1. Empty if no shard
  // answered or they contradict.
  std::vector<int32_t> probe_of_shard;
  int32_t serving = 0;  // shards that answer and have loaded
};

// `expected_uuid` empty: any, but one. `complete_list`: the addresses are all
// there are, so their number has to be the cluster's.
ClusterVerdict JudgeCluster(const std::vector<ShardProbe>& probes,
                            absl::string_view expected_uuid,
                            bool complete_list);

}  // namespace coterie

#endif  // COTERIE_SERVER_CLUSTER_VERDICT_H_
