#include "shard/work_queue.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "api/status_details.h"

namespace coterie {
namespace {

constexpr absl::Duration kLeastRetry = absl::Milliseconds(5);
constexpr absl::Duration kMostRetry = absl::Seconds(10);

// Weight of the newest sample in the moving average of service times.
constexpr double kNewest = 0.125;

}  // namespace

// Hands out tasks. Thread-safe. Helpers may come late, even after the caller
// has left: then there is nothing to do and `body_` is not touched.
class WorkQueue::Crew {
 public:
  Crew(int64_t tasks, int32_t most,
       absl::FunctionRef<void(int32_t, int64_t)> body)
      : tasks_(tasks), most_(most), body_(body) {}

  // Worker 0: does tasks, then waits for the helpers.
  void Lead() {
    DoTasks(0);
    MutexLock lock(&mutex_);
    closed_ = true;
    while (helping_ > 0) ended_.Wait(&mutex_);
  }

  void Help() {
    int32_t worker = 0;
    {
      MutexLock lock(&mutex_);
      if (closed_ || joined_ + 1 >= most_) return;
      worker = ++joined_;
      ++helping_;
    }
    DoTasks(worker);
    MutexLock lock(&mutex_);
    if (--helping_ == 0) ended_.NotifyAll();
  }

 private:
  void DoTasks(int32_t worker) {
    for (;;) {
      const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks_) return;
      body_(worker, task);
    }
  }

  const int64_t tasks_;
  const int32_t most_;
  const absl::FunctionRef<void(int32_t, int64_t)> body_;
  std::atomic<int64_t> next_{0};
  Mutex mutex_;
  CondVar ended_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t joined_ ABSL_GUARDED_BY(mutex_) = 0;
  int32_t helping_ ABSL_GUARDED_BY(mutex_) = 0;
};

WorkQueue::WorkQueue(int32_t threads, int32_t capacity)
    : threads_(threads), capacity_(capacity) {
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].state.work_class = static_cast<WorkClass>(i);
      lanes_[i].state.capacity = capacity;
    }
  }
  MutexLock lock(&joining_);
  for (int32_t i = 0; i < threads + kWorkClasses - 1; ++i) {
    pool_.emplace_back([this] { Run(); });
  }
}

WorkQueue::~WorkQueue() { Stop(); }

QueueState WorkQueue::state(WorkClass work_class) const {
  MutexLock lock(&mutex_);
  const Lane& lane = lanes_[static_cast<size_t>(work_class)];
  QueueState state = lane.state;
  state.length = static_cast<int32_t>(lane.waiting.size());
  return state;
}

absl::Duration WorkQueue::RetryDelay(const Lane& lane) const {
  const auto ahead = static_cast<double>(lane.waiting.size());
  return std::clamp(lane.service * (ahead / threads_), kLeastRetry, kMostRetry);
}

void WorkQueue::Admit(WorkClass work_class, CallContext call, Work work) {
  absl::Status refusal;
  {
    MutexLock lock(&mutex_);
    Lane& mine = lane(work_class);
    if (stopping_) {
      refusal = absl::UnavailableError("the shard is stopping");
    } else if (static_cast<int32_t>(mine.waiting.size()) >= capacity_) {
      ++mine.state.refused;
      refusal = Overloaded(
          absl::StrCat("the shard's queue of ", WorkClassName(work_class),
                       " work is full (", capacity_, " waiting)"),
          RetryDelay(mine));
    } else {
      mine.waiting.push_back({std::move(call), std::move(work), absl::Now()});
      changed_.NotifyOne();
      return;
    }
  }
  work({refusal, absl::ZeroDuration()});
}

WorkQueue::Lane* WorkQueue::Next() {
  Lane* best = nullptr;
  for (Lane& lane : lanes_) {
    if (lane.running >= threads_ ||
        (lane.crews.empty() && lane.waiting.empty())) {
      continue;
    }
    // Equal and nothing but calls for help: whichever comes first will do.
    const bool sooner =
        best != nullptr && lane.running == best->running &&
        !lane.waiting.empty() &&
        (best->waiting.empty() ||
         lane.waiting.front().admitted < best->waiting.front().admitted);
    if (best == nullptr || lane.running < best->running || sooner) {
      best = &lane;
    }
  }
  return best;
}

void WorkQueue::Run() {
  for (;;) {
    Lane* lane = nullptr;
    std::shared_ptr<Crew> crew;
    Item item;
    absl::Time start;
    {
      MutexLock lock(&mutex_);
      ++idle_;
      // What a class has waiting beyond its threads is left, also at the end,
      // to those threads.
      while ((lane = Next()) == nullptr && !stopping_) changed_.Wait(&mutex_);
      --idle_;
      if (lane == nullptr) return;
      ++lane->running;
      start = absl::Now();
      if (!lane->crews.empty()) {
        crew = std::move(lane->crews.front());
        lane->crews.pop_front();
      } else {
        item = std::move(lane->waiting.front());
        lane->waiting.pop_front();
        ++lane->state.taken;
        lane->state.wait_seconds +=
            absl::ToDoubleSeconds(start - item.admitted);
      }
    }
    if (crew != nullptr) {
      crew->Help();
    } else {
      item.work({item.call.status(), start - item.admitted});
    }
    MutexLock lock(&mutex_);
    --lane->running;
    if (crew == nullptr) {
      lane->service += (absl::Now() - start - lane->service) * kNewest;
    }
  }
}

void WorkQueue::ParallelFor(
    WorkClass work_class, int64_t tasks,
    absl::FunctionRef<void(int32_t worker, int64_t task)> body) {
  auto crew = std::make_shared<Crew>(tasks, threads_, body);
  {
    MutexLock lock(&mutex_);
    Lane& mine = lane(work_class);
    int64_t promised = 0;
    for (const Lane& other : lanes_) {
      promised +=
          static_cast<int64_t>(other.waiting.size() + other.crews.size());
    }
    const int64_t helpers = std::min(
        {idle_ - promised, int64_t{threads_} - mine.running, tasks - 1});
    for (int64_t i = 0; i < helpers; ++i) {
      mine.crews.push_back(crew);
      changed_.NotifyOne();
    }
  }
  crew->Lead();
}

void WorkQueue::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  MutexLock lock(&joining_);
  for (std::thread& thread : pool_) thread.join();
  pool_.clear();
}

}  // namespace coterie
