// A shard's calls about jobs and records: the queue, the log and the jobs put
// together. For shard/shard.cc.
//
// Thread-safe. Steps run on the queue's threads, writes on the log's.

#ifndef COTERIE_SHARD_JOB_CALLS_H_
#define COTERIE_SHARD_JOB_CALLS_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "api/call.h"
#include "api/job_messages.h"
#include "shard/partition.h"
#include "shard/shard_jobs.h"
#include "shard/work_queue.h"
#include "shard/write_log.h"

namespace coterie {

class JobCalls {
 public:
  // All outlive this; `queue` and `log` are stopped first.
  JobCalls(const ShardJobs::Options& options, Partition* partition,
           WorkQueue* queue, WriteLog* log, int32_t shard_id);

  void Begin(JobBegin begin, CallContext call, Done<JobBegun> done);
  void Step(JobStep step, CallContext call, Done<JobAnswer> done);
  void Label(JobLabel label, CallContext call, Done<JobLabelled> done);
  // False for a collection that is not here, too.
  bool End(JobRef job);
  void Put(RecordPut put, CallContext call, Done<int64_t> done);

 private:
  Partition* const partition_;
  WorkQueue* const queue_;
  WriteLog* const log_;
  const int32_t shard_id_;
  ShardJobs jobs_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_JOB_CALLS_H_
