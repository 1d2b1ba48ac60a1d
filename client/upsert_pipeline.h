// Writes batches to a server with several calls under way at once.
//
// Thread-compatible: one thread adds; sending happens on threads of this
// object. Acknowledged writes are durable, so a single call at a time would
// wait for the disk each time; a few together share its group commits.
//
// Invariants:
// 1. At most `in_flight` batches are held, so memory is bounded.
// 2. A batch is repeated only after UNAVAILABLE or RESOURCE_EXHAUSTED; upserts
//    are idempotent, so a batch that was in fact stored does no harm.
// 3. After the first failure nothing more is sent.

#ifndef COTERIE_CLIENT_UPSERT_PIPELINE_H_
#define COTERIE_CLIENT_UPSERT_PIPELINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/v1/points.pb.h"
#include "sync/mutex.h"

namespace coterie {

struct RetryPolicy {
  // Doubled at each attempt, with up to half of it taken off at random so
  // that clients do not come back together; a server's RetryInfo is obeyed
  // when it is longer.
  absl::Duration initial_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(5);
  // A batch that fails for so long fails for good.
  absl::Duration give_up_after = absl::Seconds(60);
};

// What to wait before attempt `attempt` + 1 (attempts count from 1) after
// `error`. `random` is in [0, 1). At most the longer of max_backoff and the
// server's wish, and never over a minute.
absl::Duration BackoffAfter(const RetryPolicy& policy, int attempt,
                            const absl::Status& error, double random);

class UpsertPipeline {
 public:
  // Sends one batch and waits for the answer. Called from several threads.
  using Send = std::function<absl::Status(const v1::UpsertRequest&)>;

  struct Progress {
    int64_t points_done = 0;
    int64_t retries = 0;
    // Why the latest retry was necessary; empty before the first.
    std::string last_error;
  };
  // Called on the adding thread within Add and Finish, after each batch and at
  // least every 200 ms.
  using OnProgress = std::function<void(const Progress&)>;

  // REQUIRES: in_flight >= 1.
  UpsertPipeline(Send send, OnProgress on_progress, int in_flight,
                 RetryPolicy policy);
  // Gives up what is still waiting; calls under way are waited for.
  ~UpsertPipeline();
  UpsertPipeline(const UpsertPipeline&) = delete;
  UpsertPipeline& operator=(const UpsertPipeline&) = delete;

  // Hands over a batch, waiting while `in_flight` are held. Returns the first
  // failure of any batch so far; then this batch is not sent.
  absl::Status Add(v1::UpsertRequest batch) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for all batches. Returns the first failure.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mu_);

  int64_t points_done() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status SendWithRetries(const v1::UpsertRequest& batch)
      ABSL_LOCKS_EXCLUDED(mu_);
  // False if there is no point in going on.
  bool SleepBeforeRetry(const absl::Status& error, absl::Duration delay)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Waits, reporting progress, until fewer than `most` batches are held or one
  // has failed.
  absl::Status WaitUntilHeldBelow(int most) ABSL_LOCKS_EXCLUDED(mu_);

  const Send send_;
  const OnProgress on_progress_;
  const int in_flight_;
  const RetryPolicy policy_;

  mutable Mutex mu_;
  // Something that the adding thread waits for has changed.
  CondVar changed_;
  // There is work, or the end.
  CondVar wake_workers_;
  std::deque<v1::UpsertRequest> queue_ ABSL_GUARDED_BY(mu_);
  // Queued or being sent.
  int held_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  Progress progress_ ABSL_GUARDED_BY(mu_);

  std::vector<std::thread> workers_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_UPSERT_PIPELINE_H_
