#include "api/rpc_call.h"

#include <chrono>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/grpc_status.h"

namespace coterie {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context,
                      absl::Duration otherwise) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::Now() + otherwise;
  }
  return absl::FromChrono(deadline);
}

absl::Status CancelReason(const CallContext& call) {
  if (absl::Now() >= call.deadline) {
    return absl::DeadlineExceededError("the deadline passed");
  }
  return absl::CancelledError("the caller went away");
}

absl::Status CheckReplySize(const google::protobuf::Message& message,
                            const Limits& limits) {
  const int64_t bytes = static_cast<int64_t>(message.ByteSizeLong());
  if (bytes <= limits.message_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "the reply has ", bytes, " bytes, over the limit message_bytes of ",
      limits.message_bytes, "; ask for less at once"));
}

absl::Status ChargeRequest(const google::protobuf::Message& request,
                           ByteBudget* budget, ByteBudget::Lease* lease) {
  if (budget == nullptr) {
    return absl::OkStatus();
  }
  // A point of two components takes ten times as much here as on the wire.
  return budget->Take(static_cast<int64_t>(request.SpaceUsedLong()), lease);
}

void CountSent(const google::protobuf::Message& message,
               const RpcOptions& options) {
  if (options.counters != nullptr) {
    options.counters->CountSent(FramedBytes(message.ByteSizeLong()));
  }
}

void CountReceived(const google::protobuf::Message& message,
                   const RpcOptions& options) {
  if (options.counters != nullptr) {
    options.counters->CountReceived(FramedBytes(message.ByteSizeLong()));
  }
}

UnaryCall::UnaryCall(grpc::CallbackServerContext* context,
                     google::protobuf::Message* response,
                     absl::string_view method, absl::Duration default_deadline,
                     const RpcOptions& options)
    : response_(response),
      method_(method),
      options_(options),
      cancel_(std::make_shared<CancelToken>()),
      state_(std::make_shared<State>()) {
  call_.deadline = DeadlineOf(*context, default_deadline);
  call_.cancel = cancel_;
  state_->reactor = this;
}

absl::Status UnaryCall::Charge(const google::protobuf::Message& request) {
  return ChargeRequest(request, options_.budget.get(), &lease_);
}

grpc::ServerUnaryReactor* UnaryCall::Refuse(const absl::Status& status) {
  state_->Finish([&] { return status; });
  return this;
}

void UnaryCall::OnCancel() {
  cancel_->Cancel();
  state_->Finish([this] { return CancelReason(call_); });
}

void UnaryCall::State::Finish(absl::FunctionRef<absl::Status()> outcome) {
  if (finished.exchange(true)) {
    return;
  }
  absl::Status status = outcome();
  if (status.ok()) {
    status = CheckReplySize(*reactor->response_, reactor->options_.limits);
  }
  if (status.ok()) {
    CountSent(*reactor->response_, reactor->options_);
  }
  if (reactor->options_.observer) {
    reactor->options_.observer(reactor->method_, status.code(),
                               reactor->watch_.Seconds());
  }
  // After this the reactor may be gone at any moment.
  reactor->grpc::ServerUnaryReactor::Finish(ToGrpcStatus(status));
}

}  // namespace coterie
