#include "coordinator/job_store.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/await.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "training/byte_archive.h"

namespace coterie {
namespace {

std::string JobKey(absl::string_view name) {
  return absl::StrCat("job/", name);
}
std::string ResultKey(JobKind kind, absl::string_view name) {
  return absl::StrCat(kind == JobKind::kSgd ? "model/" : "clustering/", name);
}
absl::string_view ResultWord(JobKind kind) {
  return kind == JobKind::kSgd ? "model" : "clustering";
}
std::string BlobPrefix(absl::string_view owner) {
  return absl::StrCat("blob/", owner, "/");
}
std::string PartKey(absl::string_view owner, absl::string_view generation,
                    int64_t part) {
  return absl::StrCat(BlobPrefix(owner), generation,
                      absl::StrFormat("/%05d", part));
}

std::string NewGeneration() {
  std::random_device random;
  return absl::StrFormat("%08x%08x", random(), random());
}

absl::Status NoSuch(absl::string_view what, const CollectionSpec& spec,
                    absl::string_view name) {
  return absl::NotFoundError(absl::StrCat("collection ", Quoted(spec.name),
                                          " has no ", what, " ", Quoted(name)));
}

}  // namespace

absl::StatusOr<CollectionSpec> JobStore::Find(const std::string& collection,
                                              const CallContext& call) const {
  const auto route = Await<CollectionRoute>([&](Done<CollectionRoute> done) {
    catalogue_->Route(
        collection, [](const CollectionSpec&) { return absl::OkStatus(); },
        call, std::move(done));
  });
  if (!route.ok()) return route.status();
  return *route->spec;
}

absl::StatusOr<std::vector<CollectionSpec>> JobStore::Collections(
    const CallContext& call) const {
  const auto fresh =
      Await<CatalogueSnapshot>([&](Done<CatalogueSnapshot> done) {
        catalogue_->Refresh(call, std::move(done));
      });
  if (!fresh.ok()) return fresh.status();
  return (*fresh)->collections;
}

absl::StatusOr<std::vector<StoredRecord>> JobStore::Read(
    const CollectionSpec& spec, std::string prefix, bool with_values,
    const CallContext& call) const {
  auto records = Await<std::vector<StoredRecord>>(
      [&](Done<std::vector<StoredRecord>> done) {
        shard0().ReadRecords(
            {spec.name, spec.number, std::move(prefix), with_values}, call,
            std::move(done));
      });
  if (!records.ok()) return WithShard(records.status(), 0);
  return records;
}

absl::StatusOr<StoredRecord> JobStore::ReadOne(const CollectionSpec& spec,
                                               const std::string& key,
                                               const CallContext& call) const {
  auto records = Read(spec, key, true, call);
  if (!records.ok()) return records.status();
  // It is the first of those that begin so.
  if (records->empty() || records->front().key != key) {
    return absl::NotFoundError(key);
  }
  return std::move(records->front());
}

absl::StatusOr<int64_t> JobStore::Put(const CollectionSpec& spec, RecordPut put,
                                      const CallContext& call) const {
  put.collection = spec.name;
  put.number = spec.number;
  const auto version = Await<int64_t>([&](Done<int64_t> done) {
    shard0().PutRecord(std::move(put), call, std::move(done));
  });
  if (!version.ok()) return WithShard(version.status(), 0);
  return version;
}

absl::StatusOr<JobStore::StoredJob> JobStore::ReadJob(
    const CollectionSpec& spec, const std::string& name,
    const CallContext& call) const {
  const auto stored = ReadOne(spec, JobKey(name), call);
  if (absl::IsNotFound(stored.status()) && !ShardOf(stored.status())) {
    return NoSuch("job", spec, name);
  }
  if (!stored.ok()) return stored.status();
  auto record = DecodeJobRecord(stored->value);
  if (!record.ok()) return record.status();
  record->info.collection = spec.name;
  record->info.name = name;
  record->info.age_seconds = stored->age_seconds;
  return StoredJob{*std::move(record), stored->version};
}

absl::StatusOr<std::vector<JobInfo>> JobStore::ListJobs(
    const CollectionSpec& spec, const CallContext& call) const {
  const auto records = Read(spec, JobKey(""), true, call);
  if (!records.ok()) return records.status();
  std::vector<JobInfo> jobs;
  for (const StoredRecord& stored : *records) {
    auto record = DecodeJobRecord(stored.value);
    if (!record.ok()) return record.status();
    record->info.collection = spec.name;
    record->info.name = stored.key.substr(JobKey("").size());
    record->info.age_seconds = stored.age_seconds;
    jobs.push_back(std::move(record->info));
  }
  return jobs;
}

absl::StatusOr<int64_t> JobStore::PutJob(const CollectionSpec& spec,
                                         const JobRecord& record,
                                         int64_t expected,
                                         const CallContext& call) const {
  return Put(spec,
             {.key = JobKey(record.info.name),
              .expected_version = expected,
              .value = EncodeJobRecord(record)},
             call);
}

absl::StatusOr<BlobRef> JobStore::SaveBlob(const CollectionSpec& spec,
                                           absl::string_view owner,
                                           absl::string_view bytes,
                                           const CallContext& call) const {
  BlobRef blob;
  blob.generation = NewGeneration();
  blob.bytes = static_cast<int64_t>(bytes.size());
  blob.checksum = ByteChecksum(bytes);
  for (int64_t at = 0; at < blob.bytes; at += kMostRecordBytes) {
    const auto version =
        Put(spec,
            {.key = PartKey(owner, blob.generation, at / kMostRecordBytes),
             .expected_version = 0,
             .value = std::string(bytes.substr(static_cast<size_t>(at),
                                               size_t{kMostRecordBytes}))},
            call);
    if (!version.ok()) return version.status();
  }
  return blob;
}

absl::StatusOr<std::string> JobStore::LoadBlob(const CollectionSpec& spec,
                                               absl::string_view owner,
                                               const BlobRef& blob,
                                               const CallContext& call) const {
  std::string bytes;
  for (int64_t at = 0; at < blob.bytes; at += kMostRecordBytes) {
    const auto part = ReadOne(
        spec, PartKey(owner, blob.generation, at / kMostRecordBytes), call);
    if (!part.ok()) return part.status();
    bytes += part->value;
  }
  if (static_cast<int64_t>(bytes.size()) != blob.bytes ||
      ByteChecksum(bytes) != blob.checksum) {
    return absl::DataLossError(absl::StrCat("the bytes kept for ", owner,
                                            " are ", bytes.size(), ", not the ",
                                            blob.bytes, " that were written"));
  }
  return bytes;
}

absl::Status JobStore::DropBlobs(const CollectionSpec& spec,
                                 absl::string_view owner, const BlobRef& keep,
                                 const CallContext& call) const {
  const auto records = Read(spec, BlobPrefix(owner), false, call);
  if (!records.ok()) return records.status();
  const std::string kept =
      absl::StrCat(BlobPrefix(owner), keep.generation, "/");
  for (const StoredRecord& record : *records) {
    if (!keep.generation.empty() && absl::StartsWith(record.key, kept)) {
      continue;
    }
    const auto version = Put(spec, {.key = record.key}, call);
    if (!version.ok()) return version.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> JobStore::ResultVersion(const CollectionSpec& spec,
                                                JobKind kind,
                                                const std::string& name,
                                                const CallContext& call) const {
  const auto head = ReadOne(spec, ResultKey(kind, name), call);
  if (absl::IsNotFound(head.status()) && !ShardOf(head.status())) return 0;
  if (!head.ok()) return head.status();
  return head->version;
}

absl::Status JobStore::PutResult(const CollectionSpec& spec,
                                 const JobResult& result, int64_t expected,
                                 const CallContext& call) const {
  const auto* model = std::get_if<TrainedModel>(&result);
  const auto* clustering = std::get_if<Clustering>(&result);
  const std::string owner = model != nullptr
                                ? ResultKey(JobKind::kSgd, model->name)
                                : ResultKey(JobKind::kKMeans, clustering->name);
  const auto blob = SaveBlob(spec, owner,
                             model != nullptr ? EncodeTrainedModel(*model)
                                              : EncodeClustering(*clustering),
                             call);
  if (!blob.ok()) return blob.status();
  const auto version = Put(spec,
                           {.key = owner,
                            .expected_version = expected,
                            .value = EncodeBlobRef(*blob)},
                           call);
  if (!version.ok()) return version.status();
  return DropBlobs(spec, owner, *blob, call);
}

absl::StatusOr<std::string> JobStore::ReadResult(const CollectionSpec& spec,
                                                 JobKind kind,
                                                 const std::string& name,
                                                 const CallContext& call,
                                                 double* age_seconds) const {
  const std::string owner = ResultKey(kind, name);
  const auto head = ReadOne(spec, owner, call);
  if (absl::IsNotFound(head.status()) && !ShardOf(head.status())) {
    return NoSuch(ResultWord(kind), spec, name);
  }
  if (!head.ok()) return head.status();
  const auto blob = DecodeBlobRef(head->value);
  if (!blob.ok()) return blob.status();
  *age_seconds = head->age_seconds;
  return LoadBlob(spec, owner, *blob, call);
}

absl::StatusOr<Clustering> JobStore::ReadClustering(
    const CollectionSpec& spec, const std::string& name,
    const CallContext& call) const {
  double age_seconds = 0;
  const auto bytes =
      ReadResult(spec, JobKind::kKMeans, name, call, &age_seconds);
  if (!bytes.ok()) return bytes.status();
  auto clustering = DecodeClustering(*bytes);
  if (clustering.ok()) clustering->age_seconds = age_seconds;
  return clustering;
}

absl::StatusOr<TrainedModel> JobStore::ReadModel(
    const CollectionSpec& spec, const std::string& name,
    const CallContext& call) const {
  double age_seconds = 0;
  const auto bytes = ReadResult(spec, JobKind::kSgd, name, call, &age_seconds);
  if (!bytes.ok()) return bytes.status();
  auto model = DecodeTrainedModel(*bytes);
  if (model.ok()) model->age_seconds = age_seconds;
  return model;
}

absl::StatusOr<std::vector<std::string>> JobStore::ListResults(
    const CollectionSpec& spec, JobKind kind, const CallContext& call) const {
  const auto records = Read(spec, ResultKey(kind, ""), false, call);
  if (!records.ok()) return records.status();
  std::vector<std::string> names;
  for (const StoredRecord& record : *records) {
    names.push_back(record.key.substr(ResultKey(kind, "").size()));
  }
  return names;
}

absl::Status JobStore::DeleteResult(const CollectionSpec& spec, JobKind kind,
                                    const std::string& name,
                                    const CallContext& call) const {
  const auto version = ResultVersion(spec, kind, name, call);
  if (!version.ok()) return version.status();
  auto job = ReadJob(spec, name, call);
  if (!job.ok() && (!absl::IsNotFound(job.status()) || ShardOf(job.status()))) {
    return job.status();
  }
  // A job of this name and another kind is none of ours.
  if (job.ok() && job->record.info.kind != kind) job = absl::NotFoundError("");
  if (*version == 0 && !job.ok()) return NoSuch(ResultWord(kind), spec, name);
  if (job.ok() && job->record.info.state == JobState::kRunning) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", Quoted(name), " is running; cancel it first"));
  }
  if (*version != 0) {
    const auto gone =
        Put(spec, {.key = ResultKey(kind, name), .expected_version = *version},
            call);
    if (!gone.ok()) return gone.status();
  }
  if (job.ok()) {
    const auto gone = Put(
        spec, {.key = JobKey(name), .expected_version = job->version}, call);
    if (!gone.ok()) return gone.status();
  }
  if (job.ok()) {
    const absl::Status dropped = DropBlobs(spec, JobKey(name), {}, call);
    if (!dropped.ok()) return dropped;
  }
  return DropBlobs(spec, ResultKey(kind, name), {}, call);
}

}  // namespace coterie
