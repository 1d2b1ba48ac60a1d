// A streamed scan: pages pulled one at a time, the next only when gRPC has
// taken the last, so that a slow reader costs one page of memory.
//
// Made by `new`; deletes itself when gRPC is done with it. Pages arrive on any
// thread.

#ifndef COTERIE_COORDINATOR_SCAN_CALL_H_
#define COTERIE_COORDINATOR_SCAN_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "api/call.h"
#include "api/shard_messages.h"
#include "api/v1/points.pb.h"
#include "coordinator/rpc_call.h"
#include "coordinator/shard_client.h"
#include "coordinator/stopwatch.h"
#include "sync/mutex.h"

namespace coterie {

class ScanCall final : public grpc::ServerWriteReactor<v1::ScanResponse> {
 public:
  // `method` has static storage.
  ScanCall(grpc::CallbackServerContext* context, absl::string_view method,
           const RpcOptions& options);

  const CallContext& call() const { return call_; }

  // Ends the RPC without work. Returns the reactor, for gRPC.
  grpc::ServerWriteReactor<v1::ScanResponse>* Refuse(
      const absl::Status& status);

  // Streams it all. Returns the reactor, for gRPC.
  grpc::ServerWriteReactor<v1::ScanResponse>* Run(
      std::unique_ptr<PointStream> stream);

 private:
  enum class Phase { kPulling, kWriting, kFinished };

  // Shared with the callback of a pull, which may outlive the RPC when its
  // caller goes away.
  struct State {
    Mutex mu;
    Phase phase ABSL_GUARDED_BY(mu) = Phase::kPulling;
    ScanCall* reactor = nullptr;  // dangles once finished
    std::unique_ptr<PointStream> stream;
  };

  ~ScanCall() override = default;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { delete this; }

  void Pull();
  // Writes the page, or finishes.
  void Accept(absl::StatusOr<ScanPage> page)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  void FinishWith(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);

  const absl::string_view method_;
  const Limits limits_;
  const RpcObserver observer_;
  const Stopwatch watch_;
  const std::shared_ptr<CancelToken> cancel_;
  CallContext call_;
  const std::shared_ptr<State> state_;
  v1::ScanResponse response_;  // the page under way
  bool last_ = false;          // it is the last
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SCAN_CALL_H_
