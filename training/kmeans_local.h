// k-means over shards in this process.

#ifndef COTERIE_TRAINING_KMEANS_LOCAL_H_
#define COTERIE_TRAINING_KMEANS_LOCAL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/kmeans_job.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {

// Sends the job's steps to the shards, one after the other, until it is done.
// The job's own status, or the first error of a shard.
absl::Status PumpKMeans(KMeansJob& job, absl::Span<KMeansShard* const> shards,
                        const KMeansWorkers& workers);

// A whole job over shards that have answered nothing yet.
absl::StatusOr<KMeansResult> RunKMeans(const KMeansOptions& options,
                                       absl::Span<KMeansShard* const> shards,
                                       const KMeansWorkers& workers);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_LOCAL_H_
