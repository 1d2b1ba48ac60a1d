#include "shard/work_queue.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "api/status_details.h"
#include "gtest/gtest.h"
#include "shard/shard_testing.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// Work that reports its admission as an answer.
WorkQueue::Work Report(Answer<absl::Duration>* answer) {
  return [done = answer->done()](const WorkQueue::Admission& a) mutable {
    if (a.status.ok()) {
      done(a.waited);
    } else {
      done(a.status);
    }
  };
}

// Occupies the only thread of a queue until it is let go.
class Occupied {
 public:
  explicit Occupied(WorkQueue* queue) {
    Gate started;
    queue->Admit(
        {}, [started, release = release_](const WorkQueue::Admission&) mutable {
          started.Open();
          release.Wait();
        });
    started.Wait();
  }
  ~Occupied() { release_.Open(); }

 private:
  Gate release_;
};

TEST(WorkQueue, RunsWorkInTheOrderOfAdmission) {
  WorkQueue queue(1, 100);
  std::vector<int> order;
  {
    Occupied occupied(&queue);
    for (int i = 0; i < 50; ++i) {
      queue.Admit({}, [&order, i](const WorkQueue::Admission& admission) {
        if (admission.status.ok()) order.push_back(i);
      });
    }
    EXPECT_EQ(queue.length(), 50);
  }
  queue.Stop();
  ASSERT_EQ(order.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(WorkQueue, RefusesAtOnceWhenFullAndSaysWhenToRetry) {
  WorkQueue queue(1, 2);
  Answer<absl::Duration> first, second, refused;
  {
    Occupied occupied(&queue);
    queue.Admit({}, Report(&first));
    queue.Admit({}, Report(&second));
    queue.Admit({}, Report(&refused));
    // The thread is still occupied: only the calling thread can have answered.
    ASSERT_TRUE(refused.ready());
    EXPECT_FALSE(first.ready());
  }
  const absl::Status status = refused.Wait().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  ASSERT_TRUE(RetryAfterOf(status).has_value());
  EXPECT_GT(*RetryAfterOf(status), absl::ZeroDuration());
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
}

TEST(WorkQueue, DropsWorkWhoseCallEndedWhileItWaited) {
  WorkQueue queue(1, 10);
  const auto cancel = std::make_shared<CancelToken>();
  Answer<absl::Duration> cancelled, late, live;
  {
    Occupied occupied(&queue);
    queue.Admit({absl::InfiniteFuture(), cancel}, Report(&cancelled));
    queue.Admit({absl::InfinitePast(), nullptr}, Report(&late));
    queue.Admit({}, Report(&live));
    cancel->Cancel();
  }
  EXPECT_TRUE(absl::IsCancelled(cancelled.Wait().status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.Wait().status()));
  EXPECT_TRUE(live.Wait().ok());
}

TEST(WorkQueue, StopRunsWhatWasAdmittedAndRefusesTheRest) {
  WorkQueue queue(2, 1000);
  std::atomic<int> ran{0};
  for (int i = 0; i < 500; ++i) {
    queue.Admit({}, [&ran](const WorkQueue::Admission& admission) {
      if (admission.status.ok()) ++ran;
    });
  }
  queue.Stop();
  EXPECT_EQ(ran.load(), 500);
  Answer<absl::Duration> after;
  queue.Admit({}, Report(&after));
  EXPECT_TRUE(absl::IsUnavailable(after.Wait().status()));
  queue.Stop();
}

TEST(WorkQueue, ParallelForRunsEveryTaskOnce) {
  WorkQueue queue(4, 10);
  for (int round = 0; round < 200; ++round) {
    constexpr int64_t kTasks = 37;
    std::vector<std::atomic<int>> runs(kTasks);
    std::vector<std::atomic<int>> busy(4);
    std::atomic<int> overlaps{0};
    queue.ParallelFor(kTasks, [&](int32_t worker, int64_t task) {
      if (++busy[static_cast<size_t>(worker)] != 1) ++overlaps;
      ++runs[static_cast<size_t>(task)];
      --busy[static_cast<size_t>(worker)];
    });
    for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
    ASSERT_EQ(overlaps.load(), 0) << "a worker ran two tasks at a time";
  }
}

TEST(WorkQueue, ParallelForUsesIdleThreads) {
  WorkQueue queue(3, 10);
  // Both tasks wait for each other, so one thread alone could not end them.
  // Threads count as idle once they wait, which they may not do yet.
  Mutex mutex;
  CondVar changed;
  int arrived = 0;
  std::set<int32_t> workers;
  bool helped = false;
  while (!helped) {
    arrived = 0;
    queue.ParallelFor(2, [&](int32_t worker, int64_t task) {
      MutexLock lock(&mutex);
      ++arrived;
      workers.insert(worker);
      if (task == 0) {
        // Time for a helper to come; without one task 1 follows on this thread.
        changed.WaitFor(&mutex, std::chrono::milliseconds(20));
      }
      changed.NotifyAll();
    });
    helped = workers.size() > 1;
  }
  EXPECT_EQ(arrived, 2);
  EXPECT_EQ(workers, (std::set<int32_t>{0, 1}));
}

TEST(WorkQueue, ParallelForEndsWhenEveryThreadIsInOne) {
  WorkQueue queue(3, 100);
  std::atomic<int64_t> tasks{0};
  std::vector<Answer<absl::Duration>> answers(60);
  for (auto& answer : answers) {
    queue.Admit(
        {}, [&, done = answer.done()](const WorkQueue::Admission& a) mutable {
          queue.ParallelFor(20, [&](int32_t, int64_t) { ++tasks; });
          done(a.waited);
        });
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(tasks.load(), 60 * 20);
}

TEST(WorkQueue, ParallelForOfNothingReturns) {
  WorkQueue queue(1, 1);
  queue.ParallelFor(0, [](int32_t, int64_t) { FAIL(); });
}

}  // namespace
}  // namespace coterie
