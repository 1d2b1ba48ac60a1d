// ShardService's messages about jobs and records: proto <-> domain, both ways.
//
// As api/shard_convert.h: requests that decode satisfy the REQUIRES of domain
// code, or the status is INVALID_ARGUMENT naming field, value and limit;
// replies that decode are of the shape that was asked for, or the status is
// INTERNAL. What a step or partial says is for its kind's codec. Stateless; any
// thread. O(size of message).

#ifndef COTERIE_API_JOB_CONVERT_H_
#define COTERIE_API_JOB_CONVERT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "api/job_messages.h"
#include "api/limits.h"
#include "api/v1/shard.pb.h"

namespace coterie {

void EncodeShardRequest(const JobBegin& begin, v1::BeginJobRequest* out);
// Copies the step.
void EncodeShardRequest(const JobStep& step, v1::JobStepRequest* out);
void EncodeShardRequest(const JobLabel& label, v1::LabelRowsRequest* out);
void EncodeShardRequest(const JobRef& job, v1::EndJobRequest* out);
void EncodeShardRequest(const RecordsRequest& request,
                        v1::ReadRecordsRequest* out);
void EncodeShardRequest(const RecordPut& put, v1::PutRecordRequest* out);

absl::StatusOr<JobBegin> DecodeShardRequest(const v1::BeginJobRequest& request,
                                            const Limits& limits);
// The kind is the call's: whoever serves it fills it in.
absl::StatusOr<JobStep> DecodeShardRequest(const v1::JobStepRequest& request,
                                           const Limits& limits);
absl::StatusOr<JobLabel> DecodeShardRequest(const v1::LabelRowsRequest& request,
                                            const Limits& limits);
absl::StatusOr<JobRef> DecodeShardRequest(const v1::EndJobRequest& request,
                                          const Limits& limits);
absl::StatusOr<RecordsRequest> DecodeShardRequest(
    const v1::ReadRecordsRequest& request, const Limits& limits);
absl::StatusOr<RecordPut> DecodeShardRequest(
    const v1::PutRecordRequest& request, const Limits& limits);

void EncodeShardReply(const JobBegun& reply, v1::BeginJobResponse* out);
// Moves the partial.
void EncodeShardReply(JobAnswer reply, v1::JobStepResponse* out);
void EncodeShardReply(const JobLabelled& reply, v1::LabelRowsResponse* out);
void EncodeShardReply(bool ended, v1::EndJobResponse* out);
void EncodeShardReply(std::vector<StoredRecord> records,
                      v1::ReadRecordsResponse* out);
void EncodeShardReply(int64_t version, v1::PutRecordResponse* out);

absl::StatusOr<JobBegun> DecodeShardReply(const v1::BeginJobResponse& response);
absl::StatusOr<JobAnswer> DecodeShardReply(const v1::JobStepResponse& response);
absl::StatusOr<JobLabelled> DecodeShardReply(
    const v1::LabelRowsResponse& response);
absl::StatusOr<bool> DecodeShardReply(const v1::EndJobResponse& response);
// Keys rise and begin as asked.
absl::StatusOr<std::vector<StoredRecord>> DecodeShardReply(
    const v1::ReadRecordsResponse& response, const RecordsRequest& asked);
absl::StatusOr<int64_t> DecodeShardReply(const v1::PutRecordResponse& response);

}  // namespace coterie

#endif  // COTERIE_API_JOB_CONVERT_H_
