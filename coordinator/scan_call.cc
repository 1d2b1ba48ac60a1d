#include "coordinator/scan_call.h"

#include <utility>

#include "api/grpc_status.h"
#include "api/points_convert.h"

namespace coterie {

ScanCall::ScanCall(grpc::CallbackServerContext* context,
                   absl::string_view method, const RpcOptions& options)
    : method_(method),
      limits_(options.limits),
      observer_(options.observer),
      cancel_(std::make_shared<CancelToken>()),
      state_(std::make_shared<State>()) {
  call_.deadline = DeadlineOf(*context, kScanDeadline);
  call_.cancel = cancel_;
  state_->reactor = this;
}

grpc::ServerWriteReactor<v1::ScanResponse>* ScanCall::Refuse(
    const absl::Status& status) {
  MutexLock lock(&state_->mu);
  FinishWith(status);
  return this;
}

grpc::ServerWriteReactor<v1::ScanResponse>* ScanCall::Run(
    std::unique_ptr<PointStream> stream) {
  state_->stream = std::move(stream);
  Pull();
  return this;
}

void ScanCall::Pull() {
  state_->stream->Next([state = state_](absl::StatusOr<ScanPage> page) {
    MutexLock lock(&state->mu);
    if (state->phase != Phase::kFinished) {
      state->reactor->Accept(std::move(page));
    }
  });
}

void ScanCall::Accept(absl::StatusOr<ScanPage> page) {
  if (!page.ok()) {
    FinishWith(page.status());
    return;
  }
  last_ = page->end;
  if (last_ && page->points.empty()) {
    FinishWith(absl::OkStatus());
    return;
  }
  response_.Clear();
  for (const Point& point : page->points) {
    EncodePoint(point, response_.add_points());
  }
  absl::Status fits = CheckReplySize(response_, limits_);
  if (!fits.ok()) {
    FinishWith(fits);
    return;
  }
  state_->phase = Phase::kWriting;
  StartWrite(&response_);
}

void ScanCall::OnWriteDone(bool ok) {
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

void ScanCall::OnCancel() {
  cancel_->Cancel();
  MutexLock lock(&state_->mu);
  // A write under way ends by itself, and finishes then.
  if (state_->phase == Phase::kPulling) {
    FinishWith(CancelReason(call_));
  }
}

void ScanCall::FinishWith(const absl::Status& status) {
  state_->phase = Phase::kFinished;
  if (observer_) {
    observer_(method_, status.code(), watch_.Seconds());
  }
  // OnDone runs on another thread, possibly before this returns.
  Finish(ToGrpcStatus(status));
}

}  // namespace coterie
