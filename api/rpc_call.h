// What every RPC handler does besides its own work: take the deadline, follow
// the caller's cancellation, reply exactly once, be counted.

#ifndef COTERIE_API_RPC_CALL_H_
#define COTERIE_API_RPC_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/byte_budget.h"
#include "api/call.h"
#include "api/limits.h"
#include "api/stopwatch.h"
#include "api/wire_counters.h"

namespace coterie {

// Told of each RPC as it ends: "SearchService/Search", how it ended, seconds.
// Called on any thread, several at once; must not block.
using RpcObserver = std::function<void(absl::string_view method,
                                       absl::StatusCode code, double seconds)>;

// What the services of a process share.
struct RpcOptions {
  Limits limits;
  RpcObserver observer;                              // may be empty
  std::shared_ptr<WireCounters> counters = nullptr;  // may be null
  // Of bytes that requests being handled take in memory; null: no bound.
  std::shared_ptr<ByteBudget> budget = nullptr;
};

// Deadlines of callers that set none.
inline constexpr absl::Duration kSearchDeadline = absl::Seconds(30);
inline constexpr absl::Duration kReadDeadline = absl::Seconds(30);
inline constexpr absl::Duration kWriteDeadline = absl::Seconds(60);
inline constexpr absl::Duration kCollectionDeadline = absl::Seconds(60);
inline constexpr absl::Duration kDescribeDeadline = absl::Seconds(10);
// Of one step of a job; whoever drives it bounds its steps more closely.
inline constexpr absl::Duration kJobDeadline = absl::Hours(1);
// Back-pressure makes a scan as slow as its reader.
inline constexpr absl::Duration kScanDeadline = absl::Hours(1);

// Servers take pings of idle clients as often as this; faster ones are sent
// away (GOAWAY too_many_pings).
inline constexpr absl::Duration kLeastPingInterval = absl::Seconds(10);

// The caller's deadline, or `otherwise` from now.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context,
                      absl::Duration otherwise);

// Why a call ended that gRPC reports as cancelled: its deadline, or its caller.
absl::Status CancelReason(const CallContext& call);

// RESOURCE_EXHAUSTED naming the limit if the message is over it: gRPC's own
// error would not say what to do.
absl::Status CheckReplySize(const google::protobuf::Message& message,
                            const Limits& limits);

// Count a message, if there are counters. O(its fields).
void CountSent(const google::protobuf::Message& message,
               const RpcOptions& options);
void CountReceived(const google::protobuf::Message& message,
                   const RpcOptions& options);

// Takes from the budget, if there is one, the bytes that the request takes in
// memory. O(its messages).
absl::Status ChargeRequest(const google::protobuf::Message& request,
                           ByteBudget* budget, ByteBudget::Lease* lease);

// One unary RPC. Made by `new`; deletes itself when gRPC is done with it.
//
// The reply comes on any thread, at any time after or before the caller has
// gone away; whoever is first, reply or cancellation, finishes the RPC, and
// only that one touches reactor and response. So a shard that never answers
// holds no RPC beyond its cancellation.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // `method` has static storage. `response` is gRPC's.
  UnaryCall(grpc::CallbackServerContext* context,
            google::protobuf::Message* response, absl::string_view method,
            absl::Duration default_deadline, const RpcOptions& options);

  const CallContext& call() const { return call_; }

  // Charges the request's bytes to the budget until the RPC is done with.
  // RESOURCE_EXHAUSTED if they do not fit. To be called at most once.
  absl::Status Charge(const google::protobuf::Message& request);

  // Ends the RPC without work. Returns the reactor, for gRPC.
  grpc::ServerUnaryReactor* Refuse(const absl::Status& status);

  // Makes the callback that ends the RPC: with the error, or with what
  // `encode(reply)` writes into the response. To be called at most once.
  template <typename Reply, typename Encode>
  Done<Reply> Replier(Encode encode) {
    return [state = state_,
            encode = std::move(encode)](absl::StatusOr<Reply> reply) mutable {
      state->Finish([&]() -> absl::Status {
        if (!reply.ok()) {
          return reply.status();
        }
        encode(*std::move(reply));
        return absl::OkStatus();
      });
    };
  }

 private:
  // Shared with the callback, which may outlive the RPC.
  struct State {
    // Runs `outcome` and finishes the RPC by it, unless that has happened.
    void Finish(absl::FunctionRef<absl::Status()> outcome);

    std::atomic<bool> finished{false};
    UnaryCall* reactor = nullptr;  // dangles once finished
  };

  ~UnaryCall() override = default;
  void OnCancel() override;
  void OnDone() override { delete this; }

  google::protobuf::Message* const response_;
  const absl::string_view method_;
  const RpcOptions options_;
  ByteBudget::Lease lease_;  // after options_, so that it goes first
  const Stopwatch watch_;
  const std::shared_ptr<CancelToken> cancel_;
  CallContext call_;
  const std::shared_ptr<State> state_;
};

}  // namespace coterie

#endif  // COTERIE_API_RPC_CALL_H_
