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

}  // namespace

KMeansRunner::KMeansRunner(Environment environment, CollectionSpec spec,
                           JobStore::StoredJob job,
                           std::shared_ptr<const CancelToken> cancel,
                           std::function<void(const KMeansReport&)> report)
    : JobRunner(std::move(environment), std::move(spec), std::move(job),
                std::move(cancel)),
      report_(std::move(report)) {}

// --- Steps ------------------------------------------------------------------

absl::Status KMeansRunner::TakeOver(bool raise_epoch) {
  if (raise_epoch) {
    ++record().info.epoch;
    const absl::Status mine = PutRecord();
    if (!mine.ok()) return mine;
  }
  JobBegin begin;
  begin.kind = JobKind::kKMeans;
  begin.filter = request().filter;
  begin.weight_attribute = request().weight_attribute;
  begin.skip_missing = request().skip_missing;
  begin.threads = request().threads;
  begin.row_bytes = RowBytesOf(request().options);
  const auto begun = BeginOnShards(std::move(begin), AllShards());
  if (!begun.ok()) return begun.status();
  record().rows_missing = 0;
  for (const JobBegun& shard : *begun) {
    record().rows_missing += shard.rows_missing;
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
  environment().links->Observe(shard, answer.link, round_trip_seconds);
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
  const std::vector<absl::StatusOr<Timed>> replies = ask().Once<Timed>(
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
          std::max(predicted, environment().links->Predict(id, answer.link));
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
                                        " of job ", Quoted(record().info.name));
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
  const absl::Time deadline = absl::Now() + environment().step_timeout;
  absl::Status delay;
  for (int attempt = 0; !waiting.empty(); ++attempt) {
    if (attempt > 0 && !ask().Pause(attempt)) {
      return absl::CancelledError("the job was cancelled");
    }
    if (attempt > 0 && absl::Now() >= deadline) {
      return Prefixed(
          absl::StrCat(what, " was not answered within ",
                       absl::FormatDuration(environment().step_timeout)),
          delay);
    }
    const absl::Status round = Round(bytes, deadline, &waiting, &delay);
    if (!round.ok()) return Prefixed(what, round);
  }
  return absl::OkStatus();
}

// --- What is kept -----------------------------------------------------------

absl::Status KMeansRunner::SaveCheckpoint() {
  return PutCheckpoint(EncodeKMeansCheckpoint(job_->Checkpoint()),
                       record().info.iterations);
}

bool KMeansRunner::SaveUnfinished() {
  return job_.has_value() && !job_->Done() && record().info.iterations > 0 &&
         SaveCheckpoint().ok();
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
  AddToRecord(report.seconds, cost_);
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
    const KMeansReport report = TakeReport();
    record().info.last = report;
    record().info.iterations = done;
    report_(report);
    const bool first = record().checkpoint.generation.empty();
    if (!job_->Done() && (first || done - record().info.checkpoint_iteration >=
                                       request().checkpoint_every)) {
      return SaveCheckpoint();
    }
  }
  return Beat();
}

// --- The run ----------------------------------------------------------------

absl::StatusOr<KMeansJob> KMeansRunner::MakeJob() const {
  const auto bytes = GetCheckpoint();
  if (!bytes.ok()) return bytes.status();
  if (!bytes->has_value()) {
    return KMeansJob::Create(request().options, shards());
  }
  auto checkpoint = DecodeKMeansCheckpoint(**bytes);
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
  const JobLabel label{Ref(), request().label_attribute};
  const auto written = ask().Insist<JobLabelled>(
      AllShards(), environment().step_timeout,
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
  const auto there = environment().store->ResultVersion(
      spec(), JobKind::kKMeans, record().info.name, RecordCall());
  if (!there.ok()) return there.status();
  absl::Status status = LoadJob();
  if (status.ok()) status = TakeOver(false);
  reported_ = status.ok() ? static_cast<int64_t>(job_->progress().size()) : 0;
  int64_t labelled = 0;
  while (status.ok()) {
    status = RunJob();
    if (!status.ok() || request().label_attribute.empty()) break;
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
  clustering.collection = spec().name;
  clustering.name = record().info.name;
  clustering.metric = spec().metric;
  clustering.dimension = spec().dimension;
  clustering.rows = job_->extent().rows;
  clustering.rows_missing = record().rows_missing;
  clustering.seed = request().options.seed;
  clustering.result = job_->Result();
  clustering.labelled = labelled;
  const absl::Time now = absl::Now();
  record().seconds += absl::ToDoubleSeconds(now - since_);
  clustering.seconds = record().seconds;
  clustering.bytes_sent = record().bytes_sent + cost_.bytes_sent;
  clustering.bytes_received = record().bytes_received + cost_.bytes_received;
  clustering.warnings = WarningsOf(request().options, clustering);
  // Still this runner's?
  absl::Status status = PutRecord();
  if (!status.ok()) return status;
  status = environment().store->PutResult(spec(), clustering,
                                          clustering_version, RecordCall());
  if (!status.ok()) return status;
  status = PutDone();
  if (!status.ok()) return status;
  return clustering;
}

absl::StatusOr<Clustering> KMeansRunner::Run() {
  absl::StatusOr<Clustering> result = RunToEnd();
  const absl::Status status = End(result.status());
  if (!status.ok()) return status;
  return result;
}

}  // namespace coterie
