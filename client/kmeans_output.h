// A k-means job on the terminal: its progress, then its clusters.
//
// Not thread-safe.

#ifndef COTERIE_CLIENT_KMEANS_OUTPUT_H_
#define COTERIE_CLIENT_KMEANS_OUTPUT_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/clustering.pb.h"
#include "api/v1/jobs.pb.h"
#include "client/session.h"

namespace coterie {

// Iterations as they come, on stderr: on a terminal a line with a bar of the
// rows that stay in their clusters, redrawn; elsewhere a line of each of the
// first five and of every tenth.
class KMeansBar {
 public:
  // `session` outlives this.
  KMeansBar(const Session& session, std::string label)
      : session_(session), label_(std::move(label)) {}

  void Update(const v1::KMeansProgress& progress);
  // Removes the bar.
  void Clear();

  const std::vector<v1::KMeansProgress>& seen() const { return seen_; }

 private:
  std::string Line(const v1::KMeansProgress& progress) const;

  const Session& session_;
  const std::string label_;
  std::vector<v1::KMeansProgress> seen_;
  bool drawn_ = false;
};

// Runs the job and shows its progress; writes the plot unless `plot` is empty.
// Errors are the server's.
absl::StatusOr<v1::Clustering> TrainAndShow(
    const Session& session, const v1::TrainKMeansRequest& request,
    const std::string& plot);
// Follows a job that `reader` tells of.
absl::StatusOr<v1::Clustering> FollowAndShow(
    const Session& session, const std::string& label,
    grpc::ClientReaderInterface<v1::JobEvent>* reader);

struct ClusterListing {
  int64_t clusters = 20;  // at most
  int32_t members = 5;    // of each
  std::string attribute;  // that names a point; empty: its id
};

// A table of the largest clusters with the points nearest to their centroids,
// and a line on the whole. Searches the collection for the points.
absl::Status PrintClusters(const Session& session,
                           const v1::Clustering& clustering,
                           const ClusterListing& listing);

}  // namespace coterie

#endif  // COTERIE_CLIENT_KMEANS_OUTPUT_H_
