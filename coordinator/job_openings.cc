#include "coordinator/job_openings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "training/kmeans_checkpoint.h"
#include "training/kmeans_codec.h"

namespace coterie {
namespace {

constexpr int64_t kMostJobs = 1024;  // of a collection, whatever their state
// Around a step or an answer in a message: headers, names.
constexpr int64_t kFraming = 4096;

// Centres of a stored clustering become given ones.
absl::Status TakeInitial(const JobStore& store, const CollectionSpec& spec,
                         const CallContext& call, KMeansRequest* request) {
  if (request->initial_clustering.empty()) return absl::OkStatus();
  const auto initial =
      store.ReadClustering(spec, request->initial_clustering, call);
  if (!initial.ok()) return initial.status();
  const auto k = static_cast<int64_t>(initial->result.weights.size());
  KMeansOptions& options = request->options;
  if (options.k == 0) options.k = k;
  if (options.k != k) {
    return InvalidField(
        "k", absl::StrCat(options.k, " is not the ", k, " of clustering ",
                          Quoted(request->initial_clustering)));
  }
  options.seeding = KMeansSeeding::kGiven;
  options.given = initial->result.centres;
  return absl::OkStatus();
}

// An assignment's answer has to fit a message.
absl::Status CheckSize(const KMeansOptions& options, const Limits& limits) {
  const int64_t value = options.form == KMeansSumForm::kFloat32 ? 4 : 8;
  const int64_t room =
      (limits.message_bytes - kFraming) / (value * (options.dimension + 1));
  if (options.k <= room) return absl::OkStatus();
  return InvalidField(
      "k",
      absl::StrCat(options.k, " clusters of ", options.dimension,
                   " dimensions do not fit a message of ", limits.message_bytes,
                   " bytes (limit message_bytes); ", room, " do"));
}

absl::Status CheckRequest(const KMeansRequest& request, const Limits& limits) {
  const absl::Status name = ValidateCollectionName(request.name, limits);
  if (!name.ok()) return InvalidField("name", name.message());
  if (request.checkpoint_every < 1) {
    return InvalidField(
        "checkpoint_every",
        absl::StrCat(request.checkpoint_every, " is less than 1"));
  }
  const absl::Status valid = ValidateKMeansOptions(request.options);
  return valid.ok() ? CheckSize(request.options, limits) : valid;
}

absl::Status CheckName(const JobStore& store, const CollectionSpec& spec,
                       const KMeansRequest& request, const JobInfo* there,
                       const CallContext& call) {
  if (there != nullptr && there->state == JobState::kRunning) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %s runs at %s, heard of %.1f s ago: cancel it, or resume it if "
        "its coordinator is gone",
        Quoted(request.name), there->owner, there->age_seconds));
  }
  if (there == nullptr) {
    const auto jobs = store.ListJobs(spec, call);
    if (!jobs.ok()) return jobs.status();
    if (static_cast<int64_t>(jobs->size()) >= kMostJobs) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "collection ", Quoted(spec.name), " has ", jobs->size(),
          " jobs and clusterings, as many as it may; delete some"));
    }
  }
  if (request.replace) return absl::OkStatus();
  const auto version = store.ClusteringVersion(spec, request.name, call);
  if (!version.ok()) return version.status();
  if (*version == 0) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("collection ", Quoted(spec.name), " has a clustering ",
                   Quoted(request.name), " already"));
}

absl::StatusOr<OpenedJob> Put(const JobStore& store, CollectionSpec spec,
                              JobRecord record, int64_t expected,
                              const CallContext& call) {
  const auto version = store.PutJob(spec, record, expected, call);
  if (absl::IsAborted(version.status())) {
    return absl::AbortedError(
        absl::StrCat("another coordinator was faster to take job ",
                     Quoted(record.info.name)));
  }
  if (!version.ok()) return version.status();
  return OpenedJob{std::move(spec), {std::move(record), *version}};
}

}  // namespace

int64_t NextEpoch(int64_t epoch) {
  return std::max(epoch + 1, absl::ToUnixMicros(absl::Now()));
}

absl::StatusOr<OpenedJob> OpenKMeans(const JobStore& store,
                                     const Limits& limits,
                                     KMeansRequest request,
                                     const std::string& owner,
                                     const CallContext& call) {
  auto spec = store.Find(request.collection, call);
  if (!spec.ok()) return spec.status();
  absl::Status status = TakeInitial(store, *spec, call, &request);
  if (!status.ok()) return status;
  request.options.metric = spec->metric;
  request.options.dimension = spec->dimension;
  status = CheckRequest(request, limits);
  if (!status.ok()) return status;
  const auto there = store.ReadJob(*spec, request.name, call);
  if (!there.ok() &&
      (!absl::IsNotFound(there.status()) || ShardOf(there.status()))) {
    return there.status();
  }
  status = CheckName(store, *spec, request,
                     there.ok() ? &there->record.info : nullptr, call);
  if (!status.ok()) return status;

  JobRecord record;
  record.info.collection = spec->name;
  record.info.name = request.name;
  record.info.epoch = NextEpoch(there.ok() ? there->record.info.epoch : 0);
  record.info.owner = owner;
  if (!request.options.given.empty()) {
    // Too large for a record: they go into a checkpoint of the beginning.
    const auto job = KMeansJob::Create(request.options, 1);
    if (!job.ok()) return job.status();
    const auto blob =
        store.SaveBlob(*spec, absl::StrCat("job/", request.name),
                       EncodeKMeansCheckpoint(job->Checkpoint()), call);
    if (!blob.ok()) return blob.status();
    record.checkpoint = *blob;
    request.options.given.clear();
  }
  record.request = std::move(request);
  return Put(store, *std::move(spec), std::move(record),
             there.ok() ? there->version : 0, call);
}

absl::StatusOr<OpenedJob> ReopenJob(const JobStore& store,
                                    const std::string& collection,
                                    const std::string& name,
                                    const std::string& owner,
                                    const CallContext& call) {
  auto spec = store.Find(collection, call);
  if (!spec.ok()) return spec.status();
  auto job = store.ReadJob(*spec, name, call);
  if (!job.ok()) return job.status();
  JobInfo& info = job->record.info;
  if (info.state == JobState::kDone || info.state == JobState::kFailed) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", Quoted(name), " ",
                     info.state == JobState::kDone
                         ? "is done"
                         : absl::StrCat("failed: ", info.status.message())));
  }
  info.epoch = NextEpoch(info.epoch);
  info.state = JobState::kRunning;
  info.status = absl::OkStatus();
  info.owner = owner;
  return Put(store, *std::move(spec), std::move(job->record), job->version,
             call);
}

}  // namespace coterie
