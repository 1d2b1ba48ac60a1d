// Clusterings: proto <-> domain. Decoding is validating, as in
// api/points_convert.h. Stateless; any thread. O(size of message).

#ifndef COTERIE_API_CLUSTERING_CONVERT_H_
#define COTERIE_API_CLUSTERING_CONVERT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "api/clustering.h"
#include "api/limits.h"
#include "api/v1/clustering.pb.h"

namespace coterie {

// Refuses: unknown enumerations, initial centroids of several dimensions, both
// of their sources or a source without GIVEN, options out of their range as far
// as they do not depend on the collection, names that cannot be. k is the
// number of initial centroids if it is 0.
absl::StatusOr<KMeansRequest> DecodeTrainKMeans(
    const v1::TrainKMeansRequest& request, const Limits& limits);

// Refuses: neither or both of ids and vectors, more than the limits.
absl::StatusOr<AssignRequest> DecodeAssign(const v1::AssignRequest& request,
                                           const Limits& limits);
void EncodeAssign(const std::vector<AssignedPoint>& points,
                  v1::AssignResponse* out);

void EncodeReport(const KMeansReport& report, v1::KMeansProgress* out);
void EncodeClustering(const Clustering& clustering, v1::Clustering* out);

}  // namespace coterie

#endif  // COTERIE_API_CLUSTERING_CONVERT_H_
