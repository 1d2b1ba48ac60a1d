// SGD over the rows of a pinned snapshot: training/sgd_shard.h with its
// messages as bytes.

#ifndef COTERIE_SHARD_SGD_WORK_H_
#define COTERIE_SHARD_SGD_WORK_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "api/collection.h"
#include "shard/job_rows.h"
#include "shard/job_work.h"

namespace coterie {

// What every row takes, beside its vector: id, label, place, and what they are
// sorted by.
inline constexpr int64_t kSgdRowBytes = 64;

// `rows` has one attribute's values: the labels. The job's first step tells its
// task, and builds on nothing; a label that the task's model refuses fails that
// step with INVALID_ARGUMENT naming the point. `row_bytes` is what a table of
// earlier gradients may take for each row: a task that needs more is
// RESOURCE_EXHAUSTED.
std::unique_ptr<JobWork> MakeSgdWork(const CollectionSpec& spec,
                                     std::shared_ptr<const JobRows> rows,
                                     int64_t row_bytes);

}  // namespace coterie

#endif  // COTERIE_SHARD_SGD_WORK_H_
