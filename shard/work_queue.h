// A shard's bounded first-in first-out queues, one for each class of work, in
// front of threads that it may share with other shards (shard/work_pool.h).
//
// Thread-safe. Work is admitted, or refused at once when the queue of its class
// is full, so that a shard under load answers instead of falling behind. Work
// whose caller went away or whose deadline passed while it waited is told so
// and not done.

#ifndef COTERIE_SHARD_WORK_QUEUE_H_
#define COTERIE_SHARD_WORK_QUEUE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/shard_messages.h"
#include "shard/work_pool.h"

namespace coterie {

class WorkQueue {
 public:
  // status: OK: run now. RESOURCE_EXHAUSTED with a delay: the queue is full.
  // CANCELLED, DEADLINE_EXCEEDED: the call ended while it waited.
  // UNAVAILABLE: the queue is stopped.
  using Admission = WorkPool::Admission;
  // Told of its admission exactly once.
  using Work = WorkPool::Work;

  // `capacity` waits of each class, >= 1.
  WorkQueue(std::shared_ptr<WorkPool> pool, int32_t capacity);
  // With a pool of its own.
  WorkQueue(int32_t threads, int32_t capacity);
  // Stop().
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Runs `work` on one of the threads, or tells it on the calling thread why
  // not. Does not block.
  void Admit(WorkClass work_class, CallContext call, Work work);

  // Called by running work of that class: body(worker, task) for each task in
  // [0, tasks), by the caller (worker 0) and by threads that have nothing else
  // to do, now or later, and that the class may have (workers 1, 2, ... below
  // `threads`); returns when all have ended. A worker runs one task at a time.
  // Tasks start in order. The caller does whatever others do not, so it cannot
  // wait for a thread.
  void ParallelFor(WorkClass work_class, int64_t tasks,
                   absl::FunctionRef<void(int32_t worker, int64_t task)> body);

  // Refuses new work, returns when what was admitted has run. Idempotent.
  // REQUIRES: not called from work.
  void Stop();

  // That a class may run on at once, all queues of the pool together.
  int32_t threads() const { return pool_->threads(); }
  // Of these, what falls to this queue when all are busy.
  double thread_share() const;
  QueueState state(WorkClass work_class) const;

 private:
  // Expected wait of work admitted behind a full queue.
  absl::Duration RetryDelay(const WorkPool::Lane& lane) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool_->mutex_);

  const std::shared_ptr<WorkPool> pool_;
  const int32_t capacity_;
  WorkPool::Lanes lanes_ ABSL_GUARDED_BY(pool_->mutex_);
};

}  // namespace coterie

#endif  // COTERIE_SHARD_WORK_QUEUE_H_
