#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/fake_shard_answer.h"
#include "coordinator/fake_shard_client.h"

namespace coterie {

void FakeShardClient::BeginJob(JobBegin /*begin*/, CallContext call,
                               Done<JobBegun> done) {
  Answer<JobBegun>(
      "BeginJob", call,
      []() -> absl::StatusOr<JobBegun> {
        return absl::UnimplementedError("a model of a shard has no jobs");
      },
      std::move(done));
}

void FakeShardClient::StepJob(JobStep /*step*/, CallContext call,
                              Done<JobAnswer> done) {
  Answer<JobAnswer>(
      "StepJob", call,
      []() -> absl::StatusOr<JobAnswer> {
        return absl::UnimplementedError("a model of a shard has no jobs");
      },
      std::move(done));
}

void FakeShardClient::LabelRows(JobLabel /*label*/, CallContext call,
                                Done<JobLabelled> done) {
  Answer<JobLabelled>(
      "LabelRows", call,
      []() -> absl::StatusOr<JobLabelled> {
        return absl::UnimplementedError("a model of a shard has no jobs");
      },
      std::move(done));
}

void FakeShardClient::EndJob(JobRef /*job*/, CallContext call,
                             Done<bool> done) {
  Answer<bool>(
      "EndJob", call,
      []() -> absl::StatusOr<bool> {
        return absl::UnimplementedError("a model of a shard has no jobs");
      },
      std::move(done));
}

absl::StatusOr<std::vector<StoredRecord>> FakeShardClient::RunReadRecords(
    const RecordsRequest& request) {
  MutexLock lock(&mu_);
  absl::StatusOr<const CollectionSpec*> spec =
      Find(request.collection, request.number);
  if (!spec.ok()) return spec.status();
  std::vector<StoredRecord> found;
  for (const auto& [key, record] : records_) {
    if (key.first != (*spec)->number ||
        !absl::StartsWith(key.second, request.prefix)) {
      continue;
    }
    found.push_back(record);
    if (!request.with_values) found.back().value.clear();
  }
  return found;
}

void FakeShardClient::ReadRecords(RecordsRequest request, CallContext call,
                                  Done<std::vector<StoredRecord>> done) {
  Answer<std::vector<StoredRecord>>(
      "ReadRecords", call,
      [this, request = std::move(request)] { return RunReadRecords(request); },
      std::move(done));
}

absl::StatusOr<int64_t> FakeShardClient::RunPutRecord(const RecordPut& put) {
  MutexLock lock(&mu_);
  absl::StatusOr<const CollectionSpec*> spec = Find(put.collection, put.number);
  if (!spec.ok()) return spec.status();
  const std::pair<uint32_t, std::string> key((*spec)->number, put.key);
  const auto at = records_.find(key);
  const int64_t version = at == records_.end() ? 0 : at->second.version;
  if (put.expected_version.value_or(version) != version) {
    return absl::AbortedError(absl::StrCat("record is at version ", version,
                                           ", not ", *put.expected_version));
  }
  if (!put.value.has_value()) {
    records_.erase(key);
    return 0;
  }
  records_[key] = {put.key, version + 1, *put.value, 0};
  return version + 1;
}

void FakeShardClient::PutRecord(RecordPut put, CallContext call,
                                Done<int64_t> done) {
  Answer<int64_t>(
      "PutRecord", call,
      [this, put = std::move(put)] { return RunPutRecord(put); },
      std::move(done));
}

}  // namespace coterie
