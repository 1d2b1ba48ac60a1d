// SAGA on a shard: tables of earlier gradients.
//
// The gradient of a row's loss is a factor times the row, so that a table has
// one factor for each row and block. Differences to it are sent; h, the sum of
// the table, is the coordinator's.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_compress.h"
#include "training/sgd_draw.h"
#include "training/sgd_shard.h"

namespace coterie {

// Rows that one worker, by data or for this step, draws.
struct SgdShard::SagaBatch {
  int32_t worker = 0;
  std::vector<int64_t> rows;
  // Of each row, at the step's parameters.
  std::vector<double> factors;
  std::vector<int64_t> blocks;
  std::vector<double> difference;  // d
  double loss = 0;
};

std::vector<SgdShard::SagaBatch> SgdShard::SagaBatches(
    const SgdStep& step) const {
  const bool shared = task_.estimator == SgdEstimator::kSagaShared;
  std::map<int32_t, SagaBatch> batches;
  for (int32_t w = 0; w < task_.workers; ++w) {
    if (!shared && rows_.count(w) > 0) batches[w].worker = w;
    for (int64_t i = rows_.begin(w); i < rows_.end(w); ++i) {
      if (!step.refresh && !Picked(step, i)) continue;
      int32_t worker = w;
      // A table begins anew by the rows' own workers.
      if (shared && !step.refresh) {
        worker = static_cast<int32_t>(
            SgdHash(
                SgdDraw::kSharedWorker,
                {task_.seed, static_cast<uint64_t>(step.round), rows_.id(i)}) %
            static_cast<uint64_t>(task_.workers));
      }
      batches[worker].worker = worker;
      batches[worker].rows.push_back(i);
    }
  }
  std::vector<SagaBatch> result;
  for (auto& [worker, batch] : batches) result.push_back(std::move(batch));
  return result;
}

void SgdShard::AddSagaRows(const SgdStep& step, SagaBatch& batch) const {
  const SgdBlocks layout = {d_, task_.blocks};
  batch.difference.assign(static_cast<size_t>(d_), 0.0);
  for (const auto& run : step.refresh
                             ? std::vector<std::pair<int64_t, int64_t>>{{0, d_}}
                             : SgdMask(task_, step.round, batch.worker)) {
    for (int64_t b = layout.of(run.first); b <= layout.of(run.second - 1);
         ++b) {
      batch.blocks.push_back(b);
    }
  }
  for (int64_t row : batch.rows) {
    const float* x = rows_.row(row);
    const double factor = SgdRowFactor(task_.model, step.parameters, x,
                                       rows_.label(row), batch.loss);
    batch.factors.push_back(factor);
    for (int64_t b : batch.blocks) {
      const double old =
          step.refresh ? 0.0
                       : table_[static_cast<size_t>(row * task_.blocks + b)];
      const int64_t end = layout.end(b);
      for (int64_t j = layout.begin(b); j < end; ++j) {
        // The intercept is the last parameter.
        const double at = j < task_.model.dimension ? x[j] : 1.0;
        batch.difference[static_cast<size_t>(j)] += (factor - old) * at;
      }
    }
  }
}

absl::Status SgdShard::AddSagaContribution(const SgdStep& step,
                                           const SagaBatch& batch,
                                           SgdPartial& partial) {
  if (const int64_t at = FindNonFinite(batch.difference); at >= 0) {
    return absl::OutOfRangeError(
        absl::StrCat("worker ", batch.worker, ", update ", step.version,
                     ": the gradient of parameter ", at, " is not finite"));
  }
  SgdTask task = task_;
  if (step.refresh) task.compressor = SgdCompressor::kNone;
  absl::StatusOr<SgdPayload> payload =
      CompressSgd(task, step.round, batch.worker, batch.difference);
  if (!payload.ok()) return payload.status();
  partial.contributions.push_back({batch.worker,
                                   static_cast<int64_t>(batch.rows.size()),
                                   *std::move(payload)});
  partial.loss += batch.loss;
  partial.rows += static_cast<int64_t>(batch.rows.size());
  return absl::OkStatus();
}

absl::StatusOr<SgdPartial> SgdShard::Saga(const SgdStep& step,
                                          const StepThreads& threads,
                                          absl::FunctionRef<bool()> stop) {
  SgdPartial partial;
  partial.refresh = step.refresh;
  if (!step.refresh && (table_.empty() || step.base != committed_) &&
      rows_.begin(task_.workers) > 0) {
    partial.lost = true;
    return partial;
  }
  std::vector<SagaBatch> batches = SagaBatches(step);
  std::atomic<bool> stopped = false;
  const auto body = [&](int32_t, int64_t task) {
    if (stopped || stop()) {
      stopped = true;
      return;
    }
    AddSagaRows(step, batches[static_cast<size_t>(task)]);
  };
  threads.ForEach(static_cast<int64_t>(batches.size()), body);
  if (stopped) return absl::CancelledError("stopped");
  for (const SagaBatch& batch : batches) {
    absl::Status s = AddSagaContribution(step, batch, partial);
    if (!s.ok()) return s;
  }
  // Nothing can fail any more.
  if (step.refresh) {
    table_.assign(
        static_cast<size_t>(rows_.begin(task_.workers) * task_.blocks), 0.0);
  }
  for (const SagaBatch& batch : batches) {
    for (size_t i = 0; i < batch.rows.size(); ++i) {
      for (int64_t b : batch.blocks) {
        table_[static_cast<size_t>(batch.rows[i] * task_.blocks + b)] =
            batch.factors[i];
      }
    }
  }
  committed_ = step.number;
  return partial;
}

}  // namespace coterie
