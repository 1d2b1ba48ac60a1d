#include "shard/sgd_work.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "training/sgd_codec.h"
#include "training/sgd_messages.h"
#include "training/sgd_rows.h"
#include "training/sgd_shard.h"
#include "training/step_threads.h"

namespace coterie {
namespace {

class SgdWork final : public JobWork {
 public:
  SgdWork(int32_t dimension, std::shared_ptr<const JobRows> rows,
          int64_t row_bytes)
      : dimension_(dimension), rows_(std::move(rows)), row_bytes_(row_bytes) {}

  absl::StatusOr<std::string> Step(absl::string_view bytes,
                                   const StepThreads& threads,
                                   absl::FunctionRef<bool()> stop) override {
    const absl::StatusOr<SgdStep> step = DecodeSgdStep(bytes);
    if (!step.ok()) return step.status();
    if (step->kind == SgdStepKind::kStart) {
      const absl::Status started = Start(step->task);
      if (!started.ok()) return started;
    } else if (!shard_.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("step ", step->number,
                       " builds on a start that this shard has not seen"));
    }
    const absl::StatusOr<SgdPartial> partial =
        shard_->Run(*step, threads, stop);
    if (!partial.ok()) return partial.status();
    return EncodeSgdPartial(task_, *partial);
  }

  absl::StatusOr<std::vector<std::pair<PointId, int64_t>>> Labels()
      const override {
    return absl::FailedPreconditionError("SGD gives rows no labels");
  }

 private:
  absl::Status Start(const SgdTask& task) {
    if (shard_.has_value() && task == task_) return absl::OkStatus();
    if (task.model.dimension != dimension_) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model is for dimension ", task.model.dimension,
                       ", the collection has ", dimension_));
    }
    const bool table = task.estimator == SgdEstimator::kSaga ||
                       task.estimator == SgdEstimator::kSagaShared;
    const int64_t wanted =
        table ? task.blocks * static_cast<int64_t>(sizeof(double)) : 0;
    if (wanted > row_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "a table of ", task.blocks, " gradient blocks takes ", wanted,
          " bytes a row; the shard's memory for jobs leaves ", row_bytes_));
    }
    std::vector<SgdBlockOfRows> blocks;
    for (const JobSegment& segment : rows_->segments()) {
      blocks.push_back({segment.rows.rows, segment.rows.ids,
                        segment.values.front().data(), segment.rows.live});
    }
    absl::StatusOr<SgdRows> rows = SgdRows::Create(
        task.model, {task.workers, task.seed, task.held_out}, blocks);
    if (!rows.ok()) return rows.status();
    task_ = task;
    shard_.emplace(task, *std::move(rows));
    return absl::OkStatus();
  }

  const int32_t dimension_;
  const std::shared_ptr<const JobRows> rows_;  // what shard_ reads
  const int64_t row_bytes_;
  SgdTask task_;
  std::optional<SgdShard> shard_;
};

}  // namespace

std::unique_ptr<JobWork> MakeSgdWork(const CollectionSpec& spec,
                                     std::shared_ptr<const JobRows> rows,
                                     int64_t row_bytes) {
  return std::make_unique<SgdWork>(spec.dimension, std::move(rows), row_bytes);
}

}  // namespace coterie
