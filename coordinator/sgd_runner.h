// Drives one SGD job over the shards: keeps every shard that has something to
// answer at it, takes answers as they come, keeps checkpoints, starts shards
// again that restarted, stores the model.
//
// Belongs to one thread, which it blocks. Synchronous modes are deterministic:
// what fails and is repeated leaves no trace in the model.
//
// Failures. A shard that does not answer or is busy is asked again until the
// step's time is up; then the run ends, naming step and shard. One that has
// lost the job's state is begun again, for the same owner, and told what it has
// to know; if its rows are not the same any more, or it holds a table of
// earlier gradients (ISAGA), the job fails. A compare-and-set that fails, or a
// shard that knows a newer owner, ends the runner with ABORTED: the job is
// another's.

#ifndef COTERIE_COORDINATOR_SGD_RUNNER_H_
#define COTERIE_COORDINATOR_SGD_RUNNER_H_

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
#include "api/collection.h"
#include "api/training.h"
#include "coordinator/job_runner.h"
#include "coordinator/shard_client.h"
#include "training/sgd_job.h"

namespace coterie {

class SgdRunner final : public JobRunner {
 public:
  // `job` is the job's record, RUNNING and this runner's. `report` is called
  // now and then, and after the last update.
  SgdRunner(Environment environment, CollectionSpec spec,
            JobStore::StoredJob job, std::shared_ptr<const CancelToken> cancel,
            std::function<void(const SgdReport&)> report);

  // The model, stored; or why there is none, which the record then says, too,
  // unless the job is another's. CANCELLED on request.
  absl::StatusOr<TrainedModel> Run();

 private:
  struct Mailbox;
  // What is under way with a shard.
  struct Lane {
    bool asked = false;
    int64_t number = 0;  // of the step
    absl::Time deadline;
    absl::Time again = absl::InfinitePast();  // not to be asked before
    int attempts = 0;
    absl::Status delay;                  // why it was not answered
    std::unique_ptr<StepStream> stream;  // of a model that is cut
    // Since the last report.
    double work_seconds = 0;
    double predicted_seconds = 0;
  };
  struct Letter;

  absl::StatusOr<TrainedModel> RunToEnd();
  absl::Status CheckMessages() const;
  // Whether a micro-batch of the shard's rows fits a message.
  absl::Status CheckMicroBatches(int32_t shard, const SgdPartial& start) const;
  absl::Status LoadJob();
  absl::Status Begin(const std::vector<int32_t>& shards);
  absl::Status RunJob();
  // Gives every shard that is free its next step.
  absl::Status Send(absl::Time now);
  // Waits for answers, or until there is something else to do.
  std::vector<Letter> Receive();
  absl::Status Take(Letter letter);
  absl::Status TakeAnswer(int32_t shard, const JobAnswer& answer,
                          double round_trip_seconds);
  absl::Status BeginAgain(int32_t shard);
  std::string Describe(int32_t shard) const;
  // After answers: report, checkpoint, heartbeat.
  absl::Status Note();
  SgdReport TakeReport(absl::Time now);
  bool CanSave() const;
  absl::Status SaveCheckpoint();
  bool SaveUnfinished() override;
  absl::StatusOr<TrainedModel> Finish(int64_t model_version);

  const SgdRequest& request() const {
    return std::get<SgdRequest>(record().request);
  }

  const std::function<void(const SgdReport&)> report_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::vector<Lane> lanes_;
  std::optional<SgdJob> job_;
  absl::Time began_;
  absl::Time reported_;  // last
  absl::Time saved_;     // last checkpoint
  int64_t noted_ = 0;    // updates
  // Since the last report.
  CommunicationCost cost_;
  int64_t packed_down_ = 0;
  int64_t packed_up_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SGD_RUNNER_H_
