#include "coordinator/shard_link.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/grpc_status.h"
#include "api/shard_convert.h"
#include "api/status_details.h"

namespace coterie {
namespace {

// The same failure, details included, under another code and in other words.
absl::Status Reworded(const absl::Status& status, absl::StatusCode code,
                      absl::string_view message) {
  absl::Status reworded(code, message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    reworded.SetPayload(url, payload);
  });
  return reworded;
}

}  // namespace

void ShardLink::SetTarget(std::shared_ptr<grpc::Channel> channel,
                          std::string address) {
  auto target = std::make_shared<Target>();
  target->stub = v1::ShardService::NewStub(std::move(channel));
  target->address = std::move(address);
  MutexLock lock(&mu_);
  target_ = std::move(target);
}

std::shared_ptr<const ShardLink::Target> ShardLink::target() const {
  MutexLock lock(&mu_);
  return target_;
}

void ShardLink::Address(v1::ShardRequestHeader* header) const {
  if (shard_id_ >= 0) header->set_shard_id(shard_id_);
  header->set_cluster_uuid(options_.cluster_uuid);
  header->set_store_id(options_.store_id);
}

absl::Status ShardLink::Admit(const google::protobuf::Message& request,
                              const CallContext& call, absl::Duration longest,
                              grpc::ClientContext* context,
                              LinkUse* use) const {
  const absl::Time deadline = call.deadline == absl::InfiniteFuture()
                                  ? absl::Now() + longest
                                  : call.deadline;
  context->set_deadline(absl::ToChronoTime(deadline));
  return Admit(request, call, use);
}

absl::Status ShardLink::Admit(const google::protobuf::Message& request,
                              const CallContext& call, LinkUse* use) const {
  const absl::Status live = call.status();
  if (!live.ok()) return Named(live);
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong());
  if (bytes > options_.message_bytes) {
    return Named(absl::ResourceExhaustedError(
        absl::StrCat("the request to the shard has ", bytes,
                     " bytes, over the limit message_bytes of ",
                     options_.message_bytes, "; send less at once")));
  }
  use->bytes_sent += FramedBytes(static_cast<size_t>(bytes));
  if (options_.counters != nullptr) {
    options_.counters->CountSent(FramedBytes(static_cast<size_t>(bytes)));
  }
  return absl::OkStatus();
}

absl::Status ShardLink::Receive(const google::protobuf::Message& response,
                                const v1::ShardReplyHeader& header,
                                LinkUse* use) {
  const int64_t bytes = FramedBytes(response.ByteSizeLong());
  use->bytes_received += bytes;
  if (options_.counters != nullptr) options_.counters->CountReceived(bytes);
  const absl::Status valid = CheckShardReplyHeader(
      header,
      shard_id_ >= 0 ? std::optional<int32_t>(shard_id_) : std::nullopt);
  if (!valid.ok()) return Named(valid);
  use->shard_seconds = header.shard_seconds();
  incarnation_.store(header.incarnation(), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status ShardLink::Outcome(const grpc::Status& status,
                                const CallContext& call,
                                absl::string_view address) const {
  if (status.ok()) return absl::OkStatus();
  if (call.cancel != nullptr && call.cancel->cancelled()) {
    return Named(absl::CancelledError("the caller went away"));
  }
  const absl::Status told = FromGrpcStatus(status);
  const std::string message(told.message());
  switch (told.code()) {
    case absl::StatusCode::kCancelled:
      // Nobody here asked for it: the shard is going down.
      return Named(Reworded(told, absl::StatusCode::kUnavailable,
                            absl::StrCat(address, " ended the call")));
    case absl::StatusCode::kDeadlineExceeded:
      return Named(Reworded(
          told, told.code(),
          absl::StrCat("no answer from ", address, " before the deadline")));
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnknown:
      return Named(
          Reworded(told, told.code(), absl::StrCat(address, ": ", message)));
    case absl::StatusCode::kResourceExhausted:
      if (absl::StrContains(message, "message larger than max")) {
        return Named(Reworded(
            told, told.code(),
            absl::StrCat(
                "the shard's reply is over the limit message_bytes of ",
                options_.message_bytes, ": ", message)));
      }
      break;
    default:
      break;
  }
  return Named(told);
}

absl::Status ShardLink::Named(absl::Status status) const {
  return shard_id_ >= 0 ? WithShard(std::move(status), shard_id_) : status;
}

}  // namespace coterie
