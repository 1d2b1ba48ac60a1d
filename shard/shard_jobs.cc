#include "shard/shard_jobs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/status_details.h"
#include "api/stopwatch.h"
#include "shard/job_rows.h"
#include "shard/kmeans_work.h"
#include "shard/sgd_work.h"

namespace coterie {
namespace {

// Steps, their answers, sums and copies of them, in messages.
constexpr int64_t kMessagesPerJob = 4;
constexpr absl::Duration kRetry = absl::Seconds(1);

std::string NameOf(const std::string& name, int64_t epoch) {
  return absl::StrCat("job '", name, "', epoch ", epoch);
}

}  // namespace

struct ShardJobs::Job {
  Key key;
  int64_t epoch = 0;
  JobKind kind = JobKind::kKMeans;
  absl::Duration lease;
  int32_t threads = 0;
  int64_t bytes = 0;
  int64_t row_bytes = 0;  // granted
  // Under mu_.
  bool held = true;
  bool dropped = false;
  bool built = false;
  absl::Time expires;
  // Set by whoever holds it; constant once built.
  JobBegun begun;
  std::shared_ptr<const JobRows> rows;
  std::unique_ptr<JobWork> work;  // null: not begun yet
};

ShardJobs::ShardJobs(const Options& options, RecordStore* store)
    : options_(options), store_(store), reaper_([this] { Reap(); }) {}

ShardJobs::~ShardJobs() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  reaper_.join();
}

void ShardJobs::Drop(std::map<Key, std::shared_ptr<Job>>::iterator at,
                     std::vector<std::shared_ptr<Job>>* dropped) {
  at->second->dropped = true;
  if (!at->second->held) memory_bytes_ -= at->second->bytes;
  dropped->push_back(std::move(at->second));
  jobs_.erase(at);
}

absl::Status ShardJobs::MakeRoom(const JobBegin& begin, int64_t rows,
                                 Job* job) {
  if (static_cast<int32_t>(jobs_.size()) >= options_.jobs) {
    return Overloaded(absl::StrCat("this shard has ", jobs_.size(),
                                   " jobs, as many as it may"),
                      kRetry);
  }
  const int64_t least =
      kMessagesPerJob * options_.message_bytes +
      rows * (begin.kind == JobKind::kSgd ? kSgdRowBytes : kKMeansRowBytes);
  const int64_t free = options_.memory_bytes - memory_bytes_;
  if (least > options_.memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a job over ", rows, " rows takes ", least, " bytes, more than the ",
        options_.memory_bytes, " that this shard has for jobs"));
  }
  if (least > free) {
    return Overloaded(absl::StrCat("a job over ", rows, " rows takes ", least,
                                   " bytes; other jobs leave ", free, " of ",
                                   options_.memory_bytes),
                      kRetry);
  }
  job->row_bytes =
      rows == 0 ? 0 : std::min(begin.row_bytes, (free - least) / rows);
  job->bytes = least + rows * job->row_bytes;
  memory_bytes_ += job->bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ShardJobs::Job>> ShardJobs::Claim(
    const Key& key, const JobBegin& begin, int64_t rows) {
  std::vector<std::shared_ptr<Job>> dropped;  // after the lock
  MutexLock lock(&mu_);
  const auto at = jobs_.find(key);
  if (at != jobs_.end()) {
    Job& there = *at->second;
    if (there.epoch > begin.job.epoch) {
      return absl::AbortedError(
          absl::StrCat(NameOf(key.second, begin.job.epoch),
                       ": another has it, with epoch ", there.epoch));
    }
    if (there.epoch == begin.job.epoch) {
      if (there.held) {
        return Overloaded(
            absl::StrCat(NameOf(key.second, there.epoch), " is busy"), kRetry);
      }
      there.held = true;
      return at->second;
    }
    Drop(at, &dropped);
  }
  auto job = std::make_shared<Job>();
  if (begin.resume && !dropped.empty() && dropped.front()->built) {
    job->begun = dropped.front()->begun;
    job->rows = dropped.front()->rows;
  }
  const absl::Status room = MakeRoom(begin, rows, job.get());
  if (!room.ok()) return room;
  job->key = key;
  job->epoch = begin.job.epoch;
  job->kind = begin.kind;
  job->lease = begin.lease;
  job->threads = begin.threads;
  jobs_[key] = job;
  return job;
}

absl::StatusOr<std::shared_ptr<ShardJobs::Job>> ShardJobs::Hold(const Key& key,
                                                                int64_t epoch) {
  MutexLock lock(&mu_);
  const auto at = jobs_.find(key);
  if (at == jobs_.end() || at->second->epoch < epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat(NameOf(key.second, epoch),
                     " is not here: it was never begun, or its "
                     "lease has ended"));
  }
  Job& job = *at->second;
  if (job.epoch > epoch) {
    return absl::AbortedError(absl::StrCat(
        NameOf(key.second, epoch), ": another has it, with epoch ", job.epoch));
  }
  if (job.held) {
    return Overloaded(absl::StrCat(NameOf(key.second, epoch), " is busy"),
                      kRetry);
  }
  job.held = true;
  return at->second;
}

void ShardJobs::Release(const std::shared_ptr<Job>& job, bool keep) {
  std::vector<std::shared_ptr<Job>> dropped;  // after the lock
  MutexLock lock(&mu_);
  job->held = false;
  job->built = job->work != nullptr;
  job->expires = absl::Now() + job->lease;
  if (job->dropped) {
    memory_bytes_ -= job->bytes;
  } else if (!keep) {
    Drop(jobs_.find(job->key), &dropped);
  }
  changed_.NotifyAll();
}

absl::Status ShardJobs::Build(const JobBegin& begin, const ReadView& view,
                              const CallContext& call, Job* job) {
  if (job->rows == nullptr) {
    std::vector<std::string> attributes;
    for (const std::string* name :
         {&begin.weight_attribute, &begin.label_attribute}) {
      if (!name->empty()) attributes.push_back(*name);
    }
    auto rows = JobRows::Select(store_, view, begin.filter, attributes,
                                begin.skip_missing, call);
    if (!rows.ok()) return rows.status();
    job->begun = {view.sequence, (*rows)->rows(), (*rows)->missing()};
    job->rows = *std::move(rows);
  }
  if (begin.kind == JobKind::kSgd) {
    job->work = MakeSgdWork(view.rows->spec(), job->rows, job->row_bytes);
    return absl::OkStatus();
  }
  auto work = MakeKMeansWork(view.rows->spec(), job->rows, job->row_bytes);
  if (!work.ok()) return work.status();
  job->work = *std::move(work);
  return absl::OkStatus();
}

absl::StatusOr<JobBegun> ShardJobs::Begin(const JobBegin& begin,
                                          const ReadView& view,
                                          const CallContext& call) {
  const Key key(view.rows->spec().number, begin.job.name);
  auto job = Claim(key, begin, view.rows->rows_live());
  if (!job.ok()) return job.status();
  absl::Status built;
  if ((*job)->work == nullptr) built = Build(begin, view, call, job->get());
  const JobBegun begun = (*job)->begun;
  Release(*job, built.ok());
  if (!built.ok()) return built;
  return begun;
}

absl::StatusOr<JobAnswer> ShardJobs::Step(const JobStep& step,
                                          const StepThreads& threads,
                                          const CallContext& call) {
  auto job = Hold({step.job.number, step.job.name}, step.job.epoch);
  if (!job.ok()) return job.status();
  if ((*job)->kind != step.kind) {
    Release(*job);
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(step.job.name, step.job.epoch),
                     " is not of the kind that the step is for"));
  }
  StepThreads used = threads;
  if ((*job)->threads > 0 && (*job)->threads < threads.count) {
    used.count = (*job)->threads;
    // That many tasks, each a worker that takes the step's tasks one by one.
    used.run = [&threads, count = used.count](int64_t tasks,
                                              StepThreads::Body body) {
      std::atomic<int64_t> next{0};
      threads.run(count, [&](int32_t, int64_t worker) {
        for (int64_t task = next++; task < tasks; task = next++) {
          body(static_cast<int32_t>(worker), task);
        }
      });
    };
  }
  const Stopwatch watch;
  auto partial = (*job)->work->Step(*step.step, used,
                                    [&call] { return call.ShouldStop(); });
  const double seconds = watch.Seconds();
  Release(*job);
  if (!partial.ok()) {
    const absl::Status ended = call.status();
    return absl::IsCancelled(partial.status()) && !ended.ok()
               ? ended
               : partial.status();
  }
  return JobAnswer{*std::move(partial), seconds};
}

absl::StatusOr<std::vector<std::pair<PointId, int64_t>>> ShardJobs::Labels(
    const JobRef& job) {
  auto held = Hold({job.number, job.name}, job.epoch);
  if (!held.ok()) return held.status();
  auto labels = (*held)->work->Labels();
  Release(*held);
  return labels;
}

bool ShardJobs::End(const JobRef& job) {
  std::vector<std::shared_ptr<Job>> dropped;  // after the lock
  MutexLock lock(&mu_);
  const auto at = jobs_.find({job.number, job.name});
  if (at == jobs_.end() || at->second->epoch > job.epoch) return false;
  Drop(at, &dropped);
  return true;
}

ShardJobs::Totals ShardJobs::totals() const {
  MutexLock lock(&mu_);
  return {static_cast<int64_t>(jobs_.size()), memory_bytes_};
}

void ShardJobs::Reap() {
  for (;;) {
    std::vector<std::shared_ptr<Job>> dropped;  // after the lock
    MutexLock lock(&mu_);
    if (stopping_) return;
    const absl::Time now = absl::Now();
    absl::Time next = absl::InfiniteFuture();
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      const auto job = at++;
      if (job->second->held) continue;
      if (job->second->expires <= now) {
        Drop(job, &dropped);
      } else {
        next = std::min(next, job->second->expires);
      }
    }
    if (!dropped.empty()) continue;  // and look again
    if (next == absl::InfiniteFuture()) {
      changed_.Wait(&mu_);
    } else {
      changed_.WaitFor(&mu_, absl::ToChronoNanoseconds(next - now));
    }
  }
}

}  // namespace coterie
