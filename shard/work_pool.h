// Threads that the shards of a process share, whoever has work.
//
// Thread-safe. Shards come to it through queues of their own
// (shard/work_queue.h). A search of one shard may so have all cores, and
// searches of many shards have no more threads than there are.
//
// No class of work can starve another: there is one thread more for each
// further class, and a class runs on at most `threads` at once, all queues
// together, so that each can always have one. Beyond that a free thread goes to
// the class that runs on fewest, within it to the queue that runs on fewest,
// first come first served among equals. If nothing waits it helps with work
// that has begun.

#ifndef COTERIE_SHARD_WORK_POOL_H_
#define COTERIE_SHARD_WORK_POOL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/shard_messages.h"
#include "sync/mutex.h"

namespace coterie {

class WorkPool {
 public:
  // `threads` of each class, >= 1: that many and one for each further class.
  explicit WorkPool(int32_t threads);
  // REQUIRES: its queues are gone; not called from work.
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // That a class may run on at once.
  int32_t threads() const { return threads_; }

 private:
  friend class WorkQueue;

  // What becomes of work, told to it exactly once.
  struct Admission {
    absl::Status status;
    absl::Duration waited;
  };
  using Work = absl::AnyInvocable<void(const Admission&)>;

  struct Item {
    CallContext call;
    Work work;
    absl::Time admitted;
  };
  // One ParallelFor.
  struct Crew;
  // What one queue has of one class. All of it is guarded by mutex_.
  struct Lane {
    QueueState state;
    bool stopping = false;
    std::deque<Item> waiting;
    std::vector<Crew*> crews;
    int32_t running = 0;  // threads, helpers included
    // Moving average of how long work runs.
    absl::Duration service = absl::Milliseconds(1);
  };
  using Lanes = std::array<Lane, kWorkClasses>;
  // What a free thread turns to: work that waited, or a crew as `worker`.
  struct Job {
    Lane* lane = nullptr;
    Crew* crew = nullptr;
    int32_t worker = 0;
    Item item;
    absl::Time start;
  };

  void Add(Lanes* lanes);
  // Waits for what was admitted.
  void Remove(Lanes* lanes);
  void Admit(Lane* lane, CallContext call, Work work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ParallelFor(Lane* lane, int64_t tasks,
                   absl::FunctionRef<void(int32_t worker, int64_t task)> body);

  void Run();
  // The first crew of the lane that is open; false if none is.
  static bool Join(const Lane& lane, Job* job);
  // False if there is nothing to do.
  bool Take(Job* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lane* Next() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int32_t& running(const Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return running_[static_cast<size_t>(lane.state.work_class)];
  }

  const int32_t threads_;

  mutable Mutex mutex_;
  CondVar changed_;  // there is work, or an end
  CondVar drained_;  // a lane that is stopping has nothing left
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int32_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Lanes*> queues_ ABSL_GUARDED_BY(mutex_);
  // Threads by class.
  std::array<int32_t, kWorkClasses> running_ ABSL_GUARDED_BY(mutex_) = {};

  std::vector<std::thread> pool_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_WORK_POOL_H_
