#include "coordinator/kmeans_runner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "training/kmeans_checkpoint.h"
#include "training/kmeans_codec.h"

namespace coterie {
namespace {

// Without a step that all shards answered.
constexpr int kMostRestarts = 5;
// The shards forget a job when its coordinator has been silent for a step's
// time and this.
constexpr absl::Duration kLeaseBeyondStep = absl::Minutes(1);
constexpr int64_t kMostRowBytes = int64_t{1} << 20;

// What bounds and codes would take for a row.
int64_t RowBytesOf(const KMeansOptions& options) {
  switch (options.algorithm) {
    case KMeansAlgorithm::kLloyd:
      return 0;
    case KMeansAlgorithm::kHamerly:
      return std::min(options.dimension + 24, kMostRowBytes);
    case KMeansAlgorithm::kElkan:
      return std::min(4 * options.k, kMostRowBytes);
  }
  return 0;
}

// The same status with more to say.
absl::Status Prefixed(absl::string_view what, const absl::Status& status) {
  absl::Status out(status.code(), absl::StrCat(what, ": ", status.message()));
  status.ForEachPayload([&out](absl::string_view url, const absl::Cord& load) {
    out.SetPayload(url, load);
  });
  return out;
}

}  // namespace

KMeansRunner::KMeansRunner(Environment environment, CollectionSpec spec,
                           JobStore::StoredJob job,
                           std::shared_ptr<const CancelToken> cancel,
                           std::function<void(const KMeansReport&)> report)
    : environment_(std::move(environment)),
      spec_(std::move(spec)),
      record_(std::move(job.record)),
      version_(job.version),
      cancel_(cancel),
      report_(std::move(report)),
      // A record that cannot be written now is written after the step.
      ask_(environment_.shards, std::move(cancel), environment_.heartbeat,
           [this] { TryPutRecord().IgnoreError(); }) {}

CallContext KMeansRunner::RecordCall() const {
  return {absl::Now() + environment_.record_timeout, nullptr};
}

JobRef KMeansRunner::Ref() const {
  return {spec_.name, spec_.number, record_.info.name, record_.info.epoch};
}

// --- Steps ------------------------------------------------------------------

absl::Status KMeansRunner::TakeOver(bool raise_epoch) {
  if (raise_epoch) {
    ++record_.info.epoch;
    const absl::Status mine = PutRecord();
    if (!mine.ok()) return mine;
  }
  JobBegin begin;
  begin.job = Ref();
  begin.kind = JobKind::kKMeans;
  begin.filter = record_.request.filter;
  begin.weight_attribute = record_.request.weight_attribute;
  begin.skip_missing = record_.request.skip_missing;
  begin.lease = environment_.step_timeout + kLeaseBeyondStep;
  begin.threads = record_.request.threads;
  begin.row_bytes = RowBytesOf(record_.request.options);
  begin.resume = true;
  const auto begun = ask_.Insist<JobBegun>(
      environment_.step_timeout,
      [&begin](ShardClient& shard, const CallContext& call,
               Done<JobBegun> done) {
        shard.BeginJob(begin, call, std::move(done));
      });
  if (!begun.ok()) return begun.status();
  record_.rows_missing = 0;
  for (const JobBegun& shard : *begun) {
    record_.rows_missing += shard.rows_missing;
  }
  return absl::OkStatus();
}

absl::Status KMeansRunner::Accept(int32_t shard, const JobAnswer& answer,
                                  double round_trip_seconds) {
  const absl::StatusOr<KMeansPartial> partial =
      DecodeKMeansPartial(answer.partial);
  absl::Status taken = partial.status();
  if (taken.ok()) {
    const bool sums = partial->kind == KMeansStepKind::kAssign ||
                      partial->kind == KMeansStepKind::kBatch;
    if (sums) {
      statistics_up_ += static_cast<int64_t>(answer.partial.size()) -
                        kKMeansPartialHeaderBytes;
    }
    taken = job_->Accept(shard, *partial);
  }
  if (!taken.ok()) {
    return WithShard(absl::InternalError(absl::StrCat(
                         "its answer does not fit: ", taken.message())),
                     shard);
  }
  cost_.messages += 2;
  cost_.bytes_sent += answer.link.bytes_sent;
  cost_.bytes_received += answer.link.bytes_received;
  environment_.links->Observe(shard, answer.link, round_trip_seconds);
  return absl::OkStatus();
}

absl::Status KMeansRunner::Round(const std::shared_ptr<const std::string>& step,
                                 absl::Time deadline,
                                 std::vector<int32_t>* waiting,
                                 absl::Status* delay) {
  const absl::Time start = absl::Now();
  struct Timed {
    JobAnswer answer;
    double seconds = 0;
  };
  const std::vector<absl::StatusOr<Timed>> replies = ask_.Once<Timed>(
      *waiting,
      [this, &step, start](ShardClient& shard, const CallContext& call,
                           Done<Timed> done) {
        shard.StepJob({Ref(), step}, call,
                      [start, done = std::move(done)](
                          absl::StatusOr<JobAnswer> answer) mutable {
                        if (!answer.ok()) return done(answer.status());
                        done(Timed{*std::move(answer),
                                   absl::ToDoubleSeconds(absl::Now() - start)});
                      });
      },
      deadline);
  std::vector<int32_t> again;
  double work = 0;
  double predicted = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    const int32_t id = (*waiting)[i];
    if (replies[i].ok()) {
      const JobAnswer& answer = replies[i]->answer;
      work = std::max(work, answer.work_seconds);
      predicted =
          std::max(predicted, environment_.links->Predict(id, answer.link));
      const absl::Status taken = Accept(id, answer, replies[i]->seconds);
      if (!taken.ok()) return taken;
    } else if (WorthAskingAgain(replies[i].status())) {
      *delay = WithShard(replies[i].status(), id);
      again.push_back(id);
    } else {
      return WithShard(replies[i].status(), id);
    }
  }
  *waiting = std::move(again);
  cost_.compute_seconds += work;
  cost_.predicted_seconds += predicted;
  cost_.measured_seconds +=
      std::max(0.0, absl::ToDoubleSeconds(absl::Now() - start) - work);
  return absl::OkStatus();
}

absl::Status KMeansRunner::Step() {
  const KMeansStep step = job_->NextStep();
  const auto bytes =
      std::make_shared<const std::string>(EncodeKMeansStep(step));
  const std::string what = absl::StrCat("k-means step ", step.number,
                                        " of job ", Quoted(record_.info.name));
  std::vector<int32_t> waiting = {step.shard};
  if (step.shard < 0) {
    waiting.resize(static_cast<size_t>(shards()));
    std::iota(waiting.begin(), waiting.end(), 0);
  }
  if (step.kind == KMeansStepKind::kAssign ||
      step.kind == KMeansStepKind::kBatch) {
    statistics_down_ +=
        (static_cast<int64_t>(bytes->size()) - kKMeansStepHeaderBytes) *
        static_cast<int64_t>(waiting.size());
  }
  const absl::Time deadline = absl::Now() + environment_.step_timeout;
  absl::Status delay;
  for (int attempt = 0; !waiting.empty(); ++attempt) {
    if (attempt > 0 && !ask_.Pause(attempt)) {
      return absl::CancelledError("the job was cancelled");
    }
    if (attempt > 0 && absl::Now() >= deadline) {
      return Prefixed(
          absl::StrCat(what, " was not answered within ",
                       absl::FormatDuration(environment_.step_timeout)),
          delay);
    }
    const absl::Status round = Round(bytes, deadline, &waiting, &delay);
    if (!round.ok()) return Prefixed(what, round);
  }
  return absl::OkStatus();
}

// --- What is kept -----------------------------------------------------------

absl::Status KMeansRunner::TryPutRecord() {
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

absl::Status KMeansRunner::Patiently(
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

absl::Status KMeansRunner::PutRecord() {
  return Patiently([this] { return TryPutRecord(); });
}

absl::Status KMeansRunner::SaveCheckpoint() {
  const std::string owner = absl::StrCat("job/", record_.info.name);
  const std::string bytes = EncodeKMeansCheckpoint(job_->Checkpoint());
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
  record_.info.checkpoint_iteration = record_.info.iterations;
  status = PutRecord();
  if (!status.ok()) return status;
  // What was kept before is in nobody's way.
  environment_.store->DropBlobs(spec_, owner, blob, RecordCall()).IgnoreError();
  return absl::OkStatus();
}

KMeansReport KMeansRunner::TakeReport() {
  KMeansReport report;
  report.progress = job_->progress().back();
  report.statistics_bytes_down = statistics_down_;
  report.statistics_bytes_up = statistics_up_;
  report.cost = cost_;
  report.cost.ratio = cost_.measured_seconds > 0
                          ? cost_.compute_seconds / cost_.measured_seconds
                          : 0;
  const absl::Time now = absl::Now();
  report.seconds = absl::ToDoubleSeconds(now - since_);
  record_.seconds += report.seconds;
  record_.bytes_sent += cost_.bytes_sent;
  record_.bytes_received += cost_.bytes_received;
  since_ = now;
  cost_ = CommunicationCost();
  statistics_down_ = 0;
  statistics_up_ = 0;
  return report;
}

absl::Status KMeansRunner::Note() {
  const auto done = static_cast<int64_t>(job_->progress().size());
  if (done > reported_) {
    reported_ = done;
    record_.info.last = TakeReport();
    record_.info.iterations = done;
    report_(record_.info.last);
    const bool first = record_.checkpoint.generation.empty();
    if (!job_->Done() && (first || done - record_.info.checkpoint_iteration >=
                                       record_.request.checkpoint_every)) {
      return SaveCheckpoint();
    }
  }
  if (absl::Now() - written_ < environment_.heartbeat) return absl::OkStatus();
  return PutRecord();
}

// --- The run ----------------------------------------------------------------

absl::StatusOr<KMeansJob> KMeansRunner::MakeJob() const {
  if (record_.checkpoint.generation.empty()) {
    return KMeansJob::Create(record_.request.options, shards());
  }
  const auto bytes = environment_.store->LoadBlob(
      spec_, absl::StrCat("job/", record_.info.name), record_.checkpoint,
      RecordCall());
  if (!bytes.ok()) return bytes.status();
  auto checkpoint = DecodeKMeansCheckpoint(*bytes);
  if (!checkpoint.ok()) return checkpoint.status();
  return KMeansJob::Resume(*std::move(checkpoint), shards());
}

absl::Status KMeansRunner::LoadJob() {
  absl::StatusOr<KMeansJob> job = MakeJob();
  if (!job.ok()) return job.status();
  job_.emplace(*std::move(job));
  return absl::OkStatus();
}

absl::Status KMeansRunner::RunJob() {
  while (!job_->Done()) {
    absl::Status status = Step();
    if (absl::IsFailedPrecondition(status) && restarts_ < kMostRestarts) {
      ++restarts_;
      status = TakeOver(true);
      if (!status.ok()) return status;
      auto resumed = KMeansJob::Resume(job_->Checkpoint(), shards());
      if (!resumed.ok()) return resumed.status();
      job_.emplace(*std::move(resumed));
      continue;
    }
    if (!status.ok()) return status;
    restarts_ = 0;
    status = Note();
    if (!status.ok()) return status;
  }
  return job_->status();
}

absl::StatusOr<int64_t> KMeansRunner::WriteLabels() {
  const JobLabel label{Ref(), record_.request.label_attribute};
  const auto written = ask_.Insist<JobLabelled>(
      environment_.step_timeout,
      [&label](ShardClient& shard, const CallContext& call,
               Done<JobLabelled> done) {
        shard.LabelRows(label, call, std::move(done));
      });
  if (!written.ok()) return written.status();
  int64_t labelled = 0;
  for (const JobLabelled& shard : *written) labelled += shard.labelled;
  return labelled;
}

absl::StatusOr<Clustering> KMeansRunner::RunToEnd() {
  since_ = absl::Now();
  const auto there = environment_.store->ClusteringVersion(
      spec_, record_.info.name, RecordCall());
  if (!there.ok()) return there.status();
  absl::Status status = LoadJob();
  if (status.ok()) status = TakeOver(false);
  reported_ = status.ok() ? static_cast<int64_t>(job_->progress().size()) : 0;
  int64_t labelled = 0;
  while (status.ok()) {
    status = RunJob();
    if (!status.ok() || record_.request.label_attribute.empty()) break;
    const auto written = WriteLabels();
    if (written.ok()) {
      labelled = *written;
      break;
    }
    status = written.status();
    if (!absl::IsFailedPrecondition(status) || ++restarts_ > kMostRestarts) {
      break;
    }
    // The labels are lost: back to where they can be had again.
    status = TakeOver(true);
    if (status.ok()) status = LoadJob();
  }
  if (!status.ok()) return status;
  return Finish(*there, labelled);
}

absl::StatusOr<Clustering> KMeansRunner::Finish(int64_t clustering_version,
                                                int64_t labelled) {
  Clustering clustering;
  clustering.collection = spec_.name;
  clustering.name = record_.info.name;
  clustering.metric = spec_.metric;
  clustering.dimension = spec_.dimension;
  clustering.rows = job_->extent().rows;
  clustering.rows_missing = record_.rows_missing;
  clustering.seed = record_.request.options.seed;
  clustering.result = job_->Result();
  clustering.labelled = labelled;
  const absl::Time now = absl::Now();
  record_.seconds += absl::ToDoubleSeconds(now - since_);
  clustering.seconds = record_.seconds;
  clustering.bytes_sent = record_.bytes_sent + cost_.bytes_sent;
  clustering.bytes_received = record_.bytes_received + cost_.bytes_received;
  clustering.warnings = WarningsOf(record_.request.options, clustering);
  // Still this runner's?
  absl::Status status = PutRecord();
  if (!status.ok()) return status;
  status = environment_.store->PutClustering(spec_, clustering,
                                             clustering_version, RecordCall());
  if (!status.ok()) return status;
  record_.info.state = JobState::kDone;
  record_.info.status = absl::OkStatus();
  record_.checkpoint = BlobRef();
  status = PutRecord();
  if (!status.ok()) return status;
  environment_.store
      ->DropBlobs(spec_, absl::StrCat("job/", record_.info.name), {},
                  RecordCall())
      .IgnoreError();
  return clustering;
}

void KMeansRunner::EndOnShards() {
  const JobRef job = Ref();
  std::vector<int32_t> all(static_cast<size_t>(shards()));
  std::iota(all.begin(), all.end(), 0);
  const CallContext call = RecordCall();
  // Not with the job's own token, which may be cancelled. A shard that does not
  // hear it drops the job at the end of its lease.
  for (const int32_t i : all) {
    shard(i).EndJob(job, call, [](absl::StatusOr<bool>) {});
  }
}

void KMeansRunner::WriteOutcome(const absl::Status& status) {
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
  const bool resumable = info.state != JobState::kFailed;
  if (resumable && job_.has_value() && !job_->Done() && info.iterations > 0 &&
      SaveCheckpoint().ok()) {
    return;
  }
  PutRecord().IgnoreError();
}

absl::StatusOr<Clustering> KMeansRunner::Run() {
  absl::StatusOr<Clustering> result = RunToEnd();
  if (!result.ok() && cancel_->cancelled() &&
      !absl::IsAborted(result.status())) {
    result = absl::CancelledError("the job was cancelled; it can be resumed");
  }
  if (!result.ok()) WriteOutcome(result.status());
  EndOnShards();
  return result;
}

}  // namespace coterie
