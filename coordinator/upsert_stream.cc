#include "coordinator/upsert_stream.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "api/byte_budget.h"
#include "api/call.h"
#include "api/grpc_status.h"
#include "api/points_convert.h"
#include "api/stopwatch.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

constexpr absl::Duration kStreamDeadline = absl::Hours(1);

class UpsertStream final : public UpsertStreamReactor {
 public:
  UpsertStream(grpc::CallbackServerContext* context,
               const CoordinatorSlot& slot, const RpcOptions& options)
      : slot_(slot),
        options_(options),
        cancel_(std::make_shared<CancelToken>()),
        state_(std::make_shared<State>()) {
    call_.deadline = DeadlineOf(*context, kStreamDeadline);
    call_.cancel = cancel_;
    state_->reactor = this;
    MutexLock lock(&state_->mu);
    state_->reading = true;
    StartRead(&request_);
  }

 private:
  // Shared with the callbacks of upserts, which may outlive the RPC when its
  // caller goes away.
  struct State {
    Mutex mu;
    // request_ is gRPC's, or OnReadDone's until it has given the item away.
    bool reading ABSL_GUARDED_BY(mu) = false;
    bool writing ABSL_GUARDED_BY(mu) = false;
    bool half_closed ABSL_GUARDED_BY(mu) = false;
    bool finished ABSL_GUARDED_BY(mu) = false;
    // Read, but the answer not yet taken.
    int64_t in_work ABSL_GUARDED_BY(mu) = 0;
    // The last item read has a request id and is being upserted.
    bool ordered ABSL_GUARDED_BY(mu) = false;
    // The front one is being written, if `writing`.
    std::deque<v1::UpsertStreamResponse> answers ABSL_GUARDED_BY(mu);
    UpsertStream* reactor = nullptr;  // dangles once finished
  };

  ~UpsertStream() override = default;

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(&state_->mu);
      state_->reading = false;
      state_->half_closed = true;
      Proceed();
      return;
    }
    CountReceived(request_, options_);
    {
      MutexLock lock(&state_->mu);
      ++state_->in_work;
      state_->ordered = request_.request().has_request_id();
    }
    Upsert();
    MutexLock lock(&state_->mu);
    state_->reading = false;
    Proceed();
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&state_->mu);
    state_->writing = false;
    state_->answers.pop_front();
    --state_->in_work;
    if (!ok) {
      FinishWith(CancelReason(call_));
      return;
    }
    Proceed();
  }

  void OnCancel() override {
    cancel_->Cancel();
    MutexLock lock(&state_->mu);
    FinishWith(CancelReason(call_));
  }

  void OnDone() override { delete this; }

  // Upserts what request_ holds. The answer may come before this returns, or
  // after the RPC has ended.
  void Upsert() {
    const int64_t item = request_.item();
    const bool ordered = request_.request().has_request_id();
    auto lease = std::make_shared<ByteBudget::Lease>();
    auto answer = [state = state_, item, ordered, budget = options_.budget,
                   lease](absl::StatusOr<WriteReply> reply) {
      *lease = {};
      MutexLock lock(&state->mu);
      if (ordered) {
        state->ordered = false;
      }
      if (!state->finished) {
        state->reactor->Accept(item, reply);
      }
    };
    const absl::Status charged =
        ChargeRequest(request_, options_.budget.get(), lease.get());
    if (!charged.ok()) {
      answer(charged);
      return;
    }
    const absl::StatusOr<std::shared_ptr<Coordinator>> coordinator =
        slot_.Current();
    if (!coordinator.ok()) {
      answer(coordinator.status());
      return;
    }
    absl::StatusOr<WriteBatch> batch =
        DecodeUpsert(request_.request(), options_.limits);
    if (!batch.ok()) {
      answer(batch.status());
      return;
    }
    CallContext call = call_;
    call.deadline = std::min(call.deadline, absl::Now() + kWriteDeadline);
    (*coordinator)->Upsert(*std::move(batch), std::move(call), answer);
  }

  // Queues the answer of an item.
  void Accept(int64_t item, const absl::StatusOr<WriteReply>& reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    v1::UpsertStreamResponse& answer = state_->answers.emplace_back();
    answer.set_item(item);
    if (reply.ok()) {
      answer.mutable_ack()->set_upserted(reply->upserted);
      answer.mutable_ack()->set_duplicates(reply->duplicates);
    } else {
      *answer.mutable_error() = ToRpcStatus(reply.status());
    }
    Proceed();
  }

  // Starts whatever may be started now.
  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    State& state = *state_;
    if (state.finished) {
      return;
    }
    if (!state.writing && !state.answers.empty()) {
      state.writing = true;
      CountSent(state.answers.front(), options_);
      StartWrite(&state.answers.front());
    }
    if (state.half_closed && state.in_work == 0) {
      FinishWith(absl::OkStatus());
      return;
    }
    if (!state.reading && !state.half_closed && !state.ordered &&
        state.in_work < kItemsInWork) {
      state.reading = true;
      StartRead(&request_);
    }
  }

  void FinishWith(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (std::exchange(state_->finished, true)) {
      return;
    }
    if (options_.observer) {
      options_.observer("PointService/UpsertStream", status.code(),
                        watch_.Seconds());
    }
    // OnDone runs on another thread, after what is outstanding has ended.
    Finish(ToGrpcStatus(status));
  }

  const CoordinatorSlot& slot_;
  const RpcOptions options_;
  const Stopwatch watch_;
  const std::shared_ptr<CancelToken> cancel_;
  CallContext call_;
  const std::shared_ptr<State> state_;
  v1::UpsertStreamRequest request_;  // see state_->reading
};

}  // namespace

UpsertStreamReactor* StartUpsertStream(grpc::CallbackServerContext* context,
                                       const CoordinatorSlot& slot,
                                       const RpcOptions& options) {
  return new UpsertStream(context, slot, options);
}

}  // namespace coterie
