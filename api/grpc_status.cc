#include "api/grpc_status.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "api/v1/points.pb.h"
#include "api/write_outcome.h"
#include "google/rpc/error_details.pb.h"

namespace coterie {
namespace {

constexpr absl::string_view kDomain = "coterie";
constexpr absl::string_view kShardKey = "shard";

// Message and details are response headers, of which HTTP/2 peers take 8 KiB:
// a longer text would replace the error by one about headers. The message
// travels twice, once with three characters for a byte that is not ASCII.
constexpr size_t kMostBytes = 1024;

// Valid UTF-8 of at most kMostBytes; what is cut is marked.
std::string Trimmed(absl::string_view text) {
  constexpr absl::string_view kMark = "...";
  if (text.size() <= kMostBytes) return ToValidUtf8(text);
  text = text.substr(0, kMostBytes - kMark.size());
  // Not in the middle of a character.
  while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0xC0) == 0x80) {
    text.remove_suffix(1);
  }
  if (!text.empty() && static_cast<uint8_t>(text.back()) >= 0xC0) {
    text.remove_suffix(1);
  }
  return absl::StrCat(ToValidUtf8(text), kMark);
}

void AddField(const std::string& field, absl::string_view message,
              google::rpc::Status* out) {
  google::rpc::BadRequest bad_request;
  google::rpc::BadRequest::FieldViolation* violation =
      bad_request.add_field_violations();
  violation->set_field(Trimmed(field));
  absl::ConsumePrefix(&message, absl::StrCat(field, ": "));
  violation->set_description(Trimmed(message));
  out->add_details()->PackFrom(bad_request);
}

void AddShard(int32_t shard_id, absl::StatusCode code,
              google::rpc::Status* out) {
  google::rpc::ErrorInfo info;
  info.set_reason(absl::StatusCodeToString(code));
  info.set_domain(std::string(kDomain));
  (*info.mutable_metadata())[std::string(kShardKey)] = absl::StrCat(shard_id);
  out->add_details()->PackFrom(info);
}

void AddRetryAfter(absl::Duration delay, google::rpc::Status* out) {
  google::rpc::RetryInfo info;
  const int64_t seconds = absl::IDivDuration(delay, absl::Seconds(1), &delay);
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  out->add_details()->PackFrom(info);
}

// Failed parts first, then by shard, as many as fit.
void AddOutcome(const WriteOutcome& outcome, google::rpc::Status* out) {
  std::vector<WriteOutcome::Part> parts = outcome.parts;
  std::stable_partition(parts.begin(), parts.end(),
                        [](const WriteOutcome::Part& part) {
                          return part.code != absl::StatusCode::kOk;
                        });
  v1::WriteOutcome message;
  const auto encode = [&](bool with_slots, size_t count) {
    message.Clear();
    for (size_t i = 0; i < count; ++i) {
      v1::WriteOutcome::Part* part = message.add_parts();
      part->set_shard(parts[i].shard);
      part->set_items(parts[i].items);
      part->set_code(static_cast<int32_t>(parts[i].code));
      if (!with_slots) continue;
      part->mutable_slots()->Add(parts[i].slots.begin(), parts[i].slots.end());
    }
    message.set_parts_left_out(static_cast<int32_t>(parts.size() - count));
    return message.ByteSizeLong() <= kMostBytes;
  };
  size_t count = parts.size();
  if (!encode(/*with_slots=*/true, count)) {
    while (!encode(/*with_slots=*/false, count)) --count;
  }
  std::sort(
      message.mutable_parts()->begin(), message.mutable_parts()->end(),
      [](const v1::WriteOutcome::Part& a, const v1::WriteOutcome::Part& b) {
        return a.shard() < b.shard();
      });
  out->add_details()->PackFrom(message);
}

void TakeShard(const google::rpc::ErrorInfo& info, absl::Status* status) {
  if (info.domain() != kDomain) return;
  const auto it = info.metadata().find(std::string(kShardKey));
  int32_t shard_id = 0;
  if (it != info.metadata().end() && absl::SimpleAtoi(it->second, &shard_id) &&
      shard_id >= 0) {
    AttachShard(status, shard_id);
  }
}

void TakeRetryAfter(const google::rpc::RetryInfo& info, absl::Status* status) {
  const google::protobuf::Duration& delay = info.retry_delay();
  if (!info.has_retry_delay() || delay.seconds() < 0 || delay.nanos() < 0 ||
      delay.nanos() > 999999999) {
    return;
  }
  AttachRetryAfter(status, absl::Seconds(delay.seconds()) +
                               absl::Nanoseconds(delay.nanos()));
}

void TakeOutcome(const v1::WriteOutcome& message, absl::Status* status) {
  WriteOutcome outcome;
  for (const v1::WriteOutcome::Part& part : message.parts()) {
    outcome.parts.push_back({part.shard(),
                             part.items(),
                             {part.slots().begin(), part.slots().end()},
                             static_cast<absl::StatusCode>(part.code())});
  }
  AttachOutcome(status, outcome);
}

void TakeDetail(const google::protobuf::Any& any, absl::Status* status) {
  google::rpc::BadRequest bad_request;
  google::rpc::ErrorInfo info;
  google::rpc::RetryInfo retry;
  v1::WriteOutcome outcome;
  if (any.UnpackTo(&bad_request)) {
    if (!bad_request.field_violations().empty()) {
      AttachField(status, bad_request.field_violations(0).field());
    }
  } else if (any.UnpackTo(&info)) {
    TakeShard(info, status);
  } else if (any.UnpackTo(&retry)) {
    TakeRetryAfter(retry, status);
  } else if (any.UnpackTo(&outcome)) {
    TakeOutcome(outcome, status);
  }
}

// Both kinds of codes count 0..16 alike; what is outside is unknown.
absl::Status StatusOf(int code, absl::string_view message) {
  return absl::Status(code >= 0 && code <= 16
                          ? static_cast<absl::StatusCode>(code)
                          : absl::StatusCode::kUnknown,
                      message);
}

}  // namespace

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status rpc;
  rpc.set_code(static_cast<int>(status.code()));
  if (status.ok()) return rpc;
  rpc.set_message(Trimmed(status.message()));
  if (const auto field = FieldOf(status)) {
    AddField(*field, status.message(), &rpc);
  }
  if (const auto shard = ShardOf(status)) {
    AddShard(*shard, status.code(), &rpc);
  }
  if (const auto delay = RetryAfterOf(status)) AddRetryAfter(*delay, &rpc);
  if (const auto outcome = OutcomeOf(status)) AddOutcome(*outcome, &rpc);
  return rpc;
}

absl::Status FromRpcStatus(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  absl::Status result = StatusOf(status.code(), status.message());
  for (const google::protobuf::Any& any : status.details()) {
    TakeDetail(any, &result);
  }
  return result;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status rpc = ToRpcStatus(status);
  // Nothing if there is nothing to add to code and message.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      rpc.message(),
                      rpc.details().empty() ? "" : rpc.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result = StatusOf(status.error_code(), status.error_message());
  google::rpc::Status rpc;
  if (!status.error_details().empty() &&
      rpc.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& any : rpc.details()) {
      TakeDetail(any, &result);
    }
  }
  return result;
}

}  // namespace coterie
