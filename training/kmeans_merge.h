// Answers of shards, checked against the step that they answer and added up.
// Pure functions; any thread.

#ifndef COTERIE_TRAINING_KMEANS_MERGE_H_
#define COTERIE_TRAINING_KMEANS_MERGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"

namespace coterie {

// INVALID_ARGUMENT naming what does not fit: sizes that do not follow from the
// step, a negative count, a label or slot out of range, a row or number that is
// not finite. O(size of the partial).
absl::Status CheckKMeansPartial(const KMeansStep& step, int64_t k,
                                int64_t dimension,
                                const KMeansPartial& partial);

// Adds `partial` to `merged`, which starts empty. Associative and commutative
// up to the order of picks. Sums come out dense: under kChanged, of `k` centres
// with zeros for those not touched; under kFloat32, rounded back to units of
// the scale.
// REQUIRES: CheckKMeansPartial() is OK.
void MergeKMeansPartial(const KMeansStep& step, int64_t dimension,
                        const KMeansScale& scale, const KMeansPartial& partial,
                        KMeansPartial& merged);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_MERGE_H_
