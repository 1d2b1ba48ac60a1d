// A shard whose steps take as long as they are told to, for studies of
// stragglers. Everything else passes through.
//
// Thread-safe.

#ifndef COTERIE_BENCH_SGD_SLOW_SHARD_H_
#define COTERIE_BENCH_SGD_SLOW_SHARD_H_

#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sync/mutex.h"
#include "tests/passing_shard.h"

namespace coterie {

class SlowShard final : public PassingShard {
 public:
  // A step's answer is held back until `step` has passed since it was sent.
  // Steps come one after the other.
  SlowShard(std::shared_ptr<ShardClient> inner, absl::Duration step)
      : PassingShard(std::move(inner)),
        step_(step),
        thread_([this] { Run(); }) {}
  ~SlowShard() override {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

  void StepJob(JobStep step, CallContext call, Done<JobAnswer> done) override {
    PassingShard::StepJob(
        std::move(step), std::move(call),
        [this, due = absl::Now() + step_,
         done = std::move(done)](absl::StatusOr<JobAnswer> answer) mutable {
          MutexLock lock(&mu_);
          held_.push_back({due, [done = std::move(done),
                                 answer = std::move(answer)]() mutable {
                             done(std::move(answer));
                           }});
          changed_.NotifyAll();
        });
  }

 private:
  struct Held {
    absl::Time due;
    absl::AnyInvocable<void()> give;
  };

  void Run() {
    for (;;) {
      Held next;
      {
        MutexLock lock(&mu_);
        while (!stopping_ && held_.empty()) changed_.Wait(&mu_);
        if (held_.empty()) return;
        next = std::move(held_.front());
        held_.pop_front();
      }
      absl::SleepFor(next.due - absl::Now());
      next.give();
    }
  }

  const absl::Duration step_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Held> held_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace coterie

#endif  // COTERIE_BENCH_SGD_SLOW_SHARD_H_
