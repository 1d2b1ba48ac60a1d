// How a job comes to its owner: begun, or taken up again.
//
// Functions wait for shard 0; only for threads that may block.

#ifndef COTERIE_COORDINATOR_JOB_OPENINGS_H_
#define COTERIE_COORDINATOR_JOB_OPENINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/job_info.h"
#include "api/limits.h"
#include "coordinator/job_store.h"

namespace coterie {

struct OpenedJob {
  CollectionSpec spec;
  JobStore::StoredJob job;  // RUNNING, at an epoch that only this owner has
};

// Above `epoch` and above what any job of this name, deleted since, had.
int64_t NextEpoch(int64_t epoch);

// Writes the record of a new job. Errors of Jobs::Train.
absl::StatusOr<OpenedJob> OpenJob(const JobStore& store, const Limits& limits,
                                  JobRequest request, const std::string& owner,
                                  const CallContext& call);

// Makes `owner` the owner of a job that stands still, or runs elsewhere. Errors
// of Jobs::Resume.
absl::StatusOr<OpenedJob> ReopenJob(const JobStore& store,
                                    const std::string& collection,
                                    const std::string& name,
                                    const std::string& owner,
                                    const CallContext& call);

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_OPENINGS_H_
