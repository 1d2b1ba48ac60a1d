// The one place where absl::Status and grpc::Status meet.
//
// Codes map one to one. Details (api/status_details.h) travel as a serialised
// google.rpc.Status in the error details: BadRequest for a field, ErrorInfo
// {domain "coterie", metadata shard} for a shard, RetryInfo for a delay,
// coterie.v1.WriteOutcome for what a failed write did (cut to about 1 KiB).
// Texts are cut at 1 KiB each and made valid UTF-8, so that the error fits into
// the 8 KiB that HTTP/2 peers take as headers. Stateless; any thread.

#ifndef COTERIE_API_GRPC_STATUS_H_
#define COTERIE_API_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"

namespace coterie {

grpc::Status ToGrpcStatus(const absl::Status& status);

// Inverse of ToGrpcStatus; unknown details are dropped.
absl::Status FromGrpcStatus(const grpc::Status& status);

// The same as a message, for answers that stand inside a stream. OK is code 0.
google::rpc::Status ToRpcStatus(const absl::Status& status);
absl::Status FromRpcStatus(const google::rpc::Status& status);

}  // namespace coterie

#endif  // COTERIE_API_GRPC_STATUS_H_
