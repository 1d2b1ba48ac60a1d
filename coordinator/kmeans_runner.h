// Drives one k-means job over the shards: sends its steps, takes the answers,
// keeps checkpoints, gets over shards that restart, stores the result.
//
// Belongs to one thread, which it blocks (coordinator/jobs.h gives it one). It
// is deterministic where the job is: what fails and is repeated leaves no trace
// in the result.
//
// Failures. A shard that does not answer or is busy is asked again until the
// step's time is up. One that has lost the job's state (it restarted, or the
// lease ended) makes the runner take the job anew: a higher epoch, by
// compare-and-set on the job's record, Begin on every shard, and the job
// resumed from where it stands. Rows that are not the same any more fail it. A
// compare-and-set that fails, or a shard that knows a newer owner, ends the
// runner with ABORTED: the job is another's.

#ifndef COTERIE_COORDINATOR_KMEANS_RUNNER_H_
#define COTERIE_COORDINATOR_KMEANS_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/clustering.h"
#include "api/collection.h"
#include "coordinator/job_record.h"
#include "coordinator/job_store.h"
#include "coordinator/link_models.h"
#include "coordinator/shard_asker.h"
#include "coordinator/shard_client.h"
#include "training/kmeans_job.h"

namespace coterie {

class KMeansRunner {
 public:
  struct Environment {
    ShardSet shards;
    const JobStore* store = nullptr;
    LinkModels* links = nullptr;
    // For one step, with all repeats, and for one read or write of a record.
    absl::Duration step_timeout = absl::Minutes(10);
    absl::Duration record_timeout = absl::Seconds(30);
    // At least every so often the record is written, so that others see the
    // job alive.
    absl::Duration heartbeat = absl::Seconds(10);
    // Whether a cancellation is the coordinator's end, not a request.
    std::function<bool()> stopping = nullptr;
  };

  // `job` is the job's record, RUNNING and this runner's. `report` is called
  // after each iteration.
  KMeansRunner(Environment environment, CollectionSpec spec,
               JobStore::StoredJob job,
               std::shared_ptr<const CancelToken> cancel,
               std::function<void(const KMeansReport&)> report);

  // The result, stored; or why there is none, which the record then says, too,
  // unless the job is another's. CANCELLED on request.
  absl::StatusOr<Clustering> Run();

 private:
  absl::StatusOr<Clustering> RunToEnd();
  // The job from its checkpoint, or from its beginning.
  absl::StatusOr<KMeansJob> MakeJob() const;
  absl::Status LoadJob();
  absl::Status RunJob();
  // Begins the job on all shards, with a higher epoch if asked.
  absl::Status TakeOver(bool raise_epoch);
  // Sends the step to whoever has to answer until all have.
  absl::Status Step();
  // One call to each shard that is still to answer; `delay` is why one has not.
  absl::Status Round(const std::shared_ptr<const std::string>& step,
                     absl::Time deadline, std::vector<int32_t>* waiting,
                     absl::Status* delay);
  absl::Status Accept(int32_t shard, const JobAnswer& answer,
                      double round_trip_seconds);
  // After a step: report, checkpoint, heartbeat.
  absl::Status Note();
  KMeansReport TakeReport();
  absl::Status SaveCheckpoint();
  // Writes the record by compare-and-set. ABORTED: the job is another's.
  absl::Status TryPutRecord();
  absl::Status PutRecord();
  // Calls `write` again while shard 0 does not answer, a step's time at most.
  absl::Status Patiently(absl::FunctionRef<absl::Status()> write) const;
  absl::StatusOr<int64_t> WriteLabels();
  absl::StatusOr<Clustering> Finish(int64_t clustering_version,
                                    int64_t labelled);
  void EndOnShards();
  void WriteOutcome(const absl::Status& status);

  CallContext RecordCall() const;
  JobRef Ref() const;
  int32_t shards() const {
    return static_cast<int32_t>(environment_.shards->size());
  }
  ShardClient& shard(int32_t i) const {
    return *(*environment_.shards)[static_cast<size_t>(i)];
  }

  const Environment environment_;
  const CollectionSpec spec_;
  JobRecord record_;
  int64_t version_;
  const std::shared_ptr<const CancelToken> cancel_;
  const std::function<void(const KMeansReport&)> report_;
  const ShardAsker ask_;

  std::optional<KMeansJob> job_;
  int64_t reported_ = 0;  // entries of the job's progress
  int restarts_ = 0;      // since all shards answered a step
  absl::Time written_ = absl::InfinitePast();  // the record
  // Since the last report.
  absl::Time since_;
  CommunicationCost cost_;
  int64_t statistics_down_ = 0;
  int64_t statistics_up_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_KMEANS_RUNNER_H_
