#include "coordinator/jobs.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "api/await.h"
#include "api/collection.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "coordinator/assign_points.h"
#include "coordinator/desk.h"
#include "coordinator/job_feed.h"
#include "coordinator/job_openings.h"
#include "coordinator/job_store.h"
#include "coordinator/kmeans_runner.h"
#include "coordinator/point_vectors.h"
#include "coordinator/predict_points.h"
#include "coordinator/sgd_runner.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

constexpr int32_t kDeskThreads = 2;
// A running job that has been silent for so many heartbeats is not.
constexpr int kSilentBeats = 3;
// For records, where the caller sets no deadline.
constexpr absl::Duration kRecordTimeout = absl::Seconds(30);

std::string OwnerName(std::string given) {
  if (!given.empty()) return given;
  std::random_device random;
  return absl::StrFormat("coordinator-%08x", random());
}

CallContext Bounded(CallContext call) {
  call.deadline = std::min(call.deadline, absl::Now() + kRecordTimeout);
  return call;
}

}  // namespace

class Jobs::Impl {
 public:
  Impl(ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
       std::shared_ptr<LinkModels> links, JobsOptions options)
      : shards_(std::move(shards)),
        links_(std::move(links)),
        options_(std::move(options)),
        owner_(OwnerName(options_.owner)),
        store_(shards_, std::move(catalogue)),
        desk_(kDeskThreads, options_.waiting) {}

  ~Impl() {
    std::list<Running> running;
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      for (Running& job : running_) job.cancel->Cancel();
      running.swap(running_);
    }
    for (Running& job : running) job.thread.join();
  }

  // Opens a job and runs it, on a thread of its own.
  using Open =
      absl::AnyInvocable<absl::StatusOr<OpenedJob>(const CallContext& call)>;
  std::unique_ptr<JobStream> Launch(Open open, const CallContext& call);

  std::unique_ptr<JobStream> Train(JobRequest request,
                                   const CallContext& call) {
    return Launch(
        [this, request = std::move(request)](const CallContext& opening) {
          return OpenJob(store_, options_.limits, request, owner_, opening);
        },
        call);
  }

  std::unique_ptr<JobStream> Resume(std::string collection, std::string name,
                                    const CallContext& call) {
    return Launch(
        [this, collection = std::move(collection),
         name = std::move(name)](const CallContext& opening) {
          return ReopenJob(store_, collection, name, owner_, opening);
        },
        call);
  }

  std::unique_ptr<JobStream> Watch(std::string collection, std::string name,
                                   CallContext call);

  absl::StatusOr<JobInfo> Get(const std::string& collection,
                              const std::string& name,
                              const CallContext& call) {
    const auto spec = store_.Find(collection, call);
    if (!spec.ok()) return spec.status();
    auto job = store_.ReadJob(*spec, name, call);
    if (!job.ok()) return job.status();
    return Judged(std::move(job->record.info));
  }
  absl::StatusOr<std::vector<JobInfo>> List(const std::string& collection,
                                            const CallContext& call);
  // The state of a job elsewhere after cancelling it.
  absl::StatusOr<JobInfo> CancelElsewhere(const std::string& collection,
                                          const std::string& name,
                                          const CallContext& call);
  void Cancel(std::string collection, std::string name, CallContext call,
              Done<JobInfo> done);

  // Does what needs the collection, on a thread that may wait.
  template <typename T, typename Work>
  void WithCollection(std::string collection, const CallContext& call,
                      Done<T> done, Work work) {
    desk_.Post<T>(
        call, std::move(done),
        [this, collection = std::move(collection), work = std::move(work),
         bounded = Bounded(call)]() mutable -> absl::StatusOr<T> {
          const auto spec = store_.Find(collection, bounded);
          if (!spec.ok()) return spec.status();
          return work(*spec, bounded);
        });
  }

  JobStore& store() { return store_; }
  const ShardSet& shards() const { return shards_; }
  Desk& desk() { return desk_; }

 private:
  struct Running {
    std::string collection;  // both empty until it is open
    std::string name;
    std::shared_ptr<CancelToken> cancel;
    std::shared_ptr<JobFeed> feed;
    bool ended = false;
    std::thread thread;
  };

  void Run(Running* job, Open open);
  absl::StatusOr<JobResult> RunOpened(Running* job, Open open);
  // Joins the threads of jobs that have ended.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What runs here under this name: null if nothing does.
  std::pair<std::shared_ptr<JobFeed>, std::shared_ptr<CancelToken>> FindHere(
      const std::string& collection, const std::string& name);
  // RUNNING is what its owner says; the last word is how long ago.
  JobInfo Judged(JobInfo info) const;

  const ShardSet shards_;
  const std::shared_ptr<LinkModels> links_;
  const JobsOptions options_;
  const std::string owner_;
  JobStore store_;
  std::atomic<bool> stopping_{false};
  Mutex mu_;
  std::list<Running> running_ ABSL_GUARDED_BY(mu_);
  Desk desk_;  // ends first
};

void Jobs::Impl::Sweep() {
  for (auto job = running_.begin(); job != running_.end();) {
    if (job->ended) {
      job->thread.join();
      job = running_.erase(job);
    } else {
      ++job;
    }
  }
}

std::unique_ptr<JobStream> Jobs::Impl::Launch(Open open,
                                              const CallContext& call) {
  MutexLock lock(&mu_);
  if (stopping_) {
    return SayOnce(absl::UnavailableError("the coordinator is stopping"));
  }
  Sweep();
  if (static_cast<int32_t>(running_.size()) >= options_.running) {
    return SayOnce(Overloaded(
        absl::StrCat(running_.size(), " jobs run here, as many as may at once"),
        absl::Seconds(5)));
  }
  Running& job = running_.emplace_back();
  job.cancel = std::make_shared<CancelToken>(call.cancel);
  job.feed = std::make_shared<JobFeed>();
  std::unique_ptr<JobStream> stream = job.feed->Follow();
  job.thread = std::thread([this, at = &job, open = std::move(open)]() mutable {
    Run(at, std::move(open));
  });
  return stream;
}

absl::StatusOr<JobResult> Jobs::Impl::RunOpened(Running* job, Open open) {
  auto opened = open(Bounded({absl::InfiniteFuture(), job->cancel}));
  if (!opened.ok()) return opened.status();
  {
    MutexLock lock(&mu_);
    job->collection = opened->spec.name;
    job->name = opened->job.record.info.name;
  }
  JobRunner::Environment environment;
  environment.shards = shards_;
  environment.store = &store_;
  environment.links = links_.get();
  environment.step_timeout = options_.step_timeout;
  environment.heartbeat = options_.heartbeat;
  environment.message_bytes = options_.limits.message_bytes;
  environment.stopping = [this] { return stopping_.load(); };
  const auto report = [&job](JobReport r) { job->feed->Push(std::move(r)); };
  if (opened->job.record.info.kind == JobKind::kSgd) {
    return SgdRunner(std::move(environment), std::move(opened->spec),
                     std::move(opened->job), job->cancel, report)
        .Run();
  }
  return KMeansRunner(std::move(environment), std::move(opened->spec),
                      std::move(opened->job), job->cancel, report)
      .Run();
}

void Jobs::Impl::Run(Running* job, Open open) {
  const std::shared_ptr<JobFeed> feed = job->feed;
  absl::StatusOr<JobResult> result = RunOpened(job, std::move(open));
  {
    MutexLock lock(&mu_);
    job->ended = true;
    job->name.clear();
  }
  // Afterwards the job's entry may be gone.
  feed->End(std::move(result));
}

std::pair<std::shared_ptr<JobFeed>, std::shared_ptr<CancelToken>>
Jobs::Impl::FindHere(const std::string& collection, const std::string& name) {
  MutexLock lock(&mu_);
  for (const Running& job : running_) {
    if (!job.ended && job.collection == collection && job.name == name) {
      return {job.feed, job.cancel};
    }
  }
  return {};
}

JobInfo Jobs::Impl::Judged(JobInfo info) const {
  if (info.state == JobState::kRunning &&
      info.age_seconds >
          kSilentBeats * absl::ToDoubleSeconds(options_.heartbeat)) {
    info.state = JobState::kInterrupted;
    info.status = absl::UnavailableError(
        absl::StrFormat("its coordinator, %s, has been silent for %.0f s",
                        info.owner, info.age_seconds));
  }
  return info;
}

std::unique_ptr<JobStream> Jobs::Impl::Watch(std::string collection,
                                             std::string name,
                                             CallContext call) {
  const auto here = FindHere(collection, name);
  if (here.first != nullptr) return here.first->Follow();
  // What there is to say is known once the record has been read.
  auto feed = std::make_shared<JobFeed>();
  desk_.Post<JobResult>(
      Bounded(call),
      [feed](absl::StatusOr<JobResult> result) {
        feed->End(std::move(result));
      },
      [this, collection = std::move(collection), name = std::move(name),
       call = Bounded(call)]() -> absl::StatusOr<JobResult> {
        const auto info = Get(collection, name, call);
        if (!info.ok()) return info.status();
        if (info->state == JobState::kDone) {
          const auto spec = store_.Find(collection, call);
          if (!spec.ok()) return spec.status();
          if (info->kind == JobKind::kSgd) {
            return store_.ReadModel(*spec, name, call);
          }
          return store_.ReadClustering(*spec, name, call);
        }
        if (info->state != JobState::kRunning) return info->status;
        return absl::FailedPreconditionError(
            absl::StrCat("job ", Quoted(name), " runs at ", info->owner,
                         ": follow it there"));
      });
  return feed->Follow();
}

absl::StatusOr<std::vector<JobInfo>> Jobs::Impl::List(
    const std::string& collection, const CallContext& call) {
  std::vector<CollectionSpec> specs;
  if (collection.empty()) {
    auto all = store_.Collections(call);
    if (!all.ok()) return all.status();
    specs = *std::move(all);
  } else {
    auto one = store_.Find(collection, call);
    if (!one.ok()) return one.status();
    specs.push_back(*std::move(one));
  }
  std::vector<JobInfo> jobs;
  for (const CollectionSpec& spec : specs) {
    auto some = store_.ListJobs(spec, call);
    if (!some.ok()) return some.status();
    for (JobInfo& info : *some) jobs.push_back(Judged(std::move(info)));
  }
  return jobs;
}

absl::StatusOr<JobInfo> Jobs::Impl::CancelElsewhere(
    const std::string& collection, const std::string& name,
    const CallContext& call) {
  const auto spec = store_.Find(collection, call);
  if (!spec.ok()) return spec.status();
  auto job = store_.ReadJob(*spec, name, call);
  if (!job.ok()) return job.status();
  JobInfo& info = job->record.info;
  if (info.state != JobState::kRunning) return info;
  info.epoch = NextEpoch(info.epoch);
  info.state = JobState::kCancelled;
  info.status = absl::CancelledError("cancelled on request");
  const auto version = store_.PutJob(*spec, job->record, job->version, call);
  if (!version.ok()) return version.status();
  // The owner hears of it from the shards, at the latest at its next record.
  const JobRef ref{spec->name, spec->number, name, info.epoch};
  for (const std::shared_ptr<ShardClient>& shard : *shards_) {
    shard->EndJob(ref, call, [](absl::StatusOr<bool>) {});
  }
  return info;
}

void Jobs::Impl::Cancel(std::string collection, std::string name,
                        CallContext call, Done<JobInfo> done) {
  const auto here = FindHere(collection, name);
  if (here.first == nullptr) {
    desk_.Post<JobInfo>(call, std::move(done),
                        [this, collection = std::move(collection),
                         name = std::move(name), call = Bounded(call)] {
                          return CancelElsewhere(collection, name, call);
                        });
    return;
  }
  here.second->Cancel();
  // The job's thread may be the last to know this object: its end is awaited by
  // the destructor, which comes after.
  here.first->OnEnd([this, collection = std::move(collection),
                     name = std::move(name), call,
                     done = std::move(done)]() mutable {
    desk_.Post<JobInfo>(
        call, std::move(done),
        [this, collection = std::move(collection), name = std::move(name),
         call = Bounded(call)] { return Get(collection, name, call); });
  });
}

// --- Jobs -------------------------------------------------------------------

Jobs::Jobs(ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
           std::shared_ptr<LinkModels> links, JobsOptions options)
    : impl_(std::make_unique<Impl>(std::move(shards), std::move(catalogue),
                                   std::move(links), std::move(options))) {}
Jobs::~Jobs() = default;

std::unique_ptr<JobStream> Jobs::Train(JobRequest request, CallContext call) {
  return impl_->Train(std::move(request), call);
}

std::unique_ptr<JobStream> Jobs::Resume(std::string collection,
                                        std::string name, CallContext call) {
  return impl_->Resume(std::move(collection), std::move(name), call);
}

std::unique_ptr<JobStream> Jobs::Watch(std::string collection, std::string name,
                                       CallContext call) {
  return impl_->Watch(std::move(collection), std::move(name), std::move(call));
}

void Jobs::List(std::string collection, CallContext call,
                Done<std::vector<JobInfo>> done) {
  impl_->desk().Post<std::vector<JobInfo>>(
      call, std::move(done),
      [impl = impl_.get(), collection = std::move(collection),
       call = Bounded(call)] { return impl->List(collection, call); });
}

void Jobs::Get(std::string collection, std::string name, CallContext call,
               Done<JobInfo> done) {
  impl_->desk().Post<JobInfo>(
      call, std::move(done),
      [impl = impl_.get(), collection = std::move(collection),
       name = std::move(name),
       call = Bounded(call)] { return impl->Get(collection, name, call); });
}

void Jobs::Cancel(std::string collection, std::string name, CallContext call,
                  Done<JobInfo> done) {
  impl_->Cancel(std::move(collection), std::move(name), std::move(call),
                std::move(done));
}

void Jobs::GetClustering(std::string collection, std::string name,
                         CallContext call, Done<Clustering> done) {
  impl_->WithCollection<Clustering>(
      std::move(collection), call, std::move(done),
      [impl = impl_.get(), name = std::move(name)](const CollectionSpec& spec,
                                                   const CallContext& bounded) {
        return impl->store().ReadClustering(spec, name, bounded);
      });
}

void Jobs::GetModel(std::string collection, std::string name, CallContext call,
                    Done<TrainedModel> done) {
  impl_->WithCollection<TrainedModel>(
      std::move(collection), call, std::move(done),
      [impl = impl_.get(), name = std::move(name)](const CollectionSpec& spec,
                                                   const CallContext& bounded) {
        return impl->store().ReadModel(spec, name, bounded);
      });
}

void Jobs::ListResults(JobKind kind, std::string collection, CallContext call,
                       Done<std::vector<std::string>> done) {
  impl_->WithCollection<std::vector<std::string>>(
      std::move(collection), call, std::move(done),
      [impl = impl_.get(), kind](const CollectionSpec& spec,
                                 const CallContext& bounded) {
        return impl->store().ListResults(spec, kind, bounded);
      });
}

void Jobs::DeleteResult(JobKind kind, std::string collection, std::string name,
                        CallContext call, Done<bool> done) {
  impl_->WithCollection<bool>(
      std::move(collection), call, std::move(done),
      [impl = impl_.get(), kind, name = std::move(name)](
          const CollectionSpec& spec,
          const CallContext& bounded) -> absl::StatusOr<bool> {
        const absl::Status gone =
            impl->store().DeleteResult(spec, kind, name, bounded);
        if (!gone.ok()) return gone;
        return true;
      });
}

void Jobs::Assign(AssignRequest request, CallContext call,
                  Done<std::vector<AssignedPoint>> done) {
  impl_->WithCollection<std::vector<AssignedPoint>>(
      request.collection, call, std::move(done),
      [impl = impl_.get(), request](const CollectionSpec& spec,
                                    const CallContext& bounded)
          -> absl::StatusOr<std::vector<AssignedPoint>> {
        const auto clustering =
            impl->store().ReadClustering(spec, request.clustering, bounded);
        if (!clustering.ok()) return clustering.status();
        const auto vectors = PointVectors(impl->shards(), spec, request.ids,
                                          request.vectors, bounded);
        if (!vectors.ok()) return vectors.status();
        return NearestClusters(*clustering, *vectors, request.top_m, bounded);
      });
}

void Jobs::Predict(PredictRequest request, CallContext call,
                   Done<std::vector<Prediction>> done) {
  impl_->WithCollection<std::vector<Prediction>>(
      request.collection, call, std::move(done),
      [impl = impl_.get(), request](const CollectionSpec& spec,
                                    const CallContext& bounded)
          -> absl::StatusOr<std::vector<Prediction>> {
        const auto model =
            impl->store().ReadModel(spec, request.model, bounded);
        if (!model.ok()) return model.status();
        const auto vectors = PointVectors(impl->shards(), spec, request.ids,
                                          request.vectors, bounded);
        if (!vectors.ok()) return vectors.status();
        return Predictions(*model, *vectors, bounded);
      });
}

}  // namespace coterie
