#include "api/status_details.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

constexpr absl::string_view kFieldUrl = "coterie/field";
constexpr absl::string_view kShardUrl = "coterie/shard";
constexpr absl::string_view kRetryUrl = "coterie/retry_after_nanoseconds";

std::optional<std::string> PayloadOf(const absl::Status& status,
                                     absl::string_view url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

}  // namespace

void AttachField(absl::Status* status, absl::string_view field) {
  status->SetPayload(kFieldUrl, absl::Cord(field));
}

void AttachShard(absl::Status* status, int32_t shard_id) {
  status->SetPayload(kShardUrl, absl::Cord(absl::StrCat(shard_id)));
}

void AttachRetryAfter(absl::Status* status, absl::Duration retry_after) {
  const int64_t nanoseconds =
      std::max(int64_t{0}, absl::ToInt64Nanoseconds(retry_after));
  status->SetPayload(kRetryUrl, absl::Cord(absl::StrCat(nanoseconds)));
}

absl::Status InvalidField(absl::string_view field,
                          absl::string_view description) {
  absl::Status status =
      absl::InvalidArgumentError(absl::StrCat(field, ": ", description));
  AttachField(&status, field);
  return status;
}

absl::Status OverLimit(absl::string_view field, int64_t value,
                       absl::string_view limit, int64_t bound) {
  return InvalidField(
      field, absl::StrCat(value, " is over the limit ", limit, " of ", bound));
}

absl::Status Overloaded(absl::string_view message, absl::Duration retry_after) {
  absl::Status status = absl::ResourceExhaustedError(message);
  AttachRetryAfter(&status, retry_after);
  return status;
}

absl::Status WithShard(absl::Status status, int32_t shard_id) {
  if (status.ok() || ShardOf(status).has_value()) return status;
  absl::Status named(status.code(),
                     absl::StrCat("shard ", shard_id, ": ", status.message()));
  status.ForEachPayload(
      [&named](absl::string_view url, const absl::Cord& payload) {
        named.SetPayload(url, payload);
      });
  AttachShard(&named, shard_id);
  return named;
}

std::optional<std::string> FieldOf(const absl::Status& status) {
  return PayloadOf(status, kFieldUrl);
}

std::optional<int32_t> ShardOf(const absl::Status& status) {
  const std::optional<std::string> text = PayloadOf(status, kShardUrl);
  int32_t shard_id = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &shard_id)) {
    return std::nullopt;
  }
  return shard_id;
}

std::optional<absl::Duration> RetryAfterOf(const absl::Status& status) {
  const std::optional<std::string> text = PayloadOf(status, kRetryUrl);
  int64_t nanoseconds = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &nanoseconds)) {
    return std::nullopt;
  }
  return absl::Nanoseconds(nanoseconds);
}

}  // namespace coterie
