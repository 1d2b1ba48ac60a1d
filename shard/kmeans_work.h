// k-means over the rows of a pinned snapshot: training/kmeans_shard.h with its
// messages as bytes.

#ifndef COTERIE_SHARD_KMEANS_WORK_H_
#define COTERIE_SHARD_KMEANS_WORK_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "api/collection.h"
#include "shard/job_rows.h"
#include "shard/job_work.h"

namespace coterie {

// What every row takes, beside its vector: places, labels, distances.
inline constexpr int64_t kKMeansRowBytes = 80;

// `rows` may have one attribute's values: the weights. `row_bytes` is what
// bounds and codes may take for each row, on average. INVALID_ARGUMENT naming
// the id if a weight is negative or not finite. O(n log n).
absl::StatusOr<std::unique_ptr<JobWork>> MakeKMeansWork(
    const CollectionSpec& spec, std::shared_ptr<const JobRows> rows,
    int64_t row_bytes);

}  // namespace coterie

#endif  // COTERIE_SHARD_KMEANS_WORK_H_
