// Writes batches to a server with several calls under way at once.
//
// Thread-compatible: one thread adds; sending happens on threads of this
// object. Acknowledged writes are durable, so a single call at a time would
// wait for the disk each time; a few together share its group commits.
//
// Batch b goes over lane b mod `in_flight` with the request id {CLIENT-lane,
// b}. A lane sends one batch at a time, in order, as a request id requires
// (api/v1/points.proto), so a batch that is repeated, by a retry or by a later
// run that starts again at batch b, is never applied over newer data.
//
// Invariants:
// 1. At most two batches a lane are held, so memory is bounded.
// 2. A batch is repeated only after UNAVAILABLE, RESOURCE_EXHAUSTED or
//    DEADLINE_EXCEEDED, with the same request id.
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
  struct Options {
    // Lanes, 1 or more.
    int in_flight = 4;
    RetryPolicy retry;
    // Of the request ids: 1..60 bytes of UTF-8, another for each import.
    std::string client_id;
    // Number of the first batch that will be added: those before it were
    // acknowledged to an earlier run of the same client and lanes.
    int64_t first_batch = 0;
  };

  // Sends one batch and waits for the answer. Called from several threads. Its
  // number is request_id.sequence.
  using Send = std::function<absl::Status(const v1::UpsertRequest&)>;

  struct Progress {
    int64_t points_done = 0;
    // Every batch before this number is acknowledged: where another run may
    // begin.
    int64_t batches_in_order = 0;
    int64_t retries = 0;
    // Why the latest retry was necessary; empty before the first.
    std::string last_error;
  };
  // Called on the adding thread within Add and Finish: at each batch, and while
  // they wait at least every 200 ms.
  using OnProgress = std::function<void(const Progress&)>;

  UpsertPipeline(Options options, Send send, OnProgress on_progress);
  // Gives up what is still waiting; calls under way are waited for.
  ~UpsertPipeline();
  UpsertPipeline(const UpsertPipeline&) = delete;
  UpsertPipeline& operator=(const UpsertPipeline&) = delete;

  // Hands over the next batch and sets its request id, waiting while its lane
  // holds two. Returns the first failure of any batch so far; then this batch
  // is not sent.
  absl::Status Add(v1::UpsertRequest batch) ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for all batches. Returns the first failure.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mu_);

  Progress progress() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Lane {
    std::deque<v1::UpsertRequest> queue;
    // Queued or being sent.
    int held = 0;
  };

  void Work(int lane) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status SendWithRetries(const v1::UpsertRequest& batch)
      ABSL_LOCKS_EXCLUDED(mu_);
  // False if there is no point in going on.
  bool SleepBeforeRetry(const absl::Status& error, absl::Duration delay)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Acknowledge(const v1::UpsertRequest& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Waits, reporting progress, until the lane holds fewer than `most` batches
  // or one of any lane has failed.
  absl::Status WaitUntilHeldBelow(int lane, int most);

  const Options options_;
  const Send send_;
  const OnProgress on_progress_;
  // Of the adding thread: the number of the next batch.
  int64_t next_batch_;

  mutable Mutex mu_;
  // Something that the adding thread waits for has changed.
  CondVar changed_;
  // There is work, or the end.
  CondVar wake_workers_;
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  Progress progress_ ABSL_GUARDED_BY(mu_);
  // Whether each batch from progress_.batches_in_order on is acknowledged.
  std::deque<bool> acknowledged_ ABSL_GUARDED_BY(mu_);

  std::vector<std::thread> workers_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_UPSERT_PIPELINE_H_
