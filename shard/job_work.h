// What a job of one kind keeps on a shard and how it answers a step.
//
// One call at a time (shard/shard_jobs.h sees to that).

#ifndef COTERIE_SHARD_JOB_WORK_H_
#define COTERIE_SHARD_JOB_WORK_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "index/vectors.h"
#include "training/step_threads.h"

namespace coterie {

class JobWork {
 public:
  virtual ~JobWork() = default;

  // Answers a step, in the form of the kind. The last step again gets the same
  // answer again. `stop` is asked by all workers; CANCELLED once it says true,
  // and the step may be tried again. INVALID_ARGUMENT for a step that is none;
  // FAILED_PRECONDITION for one that builds on what is not here.
  virtual absl::StatusOr<std::string> Step(absl::string_view step,
                                           const StepThreads& threads,
                                           absl::FunctionRef<bool()> stop) = 0;

  // Each row's label after the last step. FAILED_PRECONDITION if rows have
  // none.
  virtual absl::StatusOr<std::vector<std::pair<PointId, int64_t>>> Labels()
      const = 0;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_JOB_WORK_H_
