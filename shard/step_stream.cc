#include "shard/step_stream.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "api/byte_budget.h"
#include "api/call.h"
#include "api/grpc_status.h"
#include "api/job_convert.h"
#include "api/shard_convert.h"
#include "api/stopwatch.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

class StepStream final : public StepStreamReactor {
 public:
  StepStream(Shard* shard, const RpcOptions& options)
      : shard_(shard),
        options_(options),
        cancel_(std::make_shared<CancelToken>()),
        state_(std::make_shared<State>()) {
    state_->reactor = this;
  }

  void Refuse(const absl::Status& status) {
    MutexLock lock(&state_->mu);
    FinishWith(status);
  }
  void Begin() { StartRead(&request_); }

 private:
  // Shared with the callback of a step, which may outlive the RPC when its
  // caller goes away.
  struct State {
    Mutex mu;
    bool finished ABSL_GUARDED_BY(mu) = false;
    StepStream* reactor = nullptr;  // dangles once finished
  };

  ~StepStream() override = default;

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(&state_->mu);
      // The caller needs no more steps.
      FinishWith(absl::OkStatus());
      return;
    }
    CountReceived(request_, options_);
    auto lease = std::make_shared<ByteBudget::Lease>();
    auto answer = [state = state_, budget = options_.budget, lease,
                   watch = Stopwatch()](absl::StatusOr<JobAnswer> reply) {
      *lease = {};
      MutexLock lock(&state->mu);
      if (!state->finished) state->reactor->Answer(std::move(reply), watch);
    };
    absl::Status admitted =
        ChargeRequest(request_, options_.budget.get(), lease.get());
    if (admitted.ok()) {
      admitted =
          CheckShardRequestHeader(request_.header(), shard_->shard_id(),
                                  shard_->cluster_uuid(), shard_->store_id());
    }
    if (!admitted.ok()) return answer(admitted);
    absl::StatusOr<JobStep> step =
        DecodeShardRequest(request_, options_.limits);
    if (!step.ok()) return answer(step.status());
    shard_->StepSgdJob(*std::move(step), {absl::Now() + kJobDeadline, cancel_},
                       std::move(answer));
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&state_->mu);
    if (state_->finished) return;
    if (!ok) return FinishWith(absl::CancelledError("the caller went away"));
    StartRead(&request_);
  }

  void OnCancel() override {
    cancel_->Cancel();
    MutexLock lock(&state_->mu);
    FinishWith(absl::CancelledError("the caller went away"));
  }

  void OnDone() override { delete this; }

  void Answer(absl::StatusOr<JobAnswer> reply, const Stopwatch& watch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (!reply.ok()) return FinishWith(reply.status());
    response_.Clear();
    EncodeShardReply(std::move(*reply), &response_);
    v1::ShardReplyHeader* header = response_.mutable_header();
    header->set_shard_id(shard_->shard_id());
    header->set_incarnation(shard_->incarnation());
    header->set_shard_seconds(watch.Seconds());
    const absl::Status fits = CheckReplySize(response_, options_.limits);
    if (!fits.ok()) return FinishWith(fits);
    CountSent(response_, options_);
    StartWrite(&response_);
  }

  void FinishWith(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (std::exchange(state_->finished, true)) return;
    if (options_.observer) {
      options_.observer("ShardService/SgdSteps", status.code(),
                        watch_.Seconds());
    }
    // OnDone runs on another thread, after what is outstanding has ended.
    Finish(ToGrpcStatus(status));
  }

  Shard* const shard_;  // null: refused
  const RpcOptions options_;
  const Stopwatch watch_;
  const std::shared_ptr<CancelToken> cancel_;
  const std::shared_ptr<State> state_;
  // gRPC's while it reads or writes, else of the step under way.
  v1::JobStepRequest request_;
  v1::JobStepResponse response_;
};

}  // namespace

StepStreamReactor* StartStepStream(Shard* shard, const RpcOptions& options) {
  auto* stream = new StepStream(shard, options);
  stream->Begin();
  return stream;
}

StepStreamReactor* RefuseStepStream(const absl::Status& status,
                                    const RpcOptions& options) {
  auto* stream = new StepStream(nullptr, options);
  stream->Refuse(status);
  return stream;
}

}  // namespace coterie
