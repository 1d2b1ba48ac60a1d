#include "shard/work_pool.h"

#include <algorithm>
#include <atomic>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"

namespace coterie {
namespace {

// Weight of the newest sample in the moving average of service times.
constexpr double kNewest = 0.125;

}  // namespace

// On its caller's stack for as long as a thread is in it or its lane names it.
struct WorkPool::Crew {
  // Whether another thread would find something to do.
  bool open() const {
    return joined + 1 < most && next.load(std::memory_order_relaxed) < tasks;
  }

  void DoTasks(int32_t worker) {
    for (;;) {
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      body(worker, task);
    }
  }

  const int64_t tasks;
  const int32_t most;
  const absl::FunctionRef<void(int32_t, int64_t)> body;
  std::atomic<int64_t> next{0};
  // Guarded by mutex_.
  CondVar left{};
  int32_t joined = 0;
  int32_t helping = 0;
};

WorkPool::WorkPool(int32_t threads) : threads_(threads) {
  for (int32_t i = 0; i < threads + kWorkClasses - 1; ++i) {
    pool_.emplace_back([this] { Run(); });
  }
}

WorkPool::~WorkPool() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : pool_) thread.join();
}

void WorkPool::Add(Lanes* lanes) {
  MutexLock lock(&mutex_);
  queues_.push_back(lanes);
}

void WorkPool::Remove(Lanes* lanes) {
  MutexLock lock(&mutex_);
  for (Lane& lane : *lanes) lane.stopping = true;
  for (Lane& lane : *lanes) {
    while (lane.running > 0 || !lane.waiting.empty()) drained_.Wait(&mutex_);
  }
  std::erase(queues_, lanes);
}

void WorkPool::Admit(Lane* lane, CallContext call, Work work) {
  lane->waiting.push_back({std::move(call), std::move(work), absl::Now()});
  // Otherwise a thread that runs work of the class comes by when it has ended.
  if (running(*lane) < threads_) changed_.NotifyOne();
}

WorkPool::Lane* WorkPool::Next() const {
  // Lexicographically least of: threads of the class, nothing but a call for
  // help, threads of the queue, time of admission.
  using Rank = std::tuple<int32_t, bool, int32_t, absl::Time>;
  Lane* best = nullptr;
  Rank best_rank;
  for (Lanes* lanes : queues_) {
    for (Lane& lane : *lanes) {
      const int32_t of_class =
          running_[static_cast<size_t>(lane.state.work_class)];
      if (of_class >= threads_) continue;
      const bool waits = !lane.waiting.empty();
      if (!waits && std::none_of(lane.crews.begin(), lane.crews.end(),
                                 [](const Crew* c) { return c->open(); })) {
        continue;
      }
      const Rank rank(of_class, !waits, lane.running,
                      waits ? lane.waiting.front().admitted : absl::Time());
      if (best == nullptr || rank < best_rank) {
        best = &lane;
        best_rank = rank;
      }
    }
  }
  return best;
}

bool WorkPool::Join(const Lane& lane, Job* job) {
  for (Crew* crew : lane.crews) {
    if (!crew->open()) continue;
    job->crew = crew;
    job->worker = ++crew->joined;
    ++crew->helping;
    return true;
  }
  return false;
}

bool WorkPool::Take(Job* job) {
  Lane* lane = Next();
  // A crew may have run out of tasks since Next looked.
  while (lane != nullptr && lane->waiting.empty() && !Join(*lane, job)) {
    lane = Next();
  }
  if (lane == nullptr) return false;
  job->lane = lane;
  job->start = absl::Now();
  if (job->crew == nullptr) {
    job->item = std::move(lane->waiting.front());
    lane->waiting.pop_front();
    ++lane->state.taken;
    lane->state.wait_seconds +=
        absl::ToDoubleSeconds(job->start - job->item.admitted);
  }
  ++lane->running;
  ++running(*lane);
  return true;
}

void WorkPool::Finish(const Job& job) {
  Lane* const lane = job.lane;
  --lane->running;
  --running(*lane);
  if (job.crew != nullptr) {
    if (--job.crew->helping == 0) job.crew->left.NotifyAll();
  } else {
    lane->service += (absl::Now() - job.start - lane->service) * kNewest;
  }
  if (lane->stopping && lane->running == 0 && lane->waiting.empty()) {
    drained_.NotifyAll();
  }
}

void WorkPool::Run() {
  for (;;) {
    Job job;
    {
      MutexLock lock(&mutex_);
      ++idle_;
      while (!Take(&job)) {
        if (stopping_) return;
        changed_.Wait(&mutex_);
      }
      --idle_;
    }
    if (job.crew != nullptr) {
      job.crew->DoTasks(job.worker);
    } else {
      job.item.work({job.item.call.status(), job.start - job.item.admitted});
      // What it holds goes before the queue may be thought idle.
      job.item = Item();
    }
    MutexLock lock(&mutex_);
    Finish(job);
  }
}

void WorkPool::ParallelFor(
    Lane* lane, int64_t tasks,
    absl::FunctionRef<void(int32_t worker, int64_t task)> body) {
  Crew crew{.tasks = tasks, .most = threads_, .body = body};
  if (tasks > 1) {
    MutexLock lock(&mutex_);
    lane->crews.push_back(&crew);
    const int64_t helpers = std::min<int64_t>(
        {idle_, int64_t{threads_} - running(*lane), tasks - 1});
    for (int64_t i = 0; i < helpers; ++i) changed_.NotifyOne();
  }
  crew.DoTasks(0);
  if (tasks > 1) {
    MutexLock lock(&mutex_);
    std::erase(lane->crews, &crew);
    while (crew.helping > 0) crew.left.Wait(&mutex_);
  }
}

}  // namespace coterie
