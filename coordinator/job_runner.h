// What runners of all kinds of jobs share: the job's record, its checkpoints,
// and calls that have to be answered.
//
// Belongs to one thread, which it blocks.

#ifndef COTERIE_COORDINATOR_JOB_RUNNER_H_
#define COTERIE_COORDINATOR_JOB_RUNNER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/job_messages.h"
#include "api/search.h"
#include "coordinator/job_record.h"
#include "coordinator/job_store.h"
#include "coordinator/link_models.h"
#include "coordinator/shard_asker.h"
#include "coordinator/shard_client.h"

namespace coterie {

class JobRunner {
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
    // A step and its answer are messages of at most so many bytes.
    int64_t message_bytes = int64_t{16} << 20;
    // Whether a cancellation is the coordinator's end, not a request.
    std::function<bool()> stopping = nullptr;
  };

  JobRunner(const JobRunner&) = delete;
  JobRunner& operator=(const JobRunner&) = delete;

 protected:
  // `job` is the job's record, RUNNING and this runner's.
  JobRunner(Environment environment, CollectionSpec spec,
            JobStore::StoredJob job, std::shared_ptr<const CancelToken> cancel);
  virtual ~JobRunner() = default;

  // The same status with more to say.
  static absl::Status Prefixed(absl::string_view what,
                               const absl::Status& status);
  std::vector<int32_t> AllShards() const;
  // Begins the job on these shards: what kind and request say is in `begin`,
  // the rest is filled in. Rows that are pinned for an older owner stay so.
  absl::StatusOr<std::vector<JobBegun>> BeginOnShards(
      JobBegin begin, const std::vector<int32_t>& shards);
  JobRef Ref() const;

  // --- What is kept ---------------------------------------------------------

  CallContext RecordCall() const;
  // Writes the record by compare-and-set. ABORTED: the job is another's.
  absl::Status PutRecord();
  // If it is time for it.
  absl::Status Beat();
  // Keeps the bytes, and makes the record name them.
  absl::Status PutCheckpoint(absl::string_view bytes, int64_t iteration);
  // Nothing: there is none yet.
  absl::StatusOr<std::optional<std::string>> GetCheckpoint() const;
  // The job is done and needs no checkpoint any more.
  absl::Status PutDone();
  void AddToRecord(double seconds, const CommunicationCost& cost);
  // Writes down how the run ended, unless the job is another's, and lets the
  // shards forget it. What the caller is to be told.
  absl::Status End(absl::Status status);

  const Environment& environment() const { return environment_; }
  // Writes the record while it waits.
  const ShardAsker& ask() const { return ask_; }
  const CollectionSpec& spec() const { return spec_; }
  const std::shared_ptr<const CancelToken>& cancel() const { return cancel_; }
  const JobRecord& record() const { return record_; }
  JobRecord& record() { return record_; }
  absl::Time last_put() const { return written_; }
  int32_t shards() const {
    return static_cast<int32_t>(environment_.shards->size());
  }
  ShardClient& shard(int32_t i) const {
    return *(*environment_.shards)[static_cast<size_t>(i)];
  }

 private:
  absl::Status TryPutRecord();
  // Calls `write` again while shard 0 does not answer, a step's time at most.
  absl::Status Patiently(absl::FunctionRef<absl::Status()> write) const;
  // Keeps a checkpoint of the present moment, if there is something to keep;
  // whether it did.
  virtual bool SaveUnfinished() = 0;
  void WriteOutcome(const absl::Status& status);

  const Environment environment_;
  const CollectionSpec spec_;
  JobRecord record_;
  int64_t version_;
  const std::shared_ptr<const CancelToken> cancel_;
  absl::Time written_ = absl::InfinitePast();  // the record
  const ShardAsker ask_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_RUNNER_H_
