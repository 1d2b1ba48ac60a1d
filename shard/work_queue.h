// A shard's threads, behind one bounded first-in first-out queue for each class
// of work.
//
// Thread-safe. Work is admitted, or refused at once when the queue of its class
// is full, so that a shard under load answers instead of falling behind. Work
// whose caller went away or whose deadline passed while it waited is told so
// and not done.
//
// No class can starve another: there is one thread more for each further
// class, and a class runs on at most `threads` at once, so that each can
// always have one. Beyond that a free thread goes to the class that runs on
// fewest, first come first served among equals.

#ifndef COTERIE_SHARD_WORK_QUEUE_H_
#define COTERIE_SHARD_WORK_QUEUE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/shard_messages.h"
#include "sync/mutex.h"

namespace coterie {

class WorkQueue {
 public:
  // What becomes of work, told to it exactly once.
  struct Admission {
    // OK: run now. RESOURCE_EXHAUSTED with a delay: the queue is full.
    // CANCELLED, DEADLINE_EXCEEDED: the call ended while it waited.
    // UNAVAILABLE: the queue is stopped.
    absl::Status status;
    absl::Duration waited;
  };
  using Work = absl::AnyInvocable<void(const Admission&)>;

  // `threads` of each class, so that many and one for each further class in
  // all; `capacity` waits of each class. REQUIRES: both >= 1.
  WorkQueue(int32_t threads, int32_t capacity);
  // Stop().
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `work` on one of the threads, or tells it on the calling thread why
  // not. Does not block.
  void Admit(WorkClass work_class, CallContext call, Work work);

  // Called by running work of that class: body(worker, task) for each task in
  // [0, tasks), by the caller (worker 0) and by threads that are idle now and
  // that the class may have (workers 1, 2, ... below `threads`); returns when
  // all have ended. A worker runs one task at a time. Tasks start in order. The
  // caller does whatever others do not, so it cannot wait for a thread.
  void ParallelFor(WorkClass work_class, int64_t tasks,
                   absl::FunctionRef<void(int32_t worker, int64_t task)> body);

  // Refuses new work, runs what was admitted, ends the threads. Idempotent.
  // REQUIRES: not called from work.
  void Stop();

  // That a class may run on at once.
  int32_t threads() const { return threads_; }
  QueueState state(WorkClass work_class) const;

 private:
  struct Item {
    CallContext call;
    Work work;
    absl::Time admitted;
  };
  // One ParallelFor.
  class Crew;
  struct Lane {
    QueueState state;
    std::deque<Item> waiting;
    // Calls for help with work that has begun; they go before what waits.
    std::deque<std::shared_ptr<Crew>> crews;
    int32_t running = 0;  // threads, helpers included
    // Moving average of how long work runs.
    absl::Duration service = absl::Milliseconds(1);
  };

  void Run();
  // The lane that a free thread turns to; null if there is nothing to do.
  Lane* Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Expected wait of work admitted behind a full queue.
  absl::Duration RetryDelay(const Lane& lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lane& lane(WorkClass work_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return lanes_[static_cast<size_t>(work_class)];
  }

  const int32_t threads_;
  const int32_t capacity_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<Lane, kWorkClasses> lanes_ ABSL_GUARDED_BY(mutex_);

  Mutex joining_;
  std::vector<std::thread> pool_ ABSL_GUARDED_BY(joining_);
};

}  // namespace coterie

#endif  // COTERIE_SHARD_WORK_QUEUE_H_
