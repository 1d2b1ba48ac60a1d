#include "api/job_convert.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/attribute_convert.h"
#include "api/collection.h"
#include "api/points_convert.h"
#include "api/shard_reply_check.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr double kLeastLeaseSeconds = 1e-3;
constexpr double kMostLeaseSeconds = 86400;
constexpr int64_t kMostRowBytes = int64_t{1} << 20;
constexpr int32_t kMostThreads = 1 << 16;

absl::Status CheckKey(absl::string_view field, absl::string_view key,
                      int64_t least) {
  const auto bytes = static_cast<int64_t>(key.size());
  if (bytes >= least && bytes <= kMostRecordKeyBytes) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(bytes, " bytes are not in ", least,
                                          "..", kMostRecordKeyBytes));
}

void EncodeJob(const JobRef& job, v1::ShardRequestHeader* header,
               v1::ShardJob* out) {
  header->set_collection_number(job.number);
  out->set_collection(job.collection);
  out->set_name(job.name);
  out->set_owner_epoch(job.epoch);
}

absl::StatusOr<JobRef> DecodeJob(const v1::ShardRequestHeader& header,
                                 const v1::ShardJob& job,
                                 const Limits& limits) {
  absl::Status status = ValidateCollectionReference(job.collection(), limits);
  if (status.ok()) status = CheckKey("job.name", job.name(), 1);
  if (!status.ok()) return status;
  if (job.owner_epoch() < 1) {
    return InvalidField("job.owner_epoch",
                        absl::StrCat(job.owner_epoch(), " is less than 1"));
  }
  return JobRef{job.collection(), header.collection_number(), job.name(),
                job.owner_epoch()};
}

}  // namespace

// --- BeginJob ---------------------------------------------------------------

void EncodeShardRequest(const JobBegin& begin, v1::BeginJobRequest* out) {
  EncodeJob(begin.job, out->mutable_header(), out->mutable_job());
  out->set_kind(static_cast<v1::JobKind>(begin.kind));
  if (!begin.filter.empty()) EncodeFilter(begin.filter, out->mutable_filter());
  out->set_weight_attribute(begin.weight_attribute);
  out->set_label_attribute(begin.label_attribute);
  out->set_skip_missing(begin.skip_missing);
  out->set_lease_seconds(absl::ToDoubleSeconds(begin.lease));
  out->set_threads(begin.threads);
  out->set_row_bytes(begin.row_bytes);
  out->set_resume(begin.resume);
}

absl::StatusOr<JobBegin> DecodeShardRequest(const v1::BeginJobRequest& request,
                                            const Limits& limits) {
  auto job = DecodeJob(request.header(), request.job(), limits);
  if (!job.ok()) return job.status();
  const bool sgd = request.kind() == v1::SGD_TRAINING;
  if (request.kind() != v1::KMEANS && !sgd) {
    return InvalidField(
        "kind", absl::StrCat(static_cast<int>(request.kind()), " is no kind"));
  }
  auto filter = DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  if (!request.weight_attribute().empty()) {
    const absl::Status key = CheckAttributeKey(request.weight_attribute(),
                                               "weight_attribute", limits);
    if (!key.ok()) return key;
  }
  if (sgd != !request.label_attribute().empty() ||
      (sgd && !request.weight_attribute().empty())) {
    return InvalidField("label_attribute",
                        "SGD_TRAINING needs it, and no weights; other kinds "
                        "have none");
  }
  if (sgd) {
    const absl::Status key =
        CheckAttributeKey(request.label_attribute(), "label_attribute", limits);
    if (!key.ok()) return key;
  }
  // NaN is outside.
  if (!(request.lease_seconds() >= kLeastLeaseSeconds &&
        request.lease_seconds() <= kMostLeaseSeconds)) {
    return InvalidField(
        "lease_seconds",
        absl::StrCat(request.lease_seconds(), " is not in ", kLeastLeaseSeconds,
                     "..", kMostLeaseSeconds));
  }
  if (request.threads() < 0 || request.threads() > kMostThreads) {
    return InvalidField(
        "threads",
        absl::StrCat(request.threads(), " is not in 0..", kMostThreads));
  }
  if (request.row_bytes() < 0 || request.row_bytes() > kMostRowBytes) {
    return InvalidField(
        "row_bytes",
        absl::StrCat(request.row_bytes(), " is not in 0..", kMostRowBytes));
  }
  JobBegin begin;
  begin.job = *std::move(job);
  begin.kind = sgd ? JobKind::kSgd : JobKind::kKMeans;
  begin.filter = *std::move(filter);
  begin.weight_attribute = request.weight_attribute();
  begin.label_attribute = request.label_attribute();
  begin.skip_missing = request.skip_missing();
  begin.lease = absl::Seconds(request.lease_seconds());
  begin.threads = request.threads();
  begin.row_bytes = request.row_bytes();
  begin.resume = request.resume();
  return begin;
}

void EncodeShardReply(const JobBegun& reply, v1::BeginJobResponse* out) {
  out->set_sequence(reply.sequence);
  out->set_rows(reply.rows);
  out->set_rows_missing(reply.rows_missing);
}

absl::StatusOr<JobBegun> DecodeShardReply(
    const v1::BeginJobResponse& response) {
  const absl::Status status =
      CheckCounts({{"sequence", response.sequence()},
                   {"rows", response.rows()},
                   {"rows_missing", response.rows_missing()}});
  if (!status.ok()) return status;
  return JobBegun{response.sequence(), response.rows(),
                  response.rows_missing()};
}

// --- Steps ------------------------------------------------------------------

void EncodeShardRequest(const JobStep& step, v1::JobStepRequest* out) {
  EncodeJob(step.job, out->mutable_header(), out->mutable_job());
  out->set_step(*step.step);
}

absl::StatusOr<JobStep> DecodeShardRequest(const v1::JobStepRequest& request,
                                           const Limits& limits) {
  auto job = DecodeJob(request.header(), request.job(), limits);
  if (!job.ok()) return job.status();
  JobStep step;
  step.job = *std::move(job);
  step.step = std::make_shared<const std::string>(request.step());
  return step;
}

void EncodeShardReply(JobAnswer reply, v1::JobStepResponse* out) {
  out->set_partial(std::move(reply.partial));
  out->set_work_seconds(reply.work_seconds);
}

absl::StatusOr<JobAnswer> DecodeShardReply(
    const v1::JobStepResponse& response) {
  const absl::Status status =
      CheckSeconds("work_seconds", response.work_seconds());
  if (!status.ok()) return status;
  return JobAnswer{response.partial(), response.work_seconds()};
}

void EncodeShardRequest(const JobLabel& label, v1::LabelRowsRequest* out) {
  EncodeJob(label.job, out->mutable_header(), out->mutable_job());
  out->set_attribute(label.attribute);
}

absl::StatusOr<JobLabel> DecodeShardRequest(const v1::LabelRowsRequest& request,
                                            const Limits& limits) {
  auto job = DecodeJob(request.header(), request.job(), limits);
  if (!job.ok()) return job.status();
  const absl::Status key =
      CheckAttributeKey(request.attribute(), "attribute", limits);
  if (!key.ok()) return key;
  return JobLabel{*std::move(job), request.attribute()};
}

void EncodeShardReply(const JobLabelled& reply, v1::LabelRowsResponse* out) {
  out->set_labelled(reply.labelled);
  out->set_missing(reply.missing);
}

absl::StatusOr<JobLabelled> DecodeShardReply(
    const v1::LabelRowsResponse& response) {
  const absl::Status status = CheckCounts(
      {{"labelled", response.labelled()}, {"missing", response.missing()}});
  if (!status.ok()) return status;
  return JobLabelled{response.labelled(), response.missing()};
}

void EncodeShardRequest(const JobRef& job, v1::EndJobRequest* out) {
  EncodeJob(job, out->mutable_header(), out->mutable_job());
}

absl::StatusOr<JobRef> DecodeShardRequest(const v1::EndJobRequest& request,
                                          const Limits& limits) {
  return DecodeJob(request.header(), request.job(), limits);
}

void EncodeShardReply(bool ended, v1::EndJobResponse* out) {
  out->set_ended(ended);
}

absl::StatusOr<bool> DecodeShardReply(const v1::EndJobResponse& response) {
  return response.ended();
}

// --- Records ----------------------------------------------------------------

void EncodeShardRequest(const RecordsRequest& request,
                        v1::ReadRecordsRequest* out) {
  out->mutable_header()->set_collection_number(request.number);
  out->set_collection(request.collection);
  out->set_prefix(request.prefix);
  out->set_with_values(request.with_values);
}

absl::StatusOr<RecordsRequest> DecodeShardRequest(
    const v1::ReadRecordsRequest& request, const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (status.ok()) status = CheckKey("prefix", request.prefix(), 0);
  if (!status.ok()) return status;
  return RecordsRequest{request.collection(),
                        request.header().collection_number(), request.prefix(),
                        request.with_values()};
}

void EncodeShardReply(std::vector<StoredRecord> records,
                      v1::ReadRecordsResponse* out) {
  for (StoredRecord& record : records) {
    v1::StoredRecord* encoded = out->add_records();
    encoded->set_key(std::move(record.key));
    encoded->set_version(record.version);
    encoded->set_value(std::move(record.value));
    encoded->set_age_seconds(record.age_seconds);
  }
}

absl::StatusOr<std::vector<StoredRecord>> DecodeShardReply(
    const v1::ReadRecordsResponse& response, const RecordsRequest& asked) {
  std::vector<StoredRecord> records;
  for (const v1::StoredRecord& record : response.records()) {
    if (!absl::StartsWith(record.key(), asked.prefix) ||
        !CheckKey("key", record.key(), 1).ok() ||
        (!records.empty() && record.key() <= records.back().key)) {
      return Misfit(
          absl::StrCat("a record's key of ", record.key().size(),
                       " bytes is out of order or not what was asked for"));
    }
    if (record.version() < 1 ||
        (!asked.with_values && !record.value().empty())) {
      return Misfit("a record has no version, or a value nobody wanted");
    }
    const absl::Status age = CheckSeconds("age_seconds", record.age_seconds());
    if (!age.ok()) return age;
    records.push_back(
        {record.key(), record.version(), record.value(), record.age_seconds()});
  }
  return records;
}

void EncodeShardRequest(const RecordPut& put, v1::PutRecordRequest* out) {
  out->mutable_header()->set_collection_number(put.number);
  out->set_collection(put.collection);
  out->set_key(put.key);
  if (put.expected_version.has_value()) {
    out->set_expected_version(*put.expected_version);
  }
  if (put.value.has_value()) out->set_value(*put.value);
}

absl::StatusOr<RecordPut> DecodeShardRequest(
    const v1::PutRecordRequest& request, const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (status.ok()) status = CheckKey("key", request.key(), 1);
  if (!status.ok()) return status;
  if (request.expected_version() < 0) {
    return InvalidField(
        "expected_version",
        absl::StrCat(request.expected_version(), " is negative"));
  }
  const auto bytes = static_cast<int64_t>(request.value().size());
  if (bytes > kMostRecordBytes) {
    return OverLimit("value", bytes, "record_bytes", kMostRecordBytes);
  }
  RecordPut put{request.collection(),
                request.header().collection_number(),
                request.key(),
                {},
                {}};
  if (request.has_expected_version()) {
    put.expected_version = request.expected_version();
  }
  if (request.has_value()) put.value = request.value();
  return put;
}

void EncodeShardReply(int64_t version, v1::PutRecordResponse* out) {
  out->set_version(version);
}

absl::StatusOr<int64_t> DecodeShardReply(
    const v1::PutRecordResponse& response) {
  const absl::Status status = CheckCounts({{"version", response.version()}});
  if (!status.ok()) return status;
  return response.version();
}

}  // namespace coterie
