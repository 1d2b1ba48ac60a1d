// Calls that follow a job, for the services that have them.

#ifndef COTERIE_COORDINATOR_JOB_CALL_H_
#define COTERIE_COORDINATOR_JOB_CALL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/collection.h"
#include "api/job_info.h"
#include "api/job_info_convert.h"
#include "api/limits.h"
#include "api/rpc_call.h"
#include "api/scan_call.h"
#include "api/status_details.h"
#include "coordinator/jobs.h"

namespace coterie {

// For ScanCall: every event of a job is sent.
inline bool SaysNothing(const JobEvent& /*event*/) { return false; }

template <typename Response>
using JobCall = ScanCall<Response, JobEvent>;

template <typename Response>
void SendEvents(JobCall<Response>* rpc, std::unique_ptr<JobStream> stream) {
  rpc->Run(std::move(stream), [](const JobEvent& event, Response* out) {
    EncodeEvent(event, out);
  });
}

// A job, or what one has left.
struct JobName {
  std::string collection;
  std::string name;
};

// For Handle: collection and name of a request, both there.
struct DecodeName {
  template <typename Request>
  absl::StatusOr<JobName> operator()(const Request& request,
                                     const Limits& limits) const {
    const absl::Status collection =
        ValidateCollectionReference(request.collection(), limits);
    if (!collection.ok()) return collection;
    const absl::Status name = ValidateCollectionName(request.name(), limits);
    if (!name.ok()) return InvalidField("name", name.message());
    return JobName{request.collection(), request.name()};
  }
};

// For Handle: only the collection.
struct DecodeCollectionReference {
  template <typename Request>
  absl::StatusOr<std::string> operator()(const Request& request,
                                         const Limits& limits) const {
    const absl::Status valid =
        ValidateCollectionReference(request.collection(), limits);
    if (!valid.ok()) return valid;
    return request.collection();
  }
};

// Of a response that lists names.
template <typename Response>
Done<std::vector<std::string>> NamesReplier(UnaryCall* rpc,
                                            Response* response) {
  return rpc->Replier<std::vector<std::string>>(
      [response](std::vector<std::string> names) {
        for (std::string& name : names) {
          response->add_names(std::move(name));
        }
      });
}

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_JOB_CALL_H_
