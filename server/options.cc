#include "server/options.h"

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:7600",
          "Address for gRPC, host:port; an IPv6 host in brackets. Port 0 takes "
          "a free one and prints it. Default: loopback only.");
ABSL_FLAG(std::string, data_dir, "./coterie-data",
          "Folder for everything that must survive a restart; created if "
          "absent. One process at a time.");
ABSL_FLAG(int32_t, local_shards, 0,
          "Shards in this process, 1..64. Fixed when the data directory is "
          "made; 0 means as stored, or 4 when new.");
ABSL_FLAG(int32_t, threads_per_shard, 0,
          "Scanning threads of each shard, 0..256. 0 means cores / shards, at "
          "least 1. Answers do not depend on it.");
ABSL_FLAG(int32_t, queue_capacity, 256,
          "Reads that may wait at a shard; more are refused with "
          "RESOURCE_EXHAUSTED at once.");
ABSL_FLAG(int64_t, write_queue_bytes, int64_t{64} << 20,
          "Bytes of writes that may wait for a shard's disk; more are refused "
          "with RESOURCE_EXHAUSTED at once.");
ABSL_FLAG(absl::Duration, drain, absl::Seconds(10),
          "After SIGTERM: how long calls in progress may take before they are "
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

}  // namespace

absl::StatusOr<ServerOptions> OptionsFromFlags() {
  ServerOptions options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.data_dir = absl::GetFlag(FLAGS_data_dir);
  options.local_shards = absl::GetFlag(FLAGS_local_shards);
  options.threads_per_shard = absl::GetFlag(FLAGS_threads_per_shard);
  options.queue_capacity = absl::GetFlag(FLAGS_queue_capacity);
  options.write_queue_bytes = absl::GetFlag(FLAGS_write_queue_bytes);
  options.drain = absl::GetFlag(FLAGS_drain);
  options.reflection = absl::GetFlag(FLAGS_reflection);
  options.limits = LimitsFromFlags();
  if (options.data_dir.empty()) {
    return absl::InvalidArgumentError("--data_dir is empty");
  }
  if (options.drain < absl::ZeroDuration() || options.drain > absl::Hours(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--drain=", absl::FormatDuration(options.drain),
                     " is out of range: 0s..1h"));
  }
  for (const absl::Status& s :
       {InRange("local_shards", options.local_shards, 0, 64),
        InRange("threads_per_shard", options.threads_per_shard, 0, 256),
        InRange("queue_capacity", options.queue_capacity, 1, 1 << 20),
        InRange("write_queue_bytes", options.write_queue_bytes, 1 << 20,
                int64_t{1} << 40),
        options.limits.Validate()}) {
    if (!s.ok()) {
      return s;
    }
  }
  return options;
}

std::string UsageMessage() {
  return
      R"(coteried serves exact nearest-neighbour search over gRPC.

With no flags: a coordinator and 4 shards in one process, data in
./coterie-data, listening on 127.0.0.1:7600. SIGTERM or SIGINT drains and
exits with 0.

  coteried                                  all in one, defaults
  coteried --data_dir=/var/lib/coterie --listen=0.0.0.0:7600
  coteried --local_shards=8 --threads_per_shard=1

Exit codes: 0 stopped on request; 1 could not start or had to stop (the reason
is on standard error); 2 a flag is wrong.

`coteried --helpfull` lists every flag with unit, default and effect.
)";
}

}  // namespace coterie
