#include "coordinator/remote_steps.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/job_convert.h"
#include "api/link_use.h"
#include "api/v1/shard.grpc.pb.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// The RPC. Owns itself from Start until gRPC is done with it. A hold keeps gRPC
// from ending it between steps; whatever fails lets go of it, and the step
// under way hears of it in OnDone.
class StepsCall final
    : public grpc::ClientBidiReactor<v1::JobStepRequest, v1::JobStepResponse> {
 public:
  explicit StepsCall(std::shared_ptr<ShardLink> link)
      : link_(std::move(link)), target_(link_->target()) {}

  void Start(std::shared_ptr<StepsCall> self) {
    self_ = std::move(self);
    target_->stub->async()->SgdSteps(&context_, this);
    AddHold();
    StartCall();
  }

  // False, and nothing is taken: the stream has ended.
  bool Step(v1::JobStepRequest* request, const LinkUse& use,
            const CallContext& call, Done<JobAnswer>* done) {
    std::shared_ptr<StepsCall> self;
    {
      MutexLock lock(&mu_);
      if (released_) return false;
      self = self_;
      waiting_ = std::move(*done);
      open_ = 2;
      ++turn_;
    }
    request_ = std::move(*request);
    use_ = use;
    call_ = call;
    if (call_.deadline != absl::InfiniteFuture()) SetAlarm(std::move(self));
    cancel_.emplace(call_.cancel, [this] { context_.TryCancel(); });
    // Reading may fail, and let the stream end, before writing has begun.
    AddHold();
    StartRead(&response_);
    StartWrite(&request_);
    RemoveHold();
    return true;
  }

  // There will be no further Step.
  void Abandon() {
    if (Release()) context_.TryCancel();
  }

 private:
  void SetAlarm(std::shared_ptr<StepsCall> self) {
    int64_t turn = 0;
    {
      MutexLock lock(&mu_);
      turn = turn_;
    }
    alarm_.emplace();
    alarm_->Set(absl::ToChronoTime(call_.deadline),
                [self = std::move(self), turn](bool expired) {
                  if (expired) self->Expire(turn);
                });
  }

  void Expire(int64_t turn) {
    {
      MutexLock lock(&mu_);
      if (turn != turn_ || !waiting_) return;
      expired_ = true;
    }
    context_.TryCancel();
  }

  void OnReadDone(bool ok) override { EndPart(ok); }
  void OnWriteDone(bool ok) override { EndPart(ok); }

  // A step is over when it has been both written and answered.
  void EndPart(bool ok) {
    if (!ok) {
      Release();
      return;
    }
    Done<JobAnswer> done;
    {
      MutexLock lock(&mu_);
      if (--open_ > 0) return;
      done = std::exchange(waiting_, nullptr);
    }
    cancel_.reset();
    alarm_.reset();
    if (!done) return;
    absl::StatusOr<JobAnswer> answer = Decode();
    // A stream that carries what it should not is used no more.
    if (!answer.ok()) Abandon();
    // This may end the stream, but not the reactor: this reaction is not over.
    done(std::move(answer));
  }

  absl::StatusOr<JobAnswer> Decode() {
    const absl::Status valid =
        link_->Receive(response_, response_.header(), &use_);
    if (!valid.ok()) return valid;
    absl::StatusOr<JobAnswer> answer = DecodeShardReply(response_);
    if (!answer.ok()) return link_->Named(answer.status());
    answer->link = use_;
    return answer;
  }

  void OnDone(const grpc::Status& status) override {
    cancel_.reset();
    alarm_.reset();
    std::shared_ptr<StepsCall> self;
    Done<JobAnswer> done;
    bool expired = false;
    {
      MutexLock lock(&mu_);
      self = std::move(self_);
      done = std::exchange(waiting_, nullptr);
      expired = expired_;
    }
    if (!done) return;
    if (expired) {
      return done(
          link_->Outcome(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, ""),
                         call_, target_->address));
    }
    const absl::Status end = link_->Outcome(status, call_, target_->address);
    done(!end.ok() ? end
                   : link_->Named(absl::UnavailableError(
                         "the shard ended the stream of steps")));
  }

  // Lets gRPC end the RPC; false if that has happened. Any thread.
  bool Release() {
    {
      MutexLock lock(&mu_);
      if (std::exchange(released_, true)) return false;
    }
    RemoveHold();
    return true;
  }

  const std::shared_ptr<ShardLink> link_;
  const std::shared_ptr<const ShardLink::Target> target_;
  grpc::ClientContext context_;

  // Of the step under way: Step's until it has started, then reactions'.
  v1::JobStepRequest request_;
  v1::JobStepResponse response_;
  LinkUse use_;
  CallContext call_;
  std::optional<CancelCallback> cancel_;
  std::optional<grpc::Alarm> alarm_;

  Mutex mu_;
  std::shared_ptr<StepsCall> self_ ABSL_GUARDED_BY(mu_);
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  bool expired_ ABSL_GUARDED_BY(mu_) = false;
  int open_ ABSL_GUARDED_BY(mu_) = 0;      // of reading and writing
  int64_t turn_ ABSL_GUARDED_BY(mu_) = 0;  // steps so far
  Done<JobAnswer> waiting_ ABSL_GUARDED_BY(mu_);
};

class RemoteSteps final : public StepStream {
 public:
  explicit RemoteSteps(std::shared_ptr<ShardLink> link)
      : link_(std::move(link)) {}
  ~RemoteSteps() override {
    if (call_ != nullptr) call_->Abandon();
  }

  void Step(JobStep step, CallContext call, Done<JobAnswer> done) override {
    v1::JobStepRequest request;
    EncodeShardRequest(step, &request);
    link_->Address(request.mutable_header());
    LinkUse use;
    absl::Status admitted = link_->Admit(request, call, &use);
    if (!admitted.ok()) return done(std::move(admitted));
    if (call_ != nullptr && call_->Step(&request, use, call, &done)) return;
    call_ = std::make_shared<StepsCall>(link_);
    call_->Start(call_);
    call_->Step(&request, use, call, &done);
  }

 private:
  const std::shared_ptr<ShardLink> link_;
  std::shared_ptr<StepsCall> call_;  // the newest
};

}  // namespace

std::unique_ptr<StepStream> MakeRemoteSteps(std::shared_ptr<ShardLink> link) {
  return std::make_unique<RemoteSteps>(std::move(link));
}

}  // namespace coterie
