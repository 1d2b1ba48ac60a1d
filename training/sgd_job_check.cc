// What a job makes sure of before it takes an answer or begins.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "training/sgd_compress.h"
#include "training/sgd_job.h"

namespace coterie {

bool SgdJob::HasWorker(int32_t shard, int32_t worker, int64_t rows) const {
  const auto& extents = state_.extents[static_cast<size_t>(shard)];
  if (task_.estimator == SgdEstimator::kSagaShared) {
    int64_t all = 0;
    for (const SgdWorkerRows& extent : extents) all += extent.rows;
    return worker >= 0 && worker < task_.workers && rows <= all;
  }
  const auto at = std::lower_bound(
      extents.begin(), extents.end(), worker,
      [](const SgdWorkerRows& e, int32_t w) { return e.worker < w; });
  return at != extents.end() && at->worker == worker && rows <= at->rows;
}

absl::Status SgdJob::CheckPartial(int32_t shard,
                                  const SgdPartial& partial) const {
  const SgdStep& step = slots_[static_cast<size_t>(shard)].step;
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", shard, ", step ", partial.number, ": ", what));
  };
  if (partial.kind != step.kind || partial.round != step.round) {
    return bad("the answer is of another kind or round");
  }
  if (partial.lost) return absl::OkStatus();
  if (!std::isfinite(partial.loss) || partial.rows < 0) {
    return bad(
        absl::StrCat("loss ", partial.loss, " of ", partial.rows, " rows"));
  }
  int32_t last = -1;
  for (const SgdWorkerRows& extent : partial.extents) {
    if (extent.worker <= last || extent.worker >= task_.workers ||
        extent.rows < 1) {
      return bad(absl::StrCat("extent of worker ", extent.worker));
    }
    last = extent.worker;
  }
  if (partial.kind == SgdStepKind::kStage) {
    absl::Status s = relay_->Check(shard, step.stage, partial);
    return s.ok() ? s : bad(s.message());
  }
  if (partial.kind != SgdStepKind::kGradient) return absl::OkStatus();
  if (partial.refresh != step.refresh) return bad("refreshed, or not");
  SgdTask task = task_;
  if (partial.refresh) task.compressor = SgdCompressor::kNone;
  last = -1;
  int64_t rows = 0;
  for (const SgdContribution& c : partial.contributions) {
    if (c.worker <= last || c.rows < 0 || !HasWorker(shard, c.worker, c.rows)) {
      return bad(absl::StrCat("contribution of worker ", c.worker, " with ",
                              c.rows, " rows"));
    }
    last = c.worker;
    rows += c.rows;
    absl::Status s = CheckSgdPayload(task, partial.round, c.worker, c.payload);
    if (!s.ok())
      return bad(absl::StrCat("worker ", c.worker, ": ", s.message()));
  }
  if (rows != partial.rows) {
    return bad(
        absl::StrCat("contributions of ", rows, " rows, not ", partial.rows));
  }
  return absl::OkStatus();
}

// Classes need at least two of them.
absl::Status SgdJob::CheckLabels() const {
  if (task_.model.kind == SgdModelKind::kLinear) return absl::OkStatus();
  const SgdPartial* seen = nullptr;
  for (const Slot& slot : slots_) {
    const SgdPartial& partial = slot.partial;
    if (partial.extents.empty()) continue;
    if (partial.least_label != partial.most_label ||
        (seen != nullptr && partial.least_label != seen->least_label)) {
      return absl::OkStatus();
    }
    seen = &partial;
  }
  // No rows at all: PlanSgd says so.
  if (seen == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("all rows to train on have label ", seen->least_label,
                   ": there is nothing to tell apart"));
}

}  // namespace coterie
