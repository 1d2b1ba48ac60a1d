#include "shard/work_queue.h"

#include <array>
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

constexpr WorkClass kSearch = WorkClass::kSearch;
constexpr WorkClass kRead = WorkClass::kRead;

// Occupies a thread of a queue until it is let go: the only one of its class,
// if the queue has one for each.
class Occupied {
 public:
  explicit Occupied(WorkQueue* queue, WorkClass work_class = kSearch) {
    Gate started;
    queue->Admit(
        work_class, {},
        [started, release = release_](const WorkQueue::Admission&) mutable {
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
      queue.Admit(kSearch, {},
                  [&order, i](const WorkQueue::Admission& admission) {
                    if (admission.status.ok()) order.push_back(i);
                  });
    }
    EXPECT_EQ(queue.state(kSearch).length, 50);
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
    queue.Admit(kSearch, {}, Report(&first));
    queue.Admit(kSearch, {}, Report(&second));
    queue.Admit(kSearch, {}, Report(&refused));
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
    queue.Admit(kSearch, {absl::InfiniteFuture(), cancel}, Report(&cancelled));
    queue.Admit(kSearch, {absl::InfinitePast(), nullptr}, Report(&late));
    queue.Admit(kSearch, {}, Report(&live));
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
    queue.Admit(i % 3 == 0 ? kRead : kSearch, {},
                [&ran](const WorkQueue::Admission& admission) {
                  if (admission.status.ok()) ++ran;
                });
  }
  queue.Stop();
  EXPECT_EQ(ran.load(), 500);
  Answer<absl::Duration> after;
  queue.Admit(kSearch, {}, Report(&after));
  EXPECT_TRUE(absl::IsUnavailable(after.Wait().status()));
  queue.Stop();
}

TEST(WorkQueue, NoClassKeepsAnotherFromItsThread) {
  WorkQueue queue(1, 10);
  for (const WorkClass busy : {kSearch, kRead}) {
    const WorkClass other = busy == kSearch ? kRead : kSearch;
    Occupied occupied(&queue, busy);
    Answer<absl::Duration> behind, beside;
    queue.Admit(busy, {}, Report(&behind));
    queue.Admit(other, {}, Report(&beside));
    EXPECT_TRUE(beside.Wait().ok());
    EXPECT_FALSE(behind.ready());
  }
}

TEST(WorkQueue, AFullQueueRefusesItsOwnClass) {
  WorkQueue queue(1, 1);
  Occupied searching(&queue, kSearch);
  Occupied reading(&queue, kRead);
  Answer<absl::Duration> first, refused, read;
  queue.Admit(kSearch, {}, Report(&first));
  queue.Admit(kSearch, {}, Report(&refused));
  queue.Admit(kRead, {}, Report(&read));
  ASSERT_TRUE(refused.ready());
  EXPECT_FALSE(read.ready());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.Wait().status()));
  EXPECT_EQ(queue.state(kSearch).refused, 1);
  EXPECT_EQ(queue.state(kSearch).taken, 1);
  EXPECT_EQ(queue.state(kRead).refused, 0);
  EXPECT_EQ(queue.state(kRead).length, 1);
}

TEST(WorkQueue, AFreeThreadGoesToTheClassThatHasFewest) {
  WorkQueue queue(3, 10);  // five threads, one of them busy throughout
  Occupied job(&queue, WorkClass::kJob);
  std::vector<WorkClass> order;
  Mutex mutex;
  const auto note = [&](WorkClass work_class) {
    return [&, work_class](const WorkQueue::Admission&) {
      MutexLock lock(&mutex);
      order.push_back(work_class);
    };
  };
  {
    Occupied search1(&queue, kSearch), search2(&queue, kSearch);
    Occupied read1(&queue, kRead);
    Answer<absl::Duration> last;
    {
      Occupied read2(&queue, kRead);
      queue.Admit(kSearch, {}, note(kSearch));
      queue.Admit(kRead, {}, note(kRead));
      queue.Admit(kRead, {}, note(kRead));
      queue.Admit(kSearch, {}, Report(&last));
    }
    EXPECT_TRUE(last.Wait().ok());
  }
  EXPECT_EQ(order, (std::vector<WorkClass>{kRead, kRead, kSearch}));
}

TEST(WorkQueue, HelpersCountAmongTheirClass) {
  WorkQueue queue(2, 10);
  Gate release;
  Answer<absl::Duration> helped, search, read;
  std::atomic<int> inside{0};
  queue.Admit(kSearch, {},
              [&, done = helped.done()](const WorkQueue::Admission& a) mutable {
                // Until a thread is there to help.
                while (inside.load() < 2) {
                  queue.ParallelFor(kSearch, 2, [&](int32_t worker, int64_t) {
                    if (worker == 0 && inside.load() == 0) return;
                    ++inside;
                    release.Wait();
                  });
                }
                done(a.waited);
              });
  while (inside.load() == 0) std::this_thread::yield();
  queue.Admit(kSearch, {}, Report(&search));
  queue.Admit(kRead, {}, Report(&read));
  EXPECT_TRUE(read.Wait().ok());
  EXPECT_FALSE(search.ready());
  release.Open();
  EXPECT_TRUE(helped.Wait().ok());
  EXPECT_TRUE(search.Wait().ok());
}

TEST(WorkQueue, ParallelForRunsEveryTaskOnce) {
  WorkQueue queue(4, 10);
  for (int round = 0; round < 200; ++round) {
    constexpr int64_t kTasks = 37;
    std::vector<std::atomic<int>> runs(kTasks);
    std::vector<std::atomic<int>> busy(4);
    std::atomic<int> overlaps{0};
    queue.ParallelFor(kSearch, kTasks, [&](int32_t worker, int64_t task) {
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
    queue.ParallelFor(kSearch, 2, [&](int32_t worker, int64_t task) {
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
        kSearch, {},
        [&, done = answer.done()](const WorkQueue::Admission& a) mutable {
          queue.ParallelFor(kSearch, 20, [&](int32_t, int64_t) { ++tasks; });
          done(a.waited);
        });
  }
  for (auto& answer : answers) EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(tasks.load(), 60 * 20);
}

TEST(WorkQueue, LateThreadsHelpWithWorkThatHasBegun) {
  WorkQueue queue(2, 10);
  auto occupied = std::make_unique<Occupied>(&queue);
  Answer<absl::Duration> answer;
  Gate helped;
  int32_t helper = 0;
  queue.Admit(kSearch, {},
              [&, done = answer.done()](const WorkQueue::Admission& a) mutable {
                queue.ParallelFor(kSearch, 2, [&](int32_t worker, int64_t t) {
                  if (t == 0) {
                    occupied.reset();  // nobody was free when this began
                    helped.Wait();
                  } else {
                    helper = worker;
                    helped.Open();
                  }
                });
                done(a.waited);
              });
  EXPECT_TRUE(answer.Wait().ok());
  EXPECT_EQ(helper, 1);
}

TEST(WorkQueue, ParallelForOfNothingReturns) {
  WorkQueue queue(1, 1);
  queue.ParallelFor(kSearch, 0, [](int32_t, int64_t) { FAIL(); });
}

TEST(WorkPool, QueuesShareTheThreadsOfAClass) {
  const auto pool = std::make_shared<WorkPool>(1);
  WorkQueue a(pool, 10), b(pool, 10);
  Answer<absl::Duration> search, read;
  {
    Occupied occupied(&a);
    b.Admit(kSearch, {}, Report(&search));
    b.Admit(kRead, {}, Report(&read));
    EXPECT_TRUE(read.Wait().ok());
    EXPECT_FALSE(search.ready());
  }
  EXPECT_TRUE(search.Wait().ok());
}

TEST(WorkPool, AFreeThreadGoesToTheQueueThatHasFewest) {
  const auto pool = std::make_shared<WorkPool>(3);
  WorkQueue a(pool, 10), b(pool, 10);
  std::vector<WorkQueue*> order;
  Occupied a1(&a), a2(&a);
  Answer<absl::Duration> last;
  {
    Occupied b1(&b);
    a.Admit(
        kSearch, {},
        [&, done = last.done()](const WorkQueue::Admission& admission) mutable {
          order.push_back(&a);
          done(admission.waited);
        });
    b.Admit(kSearch, {},
            [&](const WorkQueue::Admission&) { order.push_back(&b); });
  }
  EXPECT_TRUE(last.Wait().ok());
  EXPECT_EQ(order, (std::vector<WorkQueue*>{&b, &a}));
}

TEST(WorkPool, AQueueIsFullWhileAnotherHasRoom) {
  const auto pool = std::make_shared<WorkPool>(1);
  WorkQueue a(pool, 1), b(pool, 1);
  EXPECT_EQ(a.thread_share(), 0.5);
  Occupied occupied(&a);
  Answer<absl::Duration> first, refused, other;
  a.Admit(kSearch, {}, Report(&first));
  a.Admit(kSearch, {}, Report(&refused));
  b.Admit(kSearch, {}, Report(&other));
  ASSERT_TRUE(refused.ready());
  EXPECT_TRUE(absl::IsResourceExhausted(refused.Wait().status()));
  EXPECT_FALSE(other.ready());
  EXPECT_EQ(b.state(kSearch).refused, 0);
}

TEST(WorkPool, AQueueThatStopsWaitsForItsOwnWorkOnly) {
  const auto pool = std::make_shared<WorkPool>(2);
  WorkQueue staying(pool, 100);
  Occupied occupied(&staying);
  for (int round = 0; round < 50; ++round) {
    WorkQueue leaving(pool, 100);
    std::atomic<int> ran{0};
    for (int i = 0; i < 20; ++i) {
      leaving.Admit(i % 2 == 0 ? kRead : kSearch, {},
                    [&, i](const WorkQueue::Admission&) {
                      leaving.ParallelFor(i % 2 == 0 ? kRead : kSearch, 3,
                                          [](int32_t, int64_t) {});
                      ++ran;
                    });
    }
    leaving.Stop();
    ASSERT_EQ(ran.load(), 20);
    ASSERT_EQ(staying.thread_share(), 2);
  }
  Answer<absl::Duration> search;
  staying.Admit(kSearch, {}, Report(&search));
  EXPECT_TRUE(search.Wait().ok());
}

TEST(WorkPool, AClassNeverRunsOnMoreThreadsThanItMay) {
  constexpr int32_t kThreads = 2;
  const auto pool = std::make_shared<WorkPool>(kThreads);
  std::vector<std::unique_ptr<WorkQueue>> queues;
  for (int i = 0; i < 4; ++i) {
    queues.push_back(std::make_unique<WorkQueue>(pool, 1000));
  }
  std::array<std::atomic<int>, kWorkClasses> inside = {};
  std::atomic<int> most{0}, tasks{0};
  for (int i = 0; i < 800; ++i) {
    const WorkClass work_class = i % 3 == 0 ? kRead : kSearch;
    WorkQueue* queue = queues[static_cast<size_t>(i % 4)].get();
    queue->Admit(
        work_class, {}, [&, work_class, queue](const WorkQueue::Admission&) {
          queue->ParallelFor(work_class, 4, [&](int32_t worker, int64_t) {
            EXPECT_LT(worker, kThreads);
            const int now = ++inside[static_cast<size_t>(work_class)];
            int seen = most.load();
            while (seen < now && !most.compare_exchange_weak(seen, now)) {
            }
            ++tasks;
            --inside[static_cast<size_t>(work_class)];
          });
        });
  }
  for (auto& queue : queues) queue->Stop();
  EXPECT_EQ(tasks.load(), 4 * 800);
  EXPECT_LE(most.load(), kThreads);
}

}  // namespace
}  // namespace coterie
