// Command-line flags of coteried as one validated value.

#ifndef COTERIE_SERVER_OPTIONS_H_
#define COTERIE_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/limits.h"

namespace coterie {

// Plain data. Defaults are those of the flags.
struct ServerOptions {
  // host:port or [v6]:port for gRPC; port 0 takes a free one.
  std::string listen = "127.0.0.1:7600";
  std::string data_dir = "./coterie-data";
  // Shards in this process; 0: as stored, or 4 for a new directory.
  int32_t local_shards = 0;
  // Scanning threads of each shard; 0: cores / shards, at least 1.
  int32_t threads_per_shard = 0;
  int32_t queue_capacity = 256;
  int64_t write_queue_bytes = int64_t{64} << 20;
  // After SIGTERM: how long calls may take to end before they are cancelled.
  absl::Duration drain = absl::Seconds(10);
  bool reflection = true;
  Limits limits;
};

inline constexpr int32_t kDefaultLocalShards = 4;

// The flags' values, checked: INVALID_ARGUMENT naming the flag, the value and
// what it may be. REQUIRES: absl::ParseCommandLine has run.
absl::StatusOr<ServerOptions> OptionsFromFlags();

// For coteried --help: what it is, examples, exit codes.
std::string UsageMessage();

}  // namespace coterie

#endif  // COTERIE_SERVER_OPTIONS_H_
