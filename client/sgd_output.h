// Training on the terminal: the curve of its loss, then its model.
//
// Not thread-safe.

#ifndef COTERIE_CLIENT_SGD_OUTPUT_H_
#define COTERIE_CLIENT_SGD_OUTPUT_H_

#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/jobs.pb.h"
#include "api/v1/training.pb.h"
#include "client/session.h"

namespace coterie {

struct TrainedRun {
  v1::SgdModel model;  // without parameters
  std::vector<v1::SgdReport> reports;
};

// Runs the job and shows its progress. Errors are the server's.
absl::StatusOr<TrainedRun> TrainAndShow(const Session& session,
                                        const v1::TrainSgdRequest& request);

// Follows a job that `reader` tells of.
absl::StatusOr<TrainedRun> FollowSgdAndShow(
    const Session& session, const std::string& label,
    grpc::ClientReaderInterface<v1::JobEvent>* reader);

// One line on how a job goes.
std::string ReportLine(const v1::SgdReport& report);

// What was learnt and what it took, the bytes that whole gradients would have
// taken among it.
void PrintModel(const Session& session, const v1::SgdModel& model);

// Loss and bytes over updates, to a file, replacing one that is there. UNKNOWN
// naming the file if it cannot be written.
absl::Status WriteSgdPlot(const std::string& title,
                          const std::vector<v1::SgdReport>& reports,
                          const std::string& path);

}  // namespace coterie

#endif  // COTERIE_CLIENT_SGD_OUTPUT_H_
