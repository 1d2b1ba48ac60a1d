#include "shard/job_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/log_entry.h"

namespace coterie {
namespace {

// Points labelled by one entry of the log.
constexpr size_t kLabelsPerWrite = 4096;

// Writes labels entry after entry; each begins when the last is durable. Alive
// while an entry is in the log.
class LabelWriter : public std::enable_shared_from_this<LabelWriter> {
 public:
  LabelWriter(JobLabel label, std::vector<std::pair<PointId, int64_t>> labels,
              Partition* partition, WriteLog* log, int32_t shard_id,
              CallContext call, Done<JobLabelled> done)
      : label_(std::move(label)),
        labels_(std::move(labels)),
        partition_(partition),
        log_(log),
        shard_id_(shard_id),
        call_(std::move(call)),
        done_(std::move(done)) {}

  void Next() {
    if (at_ == labels_.size()) return done_(sum_);
    const auto view =
        partition_->View(label_.job.collection, label_.job.number);
    if (!view.ok()) return done_(view.status());
    WriteBatch batch;
    batch.collection = label_.job.collection;
    batch.number = label_.job.number;
    const size_t end = std::min(at_ + kLabelsPerWrite, labels_.size());
    for (; at_ < end; ++at_) {
      batch.updates.push_back(
          {labels_[at_].first, {{label_.attribute, labels_[at_].second}}});
    }
    auto entry = EntryOf(std::move(batch), view->rows->spec(), shard_id_);
    if (!entry.ok()) return done_(entry.status());
    log_->Append(std::move(*entry), call_,
                 [self = shared_from_this()](absl::StatusOr<WriteReply> reply) {
                   if (!reply.ok()) return self->done_(reply.status());
                   self->sum_.labelled += reply->updated;
                   self->sum_.missing +=
                       static_cast<int64_t>(reply->missing.size());
                   self->Next();
                 });
  }

 private:
  const JobLabel label_;
  const std::vector<std::pair<PointId, int64_t>> labels_;
  Partition* const partition_;
  WriteLog* const log_;
  const int32_t shard_id_;
  const CallContext call_;
  Done<JobLabelled> done_;
  size_t at_ = 0;
  JobLabelled sum_;
};

// Runs `work` on a thread of the queue for jobs and answers with what it
// returns.
template <typename Reply, typename Work>
void Enqueue(WorkQueue* queue, CallContext call, Done<Reply> done, Work work) {
  queue->Admit(WorkClass::kJob, std::move(call),
               [done = std::move(done), work = std::move(work)](
                   const WorkQueue::Admission& admission) mutable {
                 if (admission.status.ok()) {
                   done(work());
                 } else {
                   done(admission.status);
                 }
               });
}

}  // namespace

JobCalls::JobCalls(const ShardJobs::Options& options, Partition* partition,
                   WorkQueue* queue, WriteLog* log, int32_t shard_id)
    : partition_(partition),
      queue_(queue),
      log_(log),
      shard_id_(shard_id),
      jobs_(options, partition->store()) {}

void JobCalls::Begin(JobBegin begin, CallContext call, Done<JobBegun> done) {
  Enqueue<JobBegun>(
      queue_, call, std::move(done),
      [this, begin = std::move(begin), call]() -> absl::StatusOr<JobBegun> {
        const auto view =
            partition_->View(begin.job.collection, begin.job.number);
        if (!view.ok()) return view.status();
        return jobs_.Begin(begin, *view, call);
      });
}

void JobCalls::Step(JobStep step, CallContext call, Done<JobAnswer> done) {
  Enqueue<JobAnswer>(
      queue_, call, std::move(done),
      [this, step = std::move(step),
       call]() mutable -> absl::StatusOr<JobAnswer> {
        // A collection that was dropped has no jobs.
        const auto view =
            partition_->View(step.job.collection, step.job.number);
        if (!view.ok()) return view.status();
        step.job.number = view->rows->spec().number;
        StepThreads threads;
        threads.count = queue_->threads();
        threads.run = [this](int64_t tasks, StepThreads::Body body) {
          queue_->ParallelFor(WorkClass::kJob, tasks, body);
        };
        return jobs_.Step(step, threads, call);
      });
}

void JobCalls::Label(JobLabel label, CallContext call, Done<JobLabelled> done) {
  const auto view = partition_->View(label.job.collection, label.job.number);
  if (!view.ok()) return done(view.status());
  label.job.number = view->rows->spec().number;
  auto labels = jobs_.Labels(label.job);
  if (!labels.ok()) return done(labels.status());
  std::make_shared<LabelWriter>(std::move(label), *std::move(labels),
                                partition_, log_, shard_id_, std::move(call),
                                std::move(done))
      ->Next();
}

bool JobCalls::End(JobRef job) {
  const auto view = partition_->View(job.collection, job.number);
  if (!view.ok()) return false;
  job.number = view->rows->spec().number;
  return jobs_.End(job);
}

void JobCalls::Put(RecordPut put, CallContext call, Done<int64_t> done) {
  const auto view = partition_->View(put.collection, put.number);
  if (!view.ok()) return done(view.status());
  put.number = view->rows->spec().number;
  const auto bytes = static_cast<int64_t>(
      put.key.size() + put.value.value_or(std::string()).size());
  log_->Run(bytes, std::move(call),
            [partition = partition_, put = std::move(put),
             done = std::move(done)](const absl::Status& admitted) mutable {
              if (!admitted.ok()) {
                done(admitted);
                return absl::OkStatus();
              }
              absl::StatusOr<int64_t> reply = 0;
              absl::Status failure = partition->PutRecord(put, &reply);
              done(std::move(reply));
              return failure;
            });
}

}  // namespace coterie
