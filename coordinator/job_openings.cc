#include "coordinator/job_openings.h"

#include <algorithm>
#include <utility>
#include <variant>

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

// Fills in what the collection says, and checks the whole.
absl::Status Prepare(const JobStore& store, const CollectionSpec& spec,
                     const Limits& limits, const CallContext& call,
                     KMeansRequest* request) {
  const absl::Status taken = TakeInitial(store, spec, call, request);
  if (!taken.ok()) return taken;
  request->options.metric = spec.metric;
  request->options.dimension = spec.dimension;
  return CheckRequest(*request, limits);
}

absl::Status Prepare(const JobStore& /*store*/, const CollectionSpec& spec,
                     const Limits& limits, const CallContext& /*call*/,
                     SgdRequest* request) {
  const absl::Status name = ValidateCollectionName(request->name, limits);
  if (!name.ok()) return InvalidField("name", name.message());
  request->options.model.dimension = spec.dimension;
  const absl::Status valid = ValidateSgdOptions(request->options);
  return valid.ok() ? valid : InvalidField("method", valid.message());
}

// Given centres are too large for a record: they go into a checkpoint of the
// beginning.
absl::StatusOr<BlobRef> TakeGiven(const JobStore& store,
                                  const CollectionSpec& spec,
                                  const CallContext& call,
                                  KMeansRequest* request) {
  if (request->options.given.empty()) return BlobRef();
  const auto job = KMeansJob::Create(request->options, 1);
  if (!job.ok()) return job.status();
  request->options.given.clear();
  return store.SaveBlob(spec, absl::StrCat("job/", request->name),
                        EncodeKMeansCheckpoint(job->Checkpoint()), call);
}

// What requests of all kinds say.
struct Heading {
  JobKind kind;
  std::string collection;
  std::string name;
  bool replace;
};

Heading HeadingOf(const JobRequest& request) {
  const JobKind kind = std::holds_alternative<SgdRequest>(request)
                           ? JobKind::kSgd
                           : JobKind::kKMeans;
  return std::visit(
      [kind](const auto& r) {
        return Heading{kind, r.collection, r.name, r.replace};
      },
      request);
}

absl::Status CheckName(const JobStore& store, const CollectionSpec& spec,
                       const Heading& heading, const JobInfo* there,
                       const CallContext& call) {
  if (there != nullptr && there->state == JobState::kRunning) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "job %s runs at %s, heard of %.1f s ago: cancel it, or resume it if "
        "its coordinator is gone",
        Quoted(heading.name), there->owner, there->age_seconds));
  }
  if (there != nullptr && there->kind != heading.kind) {
    return absl::AlreadyExistsError(
        absl::StrCat("job ", Quoted(heading.name),
                     " is of another kind: delete it with its result, or "
                     "choose another name"));
  }
  if (there == nullptr) {
    const auto jobs = store.ListJobs(spec, call);
    if (!jobs.ok()) return jobs.status();
    if (static_cast<int64_t>(jobs->size()) >= kMostJobs) {
      return absl::ResourceExhaustedError(
          absl::StrCat("collection ", Quoted(spec.name), " has ", jobs->size(),
                       " jobs and results, as many as it may; delete some"));
    }
  }
  if (heading.replace) return absl::OkStatus();
  const auto version =
      store.ResultVersion(spec, heading.kind, heading.name, call);
  if (!version.ok()) return version.status();
  if (*version == 0) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("collection ", Quoted(spec.name), " has a ",
                   heading.kind == JobKind::kSgd ? "model " : "clustering ",
                   Quoted(heading.name), " already"));
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

absl::StatusOr<OpenedJob> OpenJob(const JobStore& store, const Limits& limits,
                                  JobRequest request, const std::string& owner,
                                  const CallContext& call) {
  const Heading heading = HeadingOf(request);
  auto spec = store.Find(heading.collection, call);
  if (!spec.ok()) return spec.status();
  absl::Status status = std::visit(
      [&](auto& r) { return Prepare(store, *spec, limits, call, &r); },
      request);
  if (!status.ok()) return status;
  const auto there = store.ReadJob(*spec, heading.name, call);
  if (!there.ok() &&
      (!absl::IsNotFound(there.status()) || ShardOf(there.status()))) {
    return there.status();
  }
  status = CheckName(store, *spec, heading,
                     there.ok() ? &there->record.info : nullptr, call);
  if (!status.ok()) return status;

  JobRecord record;
  record.info.collection = spec->name;
  record.info.name = heading.name;
  record.info.kind = heading.kind;
  record.info.epoch = NextEpoch(there.ok() ? there->record.info.epoch : 0);
  record.info.owner = owner;
  if (auto* kmeans = std::get_if<KMeansRequest>(&request)) {
    auto given = TakeGiven(store, *spec, call, kmeans);
    if (!given.ok()) return given.status();
    record.checkpoint = *std::move(given);
  } else {
    record.info.last = SgdReport();
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
