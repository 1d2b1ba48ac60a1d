// A shard in another process, called over gRPC (coterie.v1.ShardService).
//
// Thread-safe. Nothing blocks and nothing is retried behind the caller's back:
// `done` runs on one of gRPC's threads, or at once if the call cannot be made.
// The caller's deadline goes over the wire, its cancellation at once.
//
// Every error names the shard. UNAVAILABLE, naming the address, if it cannot be
// reached or ends the connection; FAILED_PRECONDITION if another shard or
// cluster answers there; INTERNAL if a reply does not fit its request
// (api/shard_convert.h); RESOURCE_EXHAUSTED naming message_bytes if a message
// is over it; DEADLINE_EXCEEDED, CANCELLED; and what the shard itself answers,
// details included. A shard that comes back at its address is found again
// within about two seconds.
//
// Replies to Search and Get carry the call's LinkUse.

#ifndef COTERIE_COORDINATOR_GRPC_SHARD_CLIENT_H_
#define COTERIE_COORDINATOR_GRPC_SHARD_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "api/limits.h"
#include "api/wire_counters.h"
#include "coordinator/shard_client.h"

namespace coterie {

struct GrpcShardClientOptions {
  // Largest message either way; larger requests are not sent.
  int64_t message_bytes = Limits().message_bytes;
  // Bounds on calls whose context has no deadline.
  absl::Duration longest_call = absl::Seconds(60);
  absl::Duration longest_scan = absl::Hours(1);
  // Sent with every request; shards of another cluster refuse it. Empty: not
  // checked.
  std::string cluster_uuid;
  // Likewise; a shard that runs on another store is UNAVAILABLE.
  std::string store_id;
  // Of all messages of this client, as they are handed to gRPC; may be null.
  std::shared_ptr<WireCounters> counters;
};

class GrpcShardClient : public ShardClient {
 public:
  // Calls that start later go to this channel; calls under way stay with
  // theirs.
  virtual void SetChannel(std::shared_ptr<grpc::Channel> channel,
                          std::string address) = 0;
  // As the shard last answered; 0 before its first reply. Another number means
  // another life of the shard.
  virtual int64_t incarnation() const = 0;
};

// `shard_id` < 0: whichever shard listens there; Describe says which.
std::shared_ptr<GrpcShardClient> MakeGrpcShardClient(
    int32_t shard_id, std::shared_ptr<grpc::Channel> channel,
    std::string address, GrpcShardClientOptions options);

// A channel of its own connection, in the clear. Connects at the first call;
// a lost connection is tried again after 0.1 to 2 s, meanwhile calls fail at
// once. Idle connections are kept alive by pings every 15 s (servers permit
// 10 s), so a peer that vanished is noticed within 20 s.
std::shared_ptr<grpc::Channel> MakeShardChannel(const std::string& address,
                                                int64_t message_bytes);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_GRPC_SHARD_CLIENT_H_
