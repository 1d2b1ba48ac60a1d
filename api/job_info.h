// Jobs of all kinds, as callers hear of them, in domain types. Plain data.

#ifndef COTERIE_API_JOB_INFO_H_
#define COTERIE_API_JOB_INFO_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "api/clustering.h"
#include "api/job_messages.h"
#include "api/training.h"

namespace coterie {

enum class JobState : uint8_t {
  kRunning = 1,
  kDone = 2,
  kFailed = 3,       // status says why; not worth resuming
  kCancelled = 4,    // on request; can be resumed
  kInterrupted = 5,  // its coordinator or a shard went away; can be resumed
};

// By kind.
using JobRequest = std::variant<KMeansRequest, SgdRequest>;
using JobReport = std::variant<KMeansReport, SgdReport>;
using JobResult = std::variant<Clustering, TrainedModel>;

struct JobInfo {
  std::string collection;
  std::string name;
  JobKind kind = JobKind::kKMeans;
  JobState state = JobState::kRunning;
  absl::Status status;  // kFailed, kInterrupted: why
  int64_t epoch = 0;
  std::string owner;                 // the coordinator that runs or ran it
  JobReport last;                    // iteration or update 0: none yet
  int64_t iterations = 0;            // SGD: updates
  int64_t checkpoint_iteration = 0;  // 0: none yet
  // Since its record was written, by shard 0's clock.
  double age_seconds = 0;
};

// What a job's stream says: progress, and at its end the result.
struct JobEvent {
  std::variant<std::monostate, KMeansReport, Clustering, SgdReport,
               TrainedModel>
      what;
  bool end = false;
};

}  // namespace coterie

#endif  // COTERIE_API_JOB_INFO_H_
