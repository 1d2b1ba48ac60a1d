// What the calls to one remote shard share: where they go now, how they are
// addressed, counted and bounded, and how their failures are told.
//
// Thread-safe; outlives its client for as long as calls are under way.

#ifndef COTERIE_COORDINATOR_SHARD_LINK_H_
#define COTERIE_COORDINATOR_SHARD_LINK_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/link_use.h"
#include "api/v1/shard.grpc.pb.h"
#include "coordinator/grpc_shard_client.h"
#include "sync/mutex.h"

namespace coterie {

class ShardLink {
 public:
  struct Target {
    std::unique_ptr<v1::ShardService::Stub> stub;
    std::string address;
  };

  ShardLink(int32_t shard_id, GrpcShardClientOptions options)
      : shard_id_(shard_id), options_(std::move(options)) {}

  int32_t shard_id() const { return shard_id_; }
  const GrpcShardClientOptions& options() const { return options_; }
  int64_t incarnation() const {
    return incarnation_.load(std::memory_order_relaxed);
  }

  void SetTarget(std::shared_ptr<grpc::Channel> channel, std::string address);
  std::shared_ptr<const Target> target() const;

  // Addresses a request.
  void Address(v1::ShardRequestHeader* header) const;

  // Prepares a call: OK if it can be made, with the deadline in `context` and
  // the request counted in `use`.
  absl::Status Admit(const google::protobuf::Message& request,
                     const CallContext& call, absl::Duration longest,
                     grpc::ClientContext* context, LinkUse* use) const;
  // The same for a message of a stream, whose context has no deadline.
  absl::Status Admit(const google::protobuf::Message& request,
                     const CallContext& call, LinkUse* use) const;
  // Counts a reply in `use`; whether the right shard sent it.
  absl::Status Receive(const google::protobuf::Message& response,
                       const v1::ShardReplyHeader& header, LinkUse* use);

  // How an RPC ended, in words for the coordinator's caller. OK stays OK.
  absl::Status Outcome(const grpc::Status& status, const CallContext& call,
                       absl::string_view address) const;
  // Names the shard.
  absl::Status Named(absl::Status status) const;

 private:
  const int32_t shard_id_;
  const GrpcShardClientOptions options_;
  std::atomic<int64_t> incarnation_{0};
  mutable Mutex mu_;
  std::shared_ptr<const Target> target_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SHARD_LINK_H_
