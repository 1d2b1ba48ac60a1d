// Calls that follow a job, for the services that have them.

#ifndef COTERIE_COORDINATOR_JOB_CALL_H_
#define COTERIE_COORDINATOR_JOB_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "api/collection.h"
#include "api/job_info.h"
#include "api/job_info_convert.h"
#include "api/limits.h"
#include "api/scan_call.h"
#include "api/status_details.h"
#include "coordinator/jobs.h"

namespace coterie {

// For ScanCall: every event of a job is sent.
inline bool SaysNothing(const JobEvent& /*event*/) { return false; }

template <typename Response>
using JobCall = ScanCall<Response, JobEvent>;

template <typename Response>
grpc::ServerWriteReactor<Response>* SendEvents(
    JobCall<Response>* rpc, std::unique_ptr<JobStream> stream) {
  return rpc->Run(std::move(stream), [](const JobEvent& event, Response* out) {
    EncodeEvent(event, out);
  });
}

// Collection and name of a request, both there.
template <typename Request>
absl::Status CheckNames(const Request& request, const Limits& limits) {
  const absl::Status collection =
      ValidateCollectionReference(request.collection(), limits);
  if (!collection.ok()) return collection;
  const absl::Status name = ValidateCollectionName(request.name(), limits);
  return name.ok() ? name : InvalidField("name", name.message());
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_CALL_H_
