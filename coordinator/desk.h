// A few threads for calls that have to wait, behind one bounded queue.
//
// Thread-safe.

#ifndef COTERIE_COORDINATOR_DESK_H_
#define COTERIE_COORDINATOR_DESK_H_

#include <cstdint>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/status_details.h"
#include "sync/mutex.h"

namespace coterie {

class Desk {
 public:
  // REQUIRES: both >= 1.
  Desk(int32_t threads, int32_t capacity) : capacity_(capacity) {
    for (int32_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
  }
  // Does what waits, then ends. REQUIRES: not on a thread of its own.
  ~Desk() {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  Desk(const Desk&) = delete;
  Desk& operator=(const Desk&) = delete;

  // Runs work() on a thread and gives what it returns to `done`; or refuses at
  // once with RESOURCE_EXHAUSTED. A call that ended while it waited is told so.
  template <typename T>
  void Post(CallContext call, Done<T> done,
            absl::AnyInvocable<absl::StatusOr<T>()> work) {
    {
      MutexLock lock(&mu_);
      if (!stopping_ && static_cast<int64_t>(waiting_.size()) < capacity_) {
        waiting_.push_back([call = std::move(call), done = std::move(done),
                            work = std::move(work)]() mutable {
          const absl::Status live = call.status();
          if (live.ok()) {
            done(work());
          } else {
            done(live);
          }
        });
        changed_.NotifyOne();
        return;
      }
    }
    done(Overloaded(
        absl::StrCat("as many calls about jobs wait as may, ", capacity_),
        absl::Milliseconds(100)));
  }

 private:
  void Run() {
    for (;;) {
      absl::AnyInvocable<void()> next;
      {
        MutexLock lock(&mu_);
        while (waiting_.empty() && !stopping_) changed_.Wait(&mu_);
        if (waiting_.empty()) return;
        next = std::move(waiting_.front());
        waiting_.pop_front();
      }
      next();
    }
  }

  const int32_t capacity_;
  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<absl::AnyInvocable<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_DESK_H_
