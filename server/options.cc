#include "server/options.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/cluster_uuid.h"
#include "server/listen_address.h"
#include "server/machine_memory.h"

ABSL_FLAG(std::string, role, "all",
          "all: coordinator and shards in one process; shard: one shard; "
          "coordinator: no data, reaches shards by --shards.");
ABSL_FLAG(std::string, listen, "127.0.0.1:7600",
          "Address for gRPC: host:port, [IPv6]:port or unix:PATH. Port 0 takes "
          "a free one and prints it. Default: loopback only.");
ABSL_FLAG(std::string, http, coterie::kDefaultHttp,
          "Address for /metrics and /healthz, IP:port or [IPv6]:port. Port 0 "
          "takes a free one and prints it; empty: none.");
ABSL_FLAG(int32_t, shard_id, -1,
          "With --role=shard: which shard this is, 0..shards_total-1.");
ABSL_FLAG(int32_t, shards_total, 0,
          "With --role=shard: shards of the cluster, 1..1024; the same for "
          "all, fixed when data directories are made.");
ABSL_FLAG(std::string, cluster, "",
          "Name of the cluster; its uuid is derived from it. Needed once, by "
          "a shard with a new data directory; checked wherever it is given.");
ABSL_FLAG(std::string, cluster_uuid, "",
          "The cluster's uuid itself, instead of --cluster.");
ABSL_FLAG(std::string, shards, "",
          "With --role=coordinator: all shards, host:port,host:port,... in any "
          "order, or dns:///name:port for a name with an address per shard.");
ABSL_FLAG(bool, serve_partial, false,
          "With --role=coordinator: begins to serve, and health stays SERVING, "
          "while at least one shard answers; otherwise all have to.");
ABSL_FLAG(std::string, accept_stores, "",
          "Go on with these stores in the place of lost ones, whose points are "
          "given up: SHARD=STORE,... as the refusal of a shard names them. "
          "Harmless when left in place.");
ABSL_FLAG(std::string, data_dir, "./coterie-data",
          "Folder for everything that must survive a restart; created if "
          "absent. One process at a time.");
ABSL_FLAG(absl::Duration, data_dir_wait, absl::ZeroDuration(),
          "How long to wait for a process that has the data directory to end, "
          "e.g. 1m; by default it is refused at once.");
ABSL_FLAG(int32_t, local_shards, 0,
          "Shards in this process, 1..64. Fixed when the data directory is "
          "made; 0 means as stored, or 4 when new.");
ABSL_FLAG(int32_t, threads, 0,
          "Scanning threads, which all shards of this process share, 0..1024. "
          "0 means as many as cores. Answers do not depend on it.");
ABSL_FLAG(int32_t, queue_capacity, 256,
          "Searches that may wait at a shard, and as many other reads; more "
          "are refused with RESOURCE_EXHAUSTED at once.");
ABSL_FLAG(int64_t, write_queue_bytes, int64_t{64} << 20,
          "Bytes of writes that may wait for a shard's disk; more are refused "
          "with RESOURCE_EXHAUSTED at once.");
ABSL_FLAG(int64_t, unsealed_bytes, int64_t{256} << 20,
          "Bytes of rows that may wait to be sealed into segments at a shard; "
          "upserts that find more are refused with RESOURCE_EXHAUSTED at "
          "once.");
ABSL_FLAG(int64_t, merge_bytes, 0,
          "Bytes that merging segments may take beside the rows, all shards of "
          "this process together; larger merges are not done. 0 means a "
          "twentieth of the memory that the process may use.");
ABSL_FLAG(
    int64_t, job_bytes, 0,
    "Bytes that jobs may keep beside the rows, all shards of this process "
    "together; more are refused. 0 means a quarter of the memory that the "
    "process may use.");
ABSL_FLAG(absl::Duration, job_step, absl::Minutes(10),
          "How long a step of a job (k-means, SGD) may take on all shards, "
          "repeats included, before the job is interrupted, e.g. 10m.");
ABSL_FLAG(
    int64_t, index_bytes, 0,
    "Bytes of memory that indexes of collections may take, while they are "
    "built included, all shards of this process together; what would be "
    "more is not built, and its rows are scanned. 0 means a fifth of the "
    "memory that the process may use.");
ABSL_FLAG(
    int64_t, max_inflight_bytes, 0,
    "Bytes that requests handled at once take in memory; more are refused "
    "with RESOURCE_EXHAUSTED at once. 0: a tenth of the memory this "
    "process may use (machine or cgroup).");
ABSL_FLAG(absl::Duration, drain_delay, absl::ZeroDuration(),
          "After SIGTERM: how long calls are still taken while health says "
          "NOT_SERVING, so that load balancers can look away, e.g. 5s.");
ABSL_FLAG(absl::Duration, drain, absl::Seconds(10),
          "Then: how long calls in progress may take before they are "
          "cancelled, e.g. 10s.");
ABSL_FLAG(bool, reflection, true,
          "Serve gRPC reflection, so that grpcurl and ghz need no .proto.");

ABSL_FLAG(int64_t, max_dimension, 16384,
          "Components of a vector, at most 16384.");
ABSL_FLAG(int64_t, max_k, 10000,
          "Neighbours per query (offset + k), and points within a radius.");
ABSL_FLAG(int64_t, max_queries, 4096, "Queries per search request.");
ABSL_FLAG(int64_t, max_queries_times_k, 1000000,
          "Queries x (offset + k) of a search request.");
ABSL_FLAG(int64_t, max_points_per_upsert, 4096, "Points per upsert.");
ABSL_FLAG(int64_t, max_ids_per_request, 4096, "Ids per get or delete.");
ABSL_FLAG(int64_t, max_attributes_per_point, 64, "Attributes of a point.");
ABSL_FLAG(int64_t, max_attribute_set_bytes, 16 << 10,
          "Bytes of a point's attributes together.");
ABSL_FLAG(int64_t, max_collections, 1024, "Collections.");
ABSL_FLAG(int64_t, max_message_bytes, 16 << 20,
          "Bytes of one gRPC message, either way; 1 KiB to 2 GiB - 1. Clients "
          "must be set to the same to receive large replies.");

namespace coterie {
namespace {

absl::Status InRange(absl::string_view flag, int64_t value, int64_t low,
                     int64_t high) {
  if (value >= low && value <= high) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, "=", value, " is out of range: ", low, "..", high));
}

Limits LimitsFromFlags() {
  Limits limits;
  limits.dimension = absl::GetFlag(FLAGS_max_dimension);
  limits.k = absl::GetFlag(FLAGS_max_k);
  limits.queries = absl::GetFlag(FLAGS_max_queries);
  limits.queries_times_k = absl::GetFlag(FLAGS_max_queries_times_k);
  limits.points_per_upsert = absl::GetFlag(FLAGS_max_points_per_upsert);
  limits.ids_per_request = absl::GetFlag(FLAGS_max_ids_per_request);
  limits.attributes_per_point = absl::GetFlag(FLAGS_max_attributes_per_point);
  limits.attribute_set_bytes = absl::GetFlag(FLAGS_max_attribute_set_bytes);
  limits.collections = absl::GetFlag(FLAGS_max_collections);
  limits.message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  return limits;
}

absl::Status DurationInRange(absl::string_view flag, absl::Duration value,
                             absl::Duration least = absl::ZeroDuration()) {
  if (value >= least && value <= absl::Hours(1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", absl::FormatDuration(value),
                   " is out of range: ", absl::FormatDuration(least), "..1h"));
}

absl::Status Misplaced(absl::string_view flag, absl::string_view role) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is for --role=", role, " only"));
}

absl::Status ReadRole(ServerOptions* options) {
  const std::string role = absl::GetFlag(FLAGS_role);
  using Role = ServerOptions::Role;
  for (const Role known : {Role::kAll, Role::kShard, Role::kCoordinator}) {
    if (role == RoleName(known)) {
      options->role = known;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--role=", role, " is not one of all, shard, coordinator"));
}

absl::Status ReadCluster(ServerOptions* options) {
  const std::string name = absl::GetFlag(FLAGS_cluster);
  const std::string uuid = absl::GetFlag(FLAGS_cluster_uuid);
  if (!name.empty() && !uuid.empty()) {
    return absl::InvalidArgumentError(
        "--cluster and --cluster_uuid say the same thing; give one");
  }
  if (!uuid.empty() && !IsClusterUuid(uuid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster_uuid=", uuid,
                     " is no uuid in lower-case hexadecimal digits"));
  }
  options->cluster_uuid = name.empty() ? uuid : ClusterUuidOf(name);
  return absl::OkStatus();
}

// The addresses in --shards, each once.
absl::Status ReadShards(ServerOptions* options) {
  const std::string text = absl::GetFlag(FLAGS_shards);
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "--role=coordinator needs --shards=host:port,... or "
        "--shards=dns:///name:port");
  }
  options->shards = absl::StrSplit(text, ',');
  std::set<std::string> seen;
  for (const std::string& shard : options->shards) {
    absl::string_view address = shard;
    const bool dns = absl::ConsumePrefix(&address, "dns:///");
    if (dns && options->shards.size() > 1) {
      return absl::InvalidArgumentError(
          "--shards: dns:///name:port stands alone");
    }
    absl::StatusOr<ListenAddress> parsed = ParseListenAddress(address);
    if (!parsed.ok() || (!parsed->is_unix() && parsed->port == 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--shards: ", parsed.ok() ? absl::StrCat("'", address, "' has port 0")
                                    : std::string(parsed.status().message())));
    }
    if (!seen.insert(shard).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--shards: ", shard, " stands there twice"));
    }
  }
  return absl::OkStatus();
}

// SHARD=STORE,...
absl::Status ReadAcceptedStores(ServerOptions* options) {
  const std::string text = absl::GetFlag(FLAGS_accept_stores);
  if (text.empty()) {
    return absl::OkStatus();
  }
  if (options->role == ServerOptions::Role::kShard) {
    return absl::InvalidArgumentError(
        "--accept_stores is for the coordinator, not for --role=shard");
  }
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    int32_t shard = -1;
    if (!absl::SimpleAtoi(parts.first, &shard) || shard < 0 ||
        parts.second.empty() ||
        !options->accepted_stores.emplace(shard, parts.second).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--accept_stores: '", item,
                       "' is not SHARD=STORE, or names a shard "
                       "twice"));
    }
  }
  return absl::OkStatus();
}

// Flags that only one role has.
absl::Status ReadRoleFlags(ServerOptions* options) {
  using Role = ServerOptions::Role;
  options->shard_id = absl::GetFlag(FLAGS_shard_id);
  options->shards_total = absl::GetFlag(FLAGS_shards_total);
  options->serve_partial = absl::GetFlag(FLAGS_serve_partial);
  options->local_shards = absl::GetFlag(FLAGS_local_shards);
  if (options->role != Role::kCoordinator) {
    if (!absl::GetFlag(FLAGS_shards).empty()) {
      return Misplaced("shards", "coordinator");
    }
    if (options->serve_partial) {
      return Misplaced("serve_partial", "coordinator");
    }
  }
  if (options->role != Role::kAll && options->local_shards != 0) {
    return Misplaced("local_shards", "all");
  }
  if (options->role == Role::kCoordinator) {
    if (absl::Status s = ReadShards(options); !s.ok()) {
      return s;
    }
  }
  if (options->role != Role::kShard) {
    if (options->shard_id != -1) {
      return Misplaced("shard_id", "shard");
    }
    return options->shards_total == 0 ? absl::OkStatus()
                                      : Misplaced("shards_total", "shard");
  }
  absl::Status total = InRange("shards_total", options->shards_total, 1, 1024);
  return total.ok() ? InRange("shard_id", options->shard_id, 0,
                              options->shards_total - 1)
                    : total;
}

absl::Status CheckAddress(absl::string_view flag, const std::string& text,
                          bool may_be_unix) {
  absl::StatusOr<ListenAddress> parsed = ParseListenAddress(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": ", std::string(parsed.status().message())));
  }
  if (parsed->is_unix() && !may_be_unix) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, "=", text, ": a socket cannot serve HTTP"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServerOptions> OptionsFromFlags() {
  ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.http = absl::GetFlag(FLAGS_http);
  options.data_dir = absl::GetFlag(FLAGS_data_dir);
  options.data_dir_wait = absl::GetFlag(FLAGS_data_dir_wait);
  options.threads = absl::GetFlag(FLAGS_threads);
  options.queue_capacity = absl::GetFlag(FLAGS_queue_capacity);
  options.write_queue_bytes = absl::GetFlag(FLAGS_write_queue_bytes);
  options.unsealed_bytes = absl::GetFlag(FLAGS_unsealed_bytes);
  options.merge_bytes = absl::GetFlag(FLAGS_merge_bytes);
  options.job_bytes = absl::GetFlag(FLAGS_job_bytes);
  options.job_step = absl::GetFlag(FLAGS_job_step);
  options.index_bytes = absl::GetFlag(FLAGS_index_bytes);
  options.max_inflight_bytes = absl::GetFlag(FLAGS_max_inflight_bytes);
  options.drain_delay = absl::GetFlag(FLAGS_drain_delay);
  options.drain = absl::GetFlag(FLAGS_drain);
  options.reflection = absl::GetFlag(FLAGS_reflection);
  options.limits = LimitsFromFlags();
  if (options.data_dir.empty()) {
    return absl::InvalidArgumentError("--data_dir is empty");
  }
  if (options.max_inflight_bytes != 0) {
    absl::Status s = InRange("max_inflight_bytes", options.max_inflight_bytes,
                             options.limits.message_bytes, int64_t{1} << 50);
    if (!s.ok()) {
      return s;
    }
  }
  for (const absl::Status& s :
       {ReadRole(&options), ReadRoleFlags(&options), ReadCluster(&options),
        ReadAcceptedStores(&options),
        CheckAddress("listen", options.listen, true),
        options.http.empty() ? absl::OkStatus()
                             : CheckAddress("http", options.http, false),
        DurationInRange("data_dir_wait", options.data_dir_wait),
        DurationInRange("drain_delay", options.drain_delay),
        DurationInRange("drain", options.drain),
        InRange("local_shards", options.local_shards, 0, 64),
        InRange("threads", options.threads, 0, 1024),
        InRange("queue_capacity", options.queue_capacity, 1, 1 << 20),
        InRange("write_queue_bytes", options.write_queue_bytes, 1 << 20,
                int64_t{1} << 40),
        InRange("unsealed_bytes", options.unsealed_bytes, 1 << 20,
                int64_t{1} << 40),
        InRange("merge_bytes", options.merge_bytes, 0, int64_t{1} << 50),
        InRange("job_bytes", options.job_bytes, 0, int64_t{1} << 50),
        DurationInRange("job_step", options.job_step, absl::Seconds(1)),
        InRange("index_bytes", options.index_bytes, 0, int64_t{1} << 50),
        options.limits.Validate()}) {
    if (!s.ok()) {
      return s;
    }
  }
  return options;
}

std::string RoleName(ServerOptions::Role role) {
  switch (role) {
    case ServerOptions::Role::kShard:
      return "shard";
    case ServerOptions::Role::kCoordinator:
      return "coordinator";
    case ServerOptions::Role::kAll:
      break;
  }
  return "all";
}

int64_t DefaultInflightBytes(const Limits& limits) {
  return std::max(UsableMemoryBytes() / 10, 4 * limits.message_bytes);
}

int64_t DefaultMergeBytes() { return UsableMemoryBytes() / 20; }

int64_t DefaultJobBytes() { return UsableMemoryBytes() / 4; }

int64_t DefaultIndexBytes() { return UsableMemoryBytes() / 5; }

std::string UsageMessage() {
  return
      R"(coteried serves exact nearest-neighbour search over gRPC.

With no flags: a coordinator and 4 shards in one process, data in
./coterie-data, listening on 127.0.0.1:7600 (gRPC) and 127.0.0.1:7601 (HTTP:
/metrics, /healthz). SIGTERM or SIGINT drains and exits with 0; a second one
exits at once with 1.

  coteried                                  all in one, defaults
  coteried --data_dir=/var/lib/coterie --listen=0.0.0.0:7600
  coteried --local_shards=8 --threads=16

One process per shard, and any number of coordinators:

  coteried --role=shard --shard_id=0 --shards_total=2 --cluster=words \
      --data_dir=/data/0 --listen=0.0.0.0:7700
  coteried --role=coordinator --shards=host0:7700,host1:7700

Exit codes: 0 stopped on request; 1 could not start, had to stop, or a flag is not
one (the reason is on standard error); 2 a flag has a wrong value.

`coteried --helpfull` lists every flag with unit, default and effect.
)";
}

}  // namespace coterie
