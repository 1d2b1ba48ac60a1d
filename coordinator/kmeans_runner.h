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
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/clustering.h"
#include "api/collection.h"
#include "coordinator/job_runner.h"
#include "training/kmeans_job.h"

namespace coterie {

class KMeansRunner final : public JobRunner {
 public:
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
  bool SaveUnfinished() override;
  absl::StatusOr<int64_t> WriteLabels();
  absl::StatusOr<Clustering> Finish(int64_t clustering_version,
                                    int64_t labelled);

  const KMeansRequest& request() const {
    return std::get<KMeansRequest>(record().request);
  }

  const std::function<void(const KMeansReport&)> report_;

  std::optional<KMeansJob> job_;
  int64_t reported_ = 0;  // entries of the job's progress
  int restarts_ = 0;      // since all shards answered a step
  // Since the last report.
  absl::Time since_;
  CommunicationCost cost_;
  int64_t statistics_down_ = 0;
  int64_t statistics_up_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_KMEANS_RUNNER_H_
