// A streamed reply: pages pulled one at a time, the next only when gRPC has
// taken the last, so that a slow reader costs one page of memory.
//
// Made by `new`; deletes itself when gRPC is done with it. Pages arrive on any
// thread.

#ifndef COTERIE_API_SCAN_CALL_H_
#define COTERIE_API_SCAN_CALL_H_

#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/byte_budget.h"
#include "api/call.h"
#include "api/grpc_status.h"
#include "api/rpc_call.h"
#include "api/shard_messages.h"
#include "api/stopwatch.h"
#include "sync/mutex.h"

namespace coterie {

// Whether a last page need not be sent.
inline bool SaysNothing(const ScanPage& page) { return page.points.empty(); }

// A Page has `end`, and a SaysNothing.
template <typename Response, typename Page = ScanPage>
class ScanCall final : public grpc::ServerWriteReactor<Response> {
 public:
  // Writes a page into a cleared message. Called for one page at a time.
  using Encode = absl::AnyInvocable<void(const Page&, Response*)>;

  // `method` has static storage.
  ScanCall(grpc::CallbackServerContext* context, absl::string_view method,
           const RpcOptions& options,
           absl::Duration default_deadline = kScanDeadline)
      : method_(method),
        options_(options),
        cancel_(std::make_shared<CancelToken>()),
        state_(std::make_shared<State>()) {
    call_.deadline = DeadlineOf(*context, default_deadline);
    call_.cancel = cancel_;
    state_->reactor = this;
  }

  const CallContext& call() const { return call_; }

  // Ends the RPC without work. Returns the reactor, for gRPC.
  grpc::ServerWriteReactor<Response>* Refuse(const absl::Status& status) {
    MutexLock lock(&state_->mu);
    FinishWith(status);
    return this;
  }

  // As UnaryCall::Charge.
  absl::Status Charge(const google::protobuf::Message& request) {
    return ChargeRequest(request, options_.budget.get(), &lease_);
  }

  // Streams it all; of a Stream is asked what PointStream offers, `Next`.
  // Returns the reactor, for gRPC.
  template <typename Stream>
  grpc::ServerWriteReactor<Response>* Run(std::unique_ptr<Stream> stream,
                                          Encode encode) {
    encode_ = std::move(encode);
    state_->next = [stream = std::move(stream)](Done<Page> done) {
      stream->Next(std::move(done));
    };
    Pull();
    return this;
  }

 private:
  enum class Phase { kPulling, kWriting, kFinished };

  // Shared with the callback of a pull, which may outlive the RPC when its
  // caller goes away.
  struct State {
    Mutex mu;
    Phase phase ABSL_GUARDED_BY(mu) = Phase::kPulling;
    ScanCall* reactor = nullptr;  // dangles once finished
    absl::AnyInvocable<void(Done<Page>)> next;
  };

  ~ScanCall() override = default;

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(&state_->mu);
      if (!ok || cancel_->cancelled()) {
        FinishWith(CancelReason(call_));
        return;
      }
      if (last_) {
        FinishWith(absl::OkStatus());
        return;
      }
      state_->phase = Phase::kPulling;
    }
    Pull();
  }

  void OnCancel() override {
    cancel_->Cancel();
    MutexLock lock(&state_->mu);
    // A write under way ends by itself, and finishes then.
    if (state_->phase == Phase::kPulling) {
      FinishWith(CancelReason(call_));
    }
  }

  void OnDone() override { delete this; }

  void Pull() {
    // The RPC may end, and this with it, while the stream still answers.
    const std::shared_ptr<State> state = state_;
    state->next([state](absl::StatusOr<Page> page) {
      MutexLock lock(&state->mu);
      if (state->phase != Phase::kFinished) {
        state->reactor->Accept(std::move(page));
      }
    });
  }

  // Writes the page, or finishes.
  void Accept(absl::StatusOr<Page> page)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (!page.ok()) {
      FinishWith(page.status());
      return;
    }
    last_ = page->end;
    if (last_ && SaysNothing(*page)) {
      FinishWith(absl::OkStatus());
      return;
    }
    response_.Clear();
    encode_(*page, &response_);
    const absl::Status fits = CheckReplySize(response_, options_.limits);
    if (!fits.ok()) {
      FinishWith(fits);
      return;
    }
    CountSent(response_, options_);
    state_->phase = Phase::kWriting;
    this->StartWrite(&response_);
  }

  void FinishWith(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    state_->phase = Phase::kFinished;
    if (options_.observer) {
      options_.observer(method_, status.code(), watch_.Seconds());
    }
    // OnDone runs on another thread, possibly before this returns.
    this->Finish(ToGrpcStatus(status));
  }

  const absl::string_view method_;
  const RpcOptions options_;
  ByteBudget::Lease lease_;  // after options_, so that it goes first
  const Stopwatch watch_;
  const std::shared_ptr<CancelToken> cancel_;
  CallContext call_;
  const std::shared_ptr<State> state_;
  Encode encode_;
  Response response_;  // the page under way
  bool last_ = false;  // it is the last
};

}  // namespace coterie

#endif  // COTERIE_API_SCAN_CALL_H_
