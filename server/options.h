// Command-line flags of coteried as one validated value.

#ifndef COTERIE_SERVER_OPTIONS_H_
#define COTERIE_SERVER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/limits.h"

namespace coterie {

inline constexpr char kDefaultHttp[] = "127.0.0.1:7601";

// Plain data. Defaults are those of the flags.
struct ServerOptions {
  enum class Role { kAll, kShard, kCoordinator };

  Role role = Role::kAll;
  // For gRPC (server/listen_address.h); port 0 takes a free one.
  std::string listen = "127.0.0.1:7600";
  // For HTTP; empty: none. If the default cannot be had, none either.
  std::string http = kDefaultHttp;
  std::string data_dir = "./coterie-data";
  // For how long another process that has data_dir may take to end.
  absl::Duration data_dir_wait = absl::ZeroDuration();
  // Shards in this process; 0: as stored, or 4 for a new directory.
  int32_t local_shards = 0;
  // Role shard: which of how many; -1 and 0 otherwise.
  int32_t shard_id = -1;
  int32_t shards_total = 0;
  // The cluster that data belongs to; empty: as the data says.
  std::string cluster_uuid;
  // Role coordinator: host:port of each shard, or one dns:///name:port.
  std::vector<std::string> shards;
  // Role coordinator: serves, healthy, while at least one shard answers.
  bool serve_partial = false;
  // By shard: the name of a store to go on with in a lost one's place.
  std::map<int32_t, std::string> accepted_stores;
  // Scanning threads, all shards of this process together; 0: the cores.
  int32_t threads = 0;
  int32_t queue_capacity = 256;
  int64_t write_queue_bytes = int64_t{64} << 20;
  int64_t unsealed_bytes = int64_t{256} << 20;  // of each shard
  // What merging segments may take beside the rows, all shards of this process
  // together. 0: a twentieth of the memory that it may use.
  int64_t merge_bytes = 0;
  // What jobs may keep beside the rows, all shards of this process together. 0:
  // a quarter of the memory that it may use.
  int64_t job_bytes = 0;
  // How long a step of a job may take on all shards.
  absl::Duration job_step = absl::Minutes(10);
  // What indexes may take, likewise. 0: a fifth.
  int64_t index_bytes = 0;
  // Bytes of requests handled at once; more are refused. 0: a tenth of the
  // memory that this process may use.
  int64_t max_inflight_bytes = 0;
  // After SIGTERM: how long calls are still taken, health saying NOT_SERVING.
  absl::Duration drain_delay = absl::ZeroDuration();
  // Then: how long calls may take to end before they are cancelled.
  absl::Duration drain = absl::Seconds(10);
  bool reflection = true;
  // Idle clients may ping as often as this; 0: kLeastPingInterval
  // (api/rpc_call.h). No flag: what clients and coordinators are documented and
  // built to do depends on it.
  absl::Duration least_ping_interval = absl::ZeroDuration();
  Limits limits;
};

inline constexpr int32_t kDefaultLocalShards = 4;

// The flags' values, checked: INVALID_ARGUMENT naming the flag, the value and
// what it may be. REQUIRES: absl::ParseCommandLine has run.
absl::StatusOr<ServerOptions> OptionsFromFlags();

// "all", "shard" or "coordinator".
std::string RoleName(ServerOptions::Role role);

// What max_inflight_bytes = 0 means here; at least four messages.
int64_t DefaultInflightBytes(const Limits& limits);

// What merge_bytes = 0 means here.
int64_t DefaultMergeBytes();

// What job_bytes = 0 means here.
int64_t DefaultJobBytes();

// What index_bytes = 0 means here.
int64_t DefaultIndexBytes();

// For coteried --help: what it is, examples, exit codes.
std::string UsageMessage();

}  // namespace coterie

#endif  // COTERIE_SERVER_OPTIONS_H_
