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
    : thread_count_(threads), capacity_(capacity) {
  MutexLock lock(&joining_);
  for (int32_t i = 0; i < threads; ++i) {
    pool_.emplace_back([this] { Run(); });
  }
}

WorkQueue::~WorkQueue() { Stop(); }

int32_t WorkQueue::length() const {
  MutexLock lock(&mutex_);
  return static_cast<int32_t>(waiting_.size());
}

absl::Duration WorkQueue::RetryDelay() const {
  const auto ahead = static_cast<double>(waiting_.size());
  return std::clamp(service_ * (ahead / thread_count_), kLeastRetry,
                    kMostRetry);
}

void WorkQueue::Admit(CallContext call, Work work) {
  absl::Status refusal;
  {
    MutexLock lock(&mutex_);
    if (stopping_) {
      refusal = absl::UnavailableError("the shard is stopping");
    } else if (static_cast<int32_t>(waiting_.size()) >= capacity_) {
      refusal = Overloaded(
          absl::StrCat("the shard's queue is full (", capacity_, " waiting)"),
          RetryDelay());
    } else {
      waiting_.push_back({std::move(call), std::move(work), absl::Now()});
      changed_.NotifyOne();
      return;
    }
  }
  work({refusal, absl::ZeroDuration()});
}

void WorkQueue::Finish(Item item) {
  const absl::Time start = absl::Now();
  item.work({item.call.status(), start - item.admitted});
  const absl::Duration took = absl::Now() - start;
  MutexLock lock(&mutex_);
  service_ += (took - service_) * kNewest;
}

void WorkQueue::Run() {
  for (;;) {
    std::shared_ptr<Crew> crew;
    Item item;
    {
      MutexLock lock(&mutex_);
      ++idle_;
      while (crews_.empty() && waiting_.empty() && !stopping_) {
        changed_.Wait(&mutex_);
      }
      --idle_;
      if (!crews_.empty()) {
        crew = std::move(crews_.front());
        crews_.pop_front();
      } else if (!waiting_.empty()) {
        item = std::move(waiting_.front());
        waiting_.pop_front();
      } else {
        return;
      }
    }
    if (crew != nullptr) {
      crew->Help();
    } else {
      Finish(std::move(item));
    }
  }
}

void WorkQueue::ParallelFor(
    int64_t tasks, absl::FunctionRef<void(int32_t worker, int64_t task)> body) {
  auto crew = std::make_shared<Crew>(tasks, thread_count_, body);
  {
    MutexLock lock(&mutex_);
    const auto free = static_cast<int64_t>(idle_) -
                      static_cast<int64_t>(waiting_.size() + crews_.size());
    const int64_t helpers = std::min(free, tasks - 1);
    for (int64_t i = 0; i < helpers; ++i) {
      crews_.push_back(crew);
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
