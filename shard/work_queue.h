// A shard's threads, behind a bounded first-in first-out queue.
//
// Thread-safe. Work is admitted, or refused at once when the queue is full, so
// that a shard under load answers instead of falling behind. Work whose caller
// went away or whose deadline passed while it waited is told so and not done.

#ifndef COTERIE_SHARD_WORK_QUEUE_H_
#define COTERIE_SHARD_WORK_QUEUE_H_

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

  // REQUIRES: threads >= 1, capacity >= 1.
  WorkQueue(int32_t threads, int32_t capacity);
  // Stop().
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `work` on one of the threads, or tells it on the calling thread why
  // not. Does not block.
  void Admit(CallContext call, Work work);

  // Called by running work: body(worker, task) for each task in [0, tasks), by
  // the caller (worker 0) and by threads that are idle now (workers 1, 2, ...
  // below `threads`); returns when all have ended. A worker runs one task at a
  // time. Tasks start in order. The caller does whatever others do not, so it
  // cannot wait for a thread.
  void ParallelFor(int64_t tasks,
                   absl::FunctionRef<void(int32_t worker, int64_t task)> body);

  // Refuses new work, runs what was admitted, ends the threads. Idempotent.
  // REQUIRES: not called from work.
  void Stop();

  int32_t threads() const { return thread_count_; }
  int32_t capacity() const { return capacity_; }
  int32_t length() const;

 private:
  struct Item {
    CallContext call;
    Work work;
    absl::Time admitted;
  };
  // One ParallelFor.
  class Crew;

  void Run();
  // Expected wait of work admitted behind a full queue.
  absl::Duration RetryDelay() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(Item item);

  const int32_t thread_count_;
  const int32_t capacity_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Item> waiting_ ABSL_GUARDED_BY(mutex_);
  // Calls for help with work that has begun; they go first.
  std::deque<std::shared_ptr<Crew>> crews_ ABSL_GUARDED_BY(mutex_);
  // Moving average of how long work runs.
  absl::Duration service_ ABSL_GUARDED_BY(mutex_) = absl::Milliseconds(1);

  Mutex joining_;
  std::vector<std::thread> pool_ ABSL_GUARDED_BY(joining_);
};

}  // namespace coterie

#endif  // COTERIE_SHARD_WORK_QUEUE_H_
