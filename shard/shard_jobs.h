// The jobs that have state on a shard: who owns each, what it pins, and for how
// long.
//
// Thread-safe. Begin and Step do their work on the calling thread; a job does
// one thing at a time and refuses a second at once. A thread of its own drops
// jobs whose owner has been silent for their lease; a step that runs holds its
// job.

#ifndef COTERIE_SHARD_SHARD_JOBS_H_
#define COTERIE_SHARD_SHARD_JOBS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/job_messages.h"
#include "shard/job_work.h"
#include "shard/partition.h"
#include "sync/mutex.h"

namespace coterie {

class ShardJobs {
 public:
  struct Options {
    int32_t jobs = 16;
    // Of all jobs together, beside the segments that they pin.
    int64_t memory_bytes = int64_t{1} << 30;
    // What a job may take whatever its rows: steps, answers, sums.
    int64_t message_bytes = int64_t{16} << 20;
  };

  // `store` outlives this.
  ShardJobs(const Options& options, RecordStore* store);
  ~ShardJobs();
  ShardJobs(const ShardJobs&) = delete;
  ShardJobs& operator=(const ShardJobs&) = delete;

  // Pins the view. The same owner again gets the same answer, and what is there
  // stays; an older owner's job is dropped. ABORTED if a newer one has it;
  // RESOURCE_EXHAUSTED over a bound, naming it. Otherwise as JobRows::Select
  // and the kind's work.
  absl::StatusOr<JobBegun> Begin(const JobBegin& begin, const ReadView& view,
                                 const CallContext& call);

  // On the threads given, but no more than Begin said. FAILED_PRECONDITION if
  // the job is not here, ABORTED if a newer owner has it, RESOURCE_EXHAUSTED
  // while it does something else; otherwise as JobWork::Step. CANCELLED or
  // DEADLINE_EXCEEDED within a block of rows when the call ends.
  absl::StatusOr<JobAnswer> Step(const JobStep& step,
                                 const StepThreads& threads,
                                 const CallContext& call);

  // As JobWork::Labels, with the errors of Step.
  absl::StatusOr<std::vector<std::pair<PointId, int64_t>>> Labels(
      const JobRef& job);

  // Drops the job of this owner or an older one; one that is in a step goes
  // when that ends. Whether there was one.
  bool End(const JobRef& job);

  struct Totals {
    int64_t jobs = 0;
    int64_t memory_bytes = 0;
  };
  Totals totals() const;

 private:
  struct Job;
  // By collection number, then name.
  using Key = std::pair<uint32_t, std::string>;

  // The job for its owner, held against all others until Release.
  absl::StatusOr<std::shared_ptr<Job>> Hold(const Key& key, int64_t epoch);
  // Ends the hold; `keep` false: drops the job, too.
  void Release(const std::shared_ptr<Job>& job, bool keep = true);
  // A place for the job, held; or the job itself, if its owner has begun it.
  absl::StatusOr<std::shared_ptr<Job>> Claim(const Key& key,
                                             const JobBegin& begin,
                                             int64_t rows);
  absl::Status Build(const JobBegin& begin, const ReadView& view,
                     const CallContext& call, Job* job);
  // Takes the job out of the map; its memory counts until it is not held.
  void Drop(std::map<Key, std::shared_ptr<Job>>::iterator at,
            std::vector<std::shared_ptr<Job>>* dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeRoom(const JobBegin& begin, int64_t rows, Job* job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Reap();

  const Options options_;
  RecordStore* const store_;

  mutable Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::map<Key, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mu_);
  int64_t memory_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::thread reaper_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SHARD_JOBS_H_
