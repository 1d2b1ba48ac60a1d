#include "coordinator/sgd_runner.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "sync/mutex.h"
#include "training/sgd_checkpoint.h"
#include "training/sgd_codec.h"

namespace coterie {
namespace {

constexpr absl::Duration kReportPause = absl::Milliseconds(50);
// Beside a step's parameters, in its message.
constexpr int64_t kMessageSpare = 64 << 10;

bool HasTable(const SgdTask& task) {
  return task.estimator == SgdEstimator::kSaga ||
         task.estimator == SgdEstimator::kSagaShared;
}

}  // namespace

// An answer to a step, or why there is none.
struct SgdRunner::Letter {
  int32_t shard = 0;
  absl::StatusOr<JobAnswer> answer = absl::UnknownError("");
  double round_trip_seconds = 0;
};

struct SgdRunner::Mailbox {
  Mutex mu;
  CondVar ready;
  std::vector<Letter> letters ABSL_GUARDED_BY(mu);
};

SgdRunner::SgdRunner(Environment environment, CollectionSpec spec,
                     JobStore::StoredJob job,
                     std::shared_ptr<const CancelToken> cancel,
                     std::function<void(const SgdReport&)> report)
    : JobRunner(std::move(environment), std::move(spec), std::move(job),
                std::move(cancel)),
      report_(std::move(report)),
      mailbox_(std::make_shared<Mailbox>()),
      lanes_(static_cast<size_t>(shards())) {}

// --- Steps ------------------------------------------------------------------

std::string SgdRunner::Describe(int32_t shard) const {
  return absl::StrCat("update ", job_->version() + 1, " of job ",
                      Quoted(record().info.name), ", step ",
                      lanes_[static_cast<size_t>(shard)].number);
}

absl::Status SgdRunner::Send(absl::Time now) {
  for (int32_t s = 0; s < shards(); ++s) {
    Lane& lane = lanes_[static_cast<size_t>(s)];
    const SgdStep* step = lane.asked ? nullptr : job_->NextStep(s);
    if (step == nullptr) continue;
    if (lane.number != step->number) {
      lane.number = step->number;
      lane.deadline = now + environment().step_timeout;
      lane.again = absl::InfinitePast();
      lane.attempts = 0;
    }
    if (now >= lane.deadline) {
      return Prefixed(
          absl::StrCat(Describe(s), " was not answered within ",
                       absl::FormatDuration(environment().step_timeout)),
          lane.delay);
    }
    if (lane.again > now) continue;
    lane.asked = true;
    auto bytes =
        std::make_shared<const std::string>(EncodeSgdStep(job_->task(), *step));
    JobStep order{Ref(), std::move(bytes), JobKind::kSgd};
    Done<JobAnswer> done = [mailbox = mailbox_, s,
                            now](absl::StatusOr<JobAnswer> answer) {
      Letter letter{s, std::move(answer),
                    absl::ToDoubleSeconds(absl::Now() - now)};
      MutexLock lock(&mailbox->mu);
      mailbox->letters.push_back(std::move(letter));
      mailbox->ready.NotifyAll();
    };
    const CallContext call{lane.deadline, cancel()};
    if (job_->Checkpoint().options.micro_batches == 0) {
      shard(s).StepJob(std::move(order), call, std::move(done));
      continue;
    }
    // Many small steps: a stream saves what a call of its own costs each.
    if (lane.stream == nullptr) lane.stream = shard(s).OpenSteps();
    lane.stream->Step(std::move(order), call, std::move(done));
  }
  return absl::OkStatus();
}

std::vector<SgdRunner::Letter> SgdRunner::Receive() {
  absl::Time until = last_put() + environment().heartbeat;
  for (int32_t s = 0; s < shards(); ++s) {
    const Lane& lane = lanes_[static_cast<size_t>(s)];
    if (lane.asked || job_->NextStep(s) == nullptr) continue;
    until = std::min({until, lane.again, lane.deadline});
  }
  const CancelCallback callback(cancel(), [mailbox = mailbox_] {
    MutexLock lock(&mailbox->mu);
    mailbox->ready.NotifyAll();
  });
  MutexLock lock(&mailbox_->mu);
  while (mailbox_->letters.empty() && !cancel()->cancelled()) {
    const absl::Duration left = until - absl::Now();
    if (left <= absl::ZeroDuration()) break;
    mailbox_->ready.WaitFor(&mailbox_->mu, absl::ToChronoNanoseconds(left));
  }
  return std::exchange(mailbox_->letters, {});
}

absl::Status SgdRunner::TakeAnswer(int32_t shard, const JobAnswer& answer,
                                   double round_trip_seconds) {
  const absl::StatusOr<SgdPartial> partial =
      DecodeSgdPartial(job_->task(), answer.partial);
  absl::Status taken = partial.status();
  const absl::Time now = absl::Now();
  if (taken.ok()) {
    taken = job_->Accept(shard, *partial, absl::ToDoubleSeconds(now - began_));
  }
  if (!taken.ok()) {
    return WithShard(absl::InternalError(absl::StrCat(
                         "its answer does not fit: ", taken.message())),
                     shard);
  }
  if (partial->kind == SgdStepKind::kStart) {
    const absl::Status fits = CheckMicroBatches(shard, *partial);
    if (!fits.ok()) return fits;
  }
  Lane& lane = lanes_[static_cast<size_t>(shard)];
  lane.work_seconds += answer.work_seconds;
  lane.predicted_seconds += environment().links->Predict(shard, answer.link);
  cost_.messages += 2;
  cost_.bytes_sent += answer.link.bytes_sent;
  cost_.bytes_received += answer.link.bytes_received;
  environment().links->Observe(shard, answer.link, round_trip_seconds);
  return absl::OkStatus();
}

absl::Status SgdRunner::BeginAgain(int32_t shard) {
  const absl::Status begun = Begin({shard});
  if (!begun.ok()) return begun;
  job_->ShardRestarted(shard);
  return absl::OkStatus();
}

absl::Status SgdRunner::Take(Letter letter) {
  Lane& lane = lanes_[static_cast<size_t>(letter.shard)];
  lane.asked = false;
  if (letter.answer.ok()) {
    return TakeAnswer(letter.shard, *letter.answer, letter.round_trip_seconds);
  }
  const absl::Status& status = letter.answer.status();
  const absl::Status named = WithShard(status, letter.shard);
  if (WorthAskingAgain(status)) {
    lane.delay = named;
    lane.again = absl::Now() + ShardAsker::PauseAfter(++lane.attempts);
    return absl::OkStatus();
  }
  if (absl::IsFailedPrecondition(status)) return BeginAgain(letter.shard);
  const SgdStep* step = job_->NextStep(letter.shard);
  if (absl::IsDeadlineExceeded(status) &&
      (step == nullptr || step->number != lane.number)) {
    return absl::OkStatus();  // the round went on without it
  }
  return Prefixed(Describe(letter.shard), named);
}

absl::Status SgdRunner::RunJob() {
  while (!job_->Done()) {
    absl::Status status = Send(absl::Now());
    if (!status.ok()) return status;
    for (Letter& letter : Receive()) {
      status = Take(std::move(letter));
      if (status.ok()) status = Note();
      if (!status.ok()) return status;
    }
    if (cancel()->cancelled()) {
      return absl::CancelledError("the job was cancelled");
    }
    status = Beat();
    if (!status.ok()) return status;
  }
  return job_->status();
}

// --- What is kept -----------------------------------------------------------

bool SgdRunner::CanSave() const {
  if (!job_.has_value() || job_->Done() ||
      job_->Checkpoint().version == record().info.checkpoint_iteration) {
    return false;
  }
  if (!HasTable(job_->task())) return true;
  const SgdCheckpoint& state = job_->Checkpoint();
  return state.options.refresh_every > 0 &&
         state.version % state.options.refresh_every == 0;
}

absl::Status SgdRunner::SaveCheckpoint() {
  if (!CanSave()) return absl::OkStatus();
  saved_ = absl::Now();
  return PutCheckpoint(EncodeSgdCheckpoint(job_->Checkpoint()),
                       job_->Checkpoint().version);
}

bool SgdRunner::SaveUnfinished() { return CanSave() && SaveCheckpoint().ok(); }

SgdReport SgdRunner::TakeReport(absl::Time now) {
  SgdReport report;
  report.progress = job_->progress();
  report.progress.bytes_down = std::exchange(packed_down_, 0);
  report.progress.bytes_up = std::exchange(packed_up_, 0);
  report.global_batch = job_->plan().global_batch;
  report.staleness = job_->Staleness();
  for (int32_t s = 0; s < shards(); ++s) {
    report.shards.push_back(job_->account(s));
    Lane& lane = lanes_[static_cast<size_t>(s)];
    cost_.compute_seconds = std::max(cost_.compute_seconds, lane.work_seconds);
    cost_.predicted_seconds =
        std::max(cost_.predicted_seconds, lane.predicted_seconds);
    lane.work_seconds = lane.predicted_seconds = 0;
  }
  report.seconds = absl::ToDoubleSeconds(now - reported_);
  cost_.measured_seconds =
      std::max(0.0, report.seconds - cost_.compute_seconds);
  cost_.ratio = cost_.measured_seconds > 0
                    ? cost_.compute_seconds / cost_.measured_seconds
                    : 0;
  report.cost = std::exchange(cost_, CommunicationCost());
  reported_ = now;
  AddToRecord(report.seconds, report.cost);
  return report;
}

absl::Status SgdRunner::Note() {
  const SgdProgress& progress = job_->progress();
  // Updates that are over.
  const int64_t version = progress.update;
  // Also below: a model that is cut may go back, and comes here again.
  if (version <= noted_) return absl::OkStatus();
  noted_ = record().info.iterations = version;
  packed_down_ += progress.bytes_down;
  packed_up_ += progress.bytes_up;
  const absl::Time now = absl::Now();
  const bool due = request().report_every > 0
                       ? version % request().report_every == 0
                       : now - reported_ >= kReportPause;
  if (due && !job_->Done()) {
    const SgdReport report = TakeReport(now);
    record().info.last = report;
    report_(report);
  }
  const bool save = request().checkpoint_every > 0
                        ? version % request().checkpoint_every == 0
                        : now - saved_ >= environment().heartbeat;
  return save ? SaveCheckpoint() : absl::OkStatus();
}

// --- The run ----------------------------------------------------------------

absl::Status SgdRunner::CheckMessages() const {
  const SgdTask& task = job_->task();
  const int64_t d = SgdParameters(task.model);
  int64_t most = d * (task.float64 ? 8 : 4);
  // A shard that is started again gets the estimates of all its workers.
  if (task.feedback != SgdFeedback::kPlain) most = d * 8 * task.workers;
  // Both parts, of two pipelines.
  if (request().options.micro_batches > 0) most = d * 8;
  const int64_t room = environment().message_bytes - kMessageSpare;
  if (most <= room) return absl::OkStatus();
  return InvalidField(
      task.feedback == SgdFeedback::kPlain ? "model" : "num_workers",
      absl::StrCat(d, " parameters, ", task.workers,
                   " workers: a step may take ", most, " bytes; messages have ",
                   room));
}

absl::Status SgdRunner::CheckMicroBatches(int32_t shard,
                                          const SgdPartial& start) const {
  const SgdOptions& options = job_->Checkpoint().options;
  if (options.micro_batches == 0 || start.extents.empty()) {
    return absl::OkStatus();
  }
  int64_t rows = start.extents[0].rows;
  // Batches are drawn, and not all as large as they are on average.
  if (options.batch > 0) rows = std::min(rows, 2 * options.batch);
  const int64_t each = (rows - 1) / options.micro_batches + 1;
  // Activations, and a label.
  const int64_t bytes = each * (4 * options.model.hidden + 3);
  const int64_t room = environment().message_bytes - kMessageSpare;
  if (bytes <= room) return absl::OkStatus();
  return WithShard(
      InvalidField(
          "partition.model_parallel.micro_batches",
          absl::StrCat(options.micro_batches, ": up to ", each, " rows of ",
                       options.model.hidden, " hidden units take ", bytes,
                       " bytes; messages have ", room, ": ",
                       options.micro_batches * ((bytes - 1) / room + 1),
                       " would do")),
      shard);
}

absl::Status SgdRunner::Begin(const std::vector<int32_t>& shards) {
  JobBegin begin;
  begin.kind = JobKind::kSgd;
  begin.filter = request().filter;
  begin.label_attribute = request().label_attribute;
  begin.skip_missing = request().skip_missing;
  begin.threads = request().threads;
  // A table of earlier gradients has a number for each row and block.
  const SgdTask& task = job_->task();
  if (HasTable(task)) begin.row_bytes = 8 * task.blocks;
  const auto begun = BeginOnShards(std::move(begin), shards);
  if (!begun.ok()) return begun.status();
  if (shards.size() < lanes_.size()) return absl::OkStatus();
  record().rows_missing = 0;
  for (const JobBegun& shard : *begun) {
    record().rows_missing += shard.rows_missing;
  }
  return absl::OkStatus();
}

absl::Status SgdRunner::LoadJob() {
  absl::StatusOr<SgdJob> job = absl::UnknownError("");
  const auto bytes = GetCheckpoint();
  if (!bytes.ok()) return bytes.status();
  if (!bytes->has_value()) {
    job = SgdJob::Create(request().options, shards());
  } else {
    auto checkpoint = DecodeSgdCheckpoint(**bytes);
    if (!checkpoint.ok()) return checkpoint.status();
    job = SgdJob::Resume(*std::move(checkpoint), shards());
  }
  if (!job.ok()) return job.status();
  job_.emplace(*std::move(job));
  noted_ = job_->Checkpoint().version;
  return CheckMessages();
}

absl::StatusOr<TrainedModel> SgdRunner::RunToEnd() {
  began_ = reported_ = saved_ = absl::Now();
  const auto there = environment().store->ResultVersion(
      spec(), JobKind::kSgd, record().info.name, RecordCall());
  if (!there.ok()) return there.status();
  absl::Status status = LoadJob();
  if (status.ok()) status = Begin(AllShards());
  if (status.ok()) status = RunJob();
  if (!status.ok()) return status;
  return Finish(*there);
}

absl::StatusOr<TrainedModel> SgdRunner::Finish(int64_t model_version) {
  TrainedModel model;
  model.collection = spec().name;
  model.name = record().info.name;
  model.model = job_->task().model;
  model.parameters = job_->Parameters();
  model.stop = job_->stop();
  model.last = TakeReport(absl::Now());
  record().info.last = model.last;
  report_(model.last);
  for (const auto& shard : job_->Checkpoint().extents) {
    for (const SgdWorkerRows& worker : shard) model.rows += worker.rows;
  }
  model.rows_missing = record().rows_missing;
  model.seed = job_->task().seed;
  model.workers = job_->task().workers;
  model.first_step = job_->plan().step;
  model.smoothness = job_->plan().smoothness;
  model.block_fraction = job_->plan().block_fraction;
  model.seconds = record().seconds;
  model.bytes_sent = record().bytes_sent;
  model.bytes_received = record().bytes_received;
  model.warnings = job_->plan().warnings;
  if (model.rows_missing > 0) {
    model.warnings.push_back(absl::StrCat(
        model.rows_missing, " rows without a label were left out"));
  }
  // Still this runner's?
  absl::Status status = PutRecord();
  if (status.ok()) {
    status = environment().store->PutResult(spec(), model, model_version,
                                            RecordCall());
  }
  if (status.ok()) status = PutDone();
  if (!status.ok()) return status;
  return model;
}

absl::StatusOr<TrainedModel> SgdRunner::Run() {
  absl::StatusOr<TrainedModel> model = RunToEnd();
  const absl::Status status = End(model.status());
  if (!status.ok()) return status;
  return model;
}

}  // namespace coterie
