// What a job that runs here says, for all who follow it.
//
// Thread-safe. Shared by the job's thread and its streams, which may outlive
// it.

#ifndef COTERIE_COORDINATOR_JOB_FEED_H_
#define COTERIE_COORDINATOR_JOB_FEED_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "api/call.h"
#include "api/job_info.h"
#include "coordinator/jobs.h"
#include "sync/mutex.h"

namespace coterie {

class JobFeed : public std::enable_shared_from_this<JobFeed> {
 public:
  // Reports kept for those who come late or are slow.
  static constexpr size_t kKept = 1024;

  void Push(JobReport report);
  // Once, after the last report.
  void End(absl::StatusOr<JobResult> result);

  // From the first report that is kept.
  std::unique_ptr<JobStream> Follow();
  // Runs `told` once the job has ended, on that thread or on this one.
  void OnEnd(absl::AnyInvocable<void()> told);

 private:
  class Stream;
  struct Waiter {
    std::shared_ptr<int64_t> position;
    Done<JobEvent> done;
  };

  // The event at the position, which moves on; nothing if there is none yet.
  std::optional<absl::StatusOr<JobEvent>> EventAt(int64_t* position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Read(const std::shared_ptr<int64_t>& position, Done<JobEvent> done);
  void Wake();

  Mutex mu_;
  std::deque<JobReport> reports_ ABSL_GUARDED_BY(mu_);
  int64_t first_ ABSL_GUARDED_BY(mu_) = 0;  // number of reports_.front()
  std::optional<absl::StatusOr<JobResult>> result_ ABSL_GUARDED_BY(mu_);
  std::vector<Waiter> waiters_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::AnyInvocable<void()>> told_ ABSL_GUARDED_BY(mu_);
};

// A stream that says one thing and ends.
std::unique_ptr<JobStream> SayOnce(absl::StatusOr<JobEvent> event);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_FEED_H_
