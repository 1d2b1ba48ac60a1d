#include "coordinator/job_runner.h"

#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace coterie {
namespace {

// The shards forget a job when its coordinator has been silent for a step's
// time and this.
constexpr absl::Duration kLeaseBeyondStep = absl::Minutes(1);

}  // namespace

JobRunner::JobRunner(Environment environment, CollectionSpec spec,
                     JobStore::StoredJob job,
                     std::shared_ptr<const CancelToken> cancel)
    : environment_(std::move(environment)),
      spec_(std::move(spec)),
      record_(std::move(job.record)),
      version_(job.version),
      cancel_(cancel),
      // A record that cannot be written now is written after the step.
      ask_(environment_.shards, std::move(cancel), environment_.heartbeat,
           [this] { TryPutRecord().IgnoreError(); }) {}

absl::Status JobRunner::Prefixed(absl::string_view what,
                                 const absl::Status& status) {
  absl::Status out(status.code(), absl::StrCat(what, ": ", status.message()));
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& load) {
    out.SetPayload(url, load);
  });
  return out;
}

std::vector<int32_t> JobRunner::AllShards() const {
  std::vector<int32_t> all(static_cast<size_t>(shards()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

CallContext JobRunner::RecordCall() const {
  return {absl::Now() + environment_.record_timeout, nullptr};
}

JobRef JobRunner::Ref() const {
  return {spec_.name, spec_.number, record_.info.name, record_.info.epoch};
}

absl::StatusOr<std::vector<JobBegun>> JobRunner::BeginOnShards(
    JobBegin begin, const std::vector<int32_t>& shards) {
  begin.job = Ref();
  begin.lease = environment_.step_timeout + kLeaseBeyondStep;
  begin.resume = true;
  return ask_.Insist<JobBegun>(
      shards, environment_.step_timeout,
      [&begin](ShardClient& shard, const CallContext& call,
               Done<JobBegun> done) {
        shard.BeginJob(begin, call, std::move(done));
      });
}

absl::Status JobRunner::TryPutRecord() {
  auto version =
      environment_.store->PutJob(spec_, record_, version_, RecordCall());
  if (absl::IsAborted(version.status())) {
    // Perhaps an earlier one was written and only its reply lost.
    const auto there =
        environment_.store->ReadJob(spec_, record_.info.name, RecordCall());
    if (there.ok() && there->record.info.owner == record_.info.owner &&
        there->record.info.epoch <= record_.info.epoch &&
        there->record.info.state == JobState::kRunning) {
      version = environment_.store->PutJob(spec_, record_, there->version,
                                           RecordCall());
    }
  }
  if (!version.ok()) return version.status();
  version_ = *version;
  written_ = absl::Now();
  return absl::OkStatus();
}

absl::Status JobRunner::Patiently(
    absl::FunctionRef<absl::Status()> write) const {
  const absl::Time deadline = absl::Now() + environment_.step_timeout;
  for (int attempt = 1;; ++attempt) {
    absl::Status status = write();
    if (!WorthAskingAgain(status) || absl::Now() >= deadline ||
        !ask_.Pause(attempt)) {
      return status;
    }
  }
}

absl::Status JobRunner::PutRecord() {
  return Patiently([this] { return TryPutRecord(); });
}

absl::Status JobRunner::Beat() {
  if (absl::Now() - written_ < environment_.heartbeat) return absl::OkStatus();
  return PutRecord();
}

absl::Status JobRunner::PutCheckpoint(absl::string_view bytes,
                                      int64_t iteration) {
  const std::string owner = absl::StrCat("job/", record_.info.name);
  BlobRef blob;
  absl::Status status = Patiently([&]() -> absl::Status {
    const auto saved =
        environment_.store->SaveBlob(spec_, owner, bytes, RecordCall());
    if (!saved.ok()) return saved.status();
    blob = *saved;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  record_.checkpoint = blob;
  record_.info.checkpoint_iteration = iteration;
  status = PutRecord();
  if (!status.ok()) return status;
  // What was kept before is in nobody's way.
  environment_.store->DropBlobs(spec_, owner, blob, RecordCall()).IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> JobRunner::GetCheckpoint() const {
  if (record_.checkpoint.generation.empty()) return std::nullopt;
  auto bytes = environment_.store->LoadBlob(
      spec_, absl::StrCat("job/", record_.info.name), record_.checkpoint,
      RecordCall());
  if (!bytes.ok()) return bytes.status();
  return std::optional<std::string>(*std::move(bytes));
}

absl::Status JobRunner::PutDone() {
  record_.info.state = JobState::kDone;
  record_.info.status = absl::OkStatus();
  record_.checkpoint = BlobRef();
  const absl::Status put = PutRecord();
  if (!put.ok()) return put;
  environment_.store
      ->DropBlobs(spec_, absl::StrCat("job/", record_.info.name), {},
                  RecordCall())
      .IgnoreError();
  return absl::OkStatus();
}

void JobRunner::AddToRecord(double seconds, const CommunicationCost& cost) {
  record_.seconds += seconds;
  record_.bytes_sent += cost.bytes_sent;
  record_.bytes_received += cost.bytes_received;
}

void JobRunner::WriteOutcome(const absl::Status& status) {
  if (absl::IsAborted(status)) return;  // the job is another's
  JobInfo& info = record_.info;
  info.status = status;
  const bool stopping = environment_.stopping && environment_.stopping();
  if (absl::IsCancelled(status)) {
    info.state = stopping ? JobState::kInterrupted : JobState::kCancelled;
  } else if (WorthAskingAgain(status) || absl::IsDeadlineExceeded(status)) {
    info.state = JobState::kInterrupted;
  } else {
    info.state = JobState::kFailed;
  }
  if (info.state != JobState::kFailed && SaveUnfinished()) return;
  PutRecord().IgnoreError();
}

absl::Status JobRunner::End(absl::Status status) {
  if (!status.ok() && cancel_->cancelled() && !absl::IsAborted(status)) {
    status = absl::CancelledError("the job was cancelled; it can be resumed");
  }
  if (!status.ok()) WriteOutcome(status);
  // Not with the job's own token, which may be cancelled. A shard that does not
  // hear it drops the job at the end of its lease.
  const JobRef job = Ref();
  const CallContext call = RecordCall();
  for (const int32_t i : AllShards()) {
    shard(i).EndJob(job, call, [](absl::StatusOr<bool>) {});
  }
  return status;
}

}  // namespace coterie
