// Structured facts on an absl::Status, for code that knows no protobuf: which
// field is wrong, which shard is at fault, when to try again. api/grpc_status
// turns them into google.rpc details at the edge and back.
//
// Stateless; any thread.

#ifndef COTERIE_API_STATUS_DETAILS_H_
#define COTERIE_API_STATUS_DETAILS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace coterie {

// INVALID_ARGUMENT "<field>: <description>"; the field becomes a BadRequest
// violation. Field paths read as in the proto: "points[3].vector".
absl::Status InvalidField(absl::string_view field,
                          absl::string_view description);

// The same for a value above a bound (api/limits.h):
// "<field>: <value> is over the limit <limit> of <bound>".
absl::Status OverLimit(absl::string_view field, int64_t value,
                       absl::string_view limit, int64_t bound);

// RESOURCE_EXHAUSTED with a delay after which a retry is sensible (RetryInfo).
absl::Status Overloaded(absl::string_view message, absl::Duration retry_after);

// The same status, naming the shard in the message ("shard 2: ...") and in a
// detail (ErrorInfo). OK stays OK; a shard already named is kept.
absl::Status WithShard(absl::Status status, int32_t shard_id);

// The detail alone, for edges that rebuild a status: the message stays. OK
// stays OK. A delay is cut to 0..292 years.
void AttachField(absl::Status* status, absl::string_view field);
void AttachShard(absl::Status* status, int32_t shard_id);
void AttachRetryAfter(absl::Status* status, absl::Duration retry_after);

std::optional<std::string> FieldOf(const absl::Status& status);
std::optional<int32_t> ShardOf(const absl::Status& status);
std::optional<absl::Duration> RetryAfterOf(const absl::Status& status);

}  // namespace coterie

#endif  // COTERIE_API_STATUS_DETAILS_H_
