// The jobs that this coordinator runs, and what it knows of all others.
//
// Thread-safe. Each running job has a thread of its own (kmeans_runner.h);
// reads and writes of records wait on one of two more. Nothing else blocks:
// `done` runs on those threads, or at once.
//
// Which job is whose is decided by the records on shard 0 alone, so any number
// of coordinators may serve them. Beginning, resuming and cancelling are
// compare-and-sets that raise the job's epoch; whoever ran it before finds out
// from the shards, or with its next checkpoint, and stops with ABORTED.

#ifndef COTERIE_COORDINATOR_JOBS_H_
#define COTERIE_COORDINATOR_JOBS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/clustering.h"
#include "api/job_info.h"
#include "api/limits.h"
#include "api/training.h"
#include "coordinator/catalogue_store.h"
#include "coordinator/link_models.h"
#include "coordinator/shard_client.h"

namespace coterie {

struct JobsOptions {
  Limits limits;
  // Names this coordinator to people; empty: a random name.
  std::string owner;
  int32_t running = 4;    // jobs at once; more are refused
  int32_t waiting = 256;  // reads and writes of records that may wait
  absl::Duration step_timeout = absl::Minutes(10);
  absl::Duration heartbeat = absl::Seconds(10);
};

// What becomes of a job, event by event. Not thread-safe: at most one Next
// outstanding. One that is slow misses old reports, never the end. May outlive
// the Jobs.
class JobStream {
 public:
  virtual ~JobStream() = default;
  // The next event; after one with `end` set, or an error, not to be called.
  virtual void Next(Done<JobEvent> done) = 0;
};

class Jobs {
 public:
  // `links` outlives this; the others are shared.
  Jobs(ShardSet shards, std::shared_ptr<CatalogueStore> catalogue,
       std::shared_ptr<LinkModels> links, JobsOptions options);
  // Ends what runs; those jobs are INTERRUPTED and can be resumed elsewhere.
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // Begins a job and follows it. When the call is cancelled or its deadline
  // passes, so is the job, with a checkpoint. INVALID_ARGUMENT naming the
  // option; ALREADY_EXISTS if there is a result of this name and kind and
  // `replace` is not set; FAILED_PRECONDITION if a job of this name runs;
  // RESOURCE_EXHAUSTED if as many run here as may; and whatever ends the job.
  std::unique_ptr<JobStream> Train(JobRequest request, CallContext call);
  // Goes on with a job from its checkpoint, whoever ran it; one that still runs
  // is taken from its owner. FAILED_PRECONDITION for one that is done or
  // failed.
  std::unique_ptr<JobStream> Resume(std::string collection, std::string name,
                                    CallContext call);
  // Follows a job that runs here; one that is done has its result.
  // FAILED_PRECONDITION naming the owner of one that runs elsewhere.
  std::unique_ptr<JobStream> Watch(std::string collection, std::string name,
                                   CallContext call);

  // Of one collection, or of all if `collection` is empty; by collection and
  // name.
  void List(std::string collection, CallContext call,
            Done<std::vector<JobInfo>> done);
  void Get(std::string collection, std::string name, CallContext call,
           Done<JobInfo> done);
  // Ends a job that runs, here or elsewhere; it can be resumed. OK for one that
  // does not run.
  void Cancel(std::string collection, std::string name, CallContext call,
              Done<JobInfo> done);

  void GetClustering(std::string collection, std::string name, CallContext call,
                     Done<Clustering> done);
  void GetModel(std::string collection, std::string name, CallContext call,
                Done<TrainedModel> done);
  // Names of clusterings or models.
  void ListResults(JobKind kind, std::string collection, CallContext call,
                   Done<std::vector<std::string>> done);
  // With its job. FAILED_PRECONDITION while that runs.
  void DeleteResult(JobKind kind, std::string collection, std::string name,
                    CallContext call, Done<bool> done);
  // One element for each id or vector.
  void Assign(AssignRequest request, CallContext call,
              Done<std::vector<AssignedPoint>> done);
  void Predict(PredictRequest request, CallContext call,
               Done<std::vector<Prediction>> done);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOBS_H_
