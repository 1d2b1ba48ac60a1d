#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "training/draw.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_shard_worker.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {
namespace {

constexpr int64_t kRowsPerTask = 256;
constexpr int64_t kMaxBatches = int64_t{1} << 40;
constexpr double kMaxCoarseness = 60;

}  // namespace

// A row is in the batch of its epoch that a hash of its id says, so every row
// is in one batch an epoch, wherever it lies.
absl::StatusOr<absl::Span<const int64_t>> KMeansShard::BatchRows(
    const KMeansStep& step, int64_t batches) {
  if (batches < 1 || batches > kMaxBatches || step.round < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means step %d: batch %d of %d an epoch", step.number,
                        step.round, batches));
  }
  const uint64_t epoch = static_cast<uint64_t>(step.round / batches);
  const uint64_t count = static_cast<uint64_t>(batches);
  const uint64_t hash = HashOf({step.seed, epoch, count});
  // More batches than rows: look them up one by one.
  const int64_t batch = step.round % batches;
  if (batches > 4 * rows_.size() + 1024) {
    batch_begins_.clear();
    batch_rows_.clear();
    for (int64_t i = 0; i < rows_.size(); ++i) {
      if (static_cast<int64_t>(HashOf({hash, rows_.id(i)}) % count) == batch) {
        batch_rows_.push_back(i);
      }
    }
    return absl::MakeConstSpan(batch_rows_);
  }
  if (batch_begins_.size() != static_cast<size_t>(batches + 1) ||
      epoch_hash_ != hash) {
    epoch_hash_ = hash;
    std::vector<uint64_t> of(static_cast<size_t>(rows_.size()));
    batch_begins_.assign(static_cast<size_t>(batches + 1), 0);
    for (int64_t i = 0; i < rows_.size(); ++i) {
      of[static_cast<size_t>(i)] = HashOf({hash, rows_.id(i)}) % count;
      ++batch_begins_[of[static_cast<size_t>(i)] + 1];
    }
    for (size_t b = 1; b < batch_begins_.size(); ++b) {
      batch_begins_[b] += batch_begins_[b - 1];
    }
    batch_rows_.resize(of.size());
    std::vector<int64_t> next = batch_begins_;
    for (size_t i = 0; i < of.size(); ++i) {
      batch_rows_[static_cast<size_t>(next[of[i]]++)] = static_cast<int64_t>(i);
    }
  }
  const int64_t begin = batch_begins_[static_cast<size_t>(batch)];
  const int64_t end = batch_begins_[static_cast<size_t>(batch + 1)];
  return absl::MakeConstSpan(batch_rows_)
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

// The step with its centres whole, once it is known to make sense.
absl::StatusOr<KMeansStep> KMeansShard::WholeBatch(
    const KMeansStep& step) const {
  if (step.base != 0 || !step.touched.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means step %d: a batch needs all centres", step.number));
  }
  if (!(step.amount >= 0 && step.amount <= kMaxCoarseness) ||
      step.amount != std::floor(step.amount)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means step %d: sums in units of 2^%g", step.number, step.amount));
  }
  const size_t d = static_cast<size_t>(d_);
  const bool measured = !step.values.empty();
  if (measured &&
      (step.values.size() != d || rows_.metric() == Metric::kCosine)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means step %d: %d values to measure from",
                        step.number, step.values.size()));
  }
  KMeansStep whole = step;
  for (size_t i = 0; measured && i < whole.rows.size(); ++i) {
    whole.rows[i] += static_cast<float>(step.values[i % d]);
    if (!std::isfinite(whole.rows[i])) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "k-means step %d: centre %d is out of range", step.number, i / d));
    }
  }
  return whole;
}

void KMeansShard::AddToBatch(const FixedPointAdder& adder,
                             const std::vector<double>& middle, int64_t row,
                             std::vector<float>& scratch, int64_t* sums) const {
  if (middle.empty()) {
    adder.Add(rows_, row, sums);
    return;
  }
  scratch.resize(middle.size());
  const float* x = rows_.data(row);
  for (size_t i = 0; i < middle.size(); ++i) {
    scratch[i] = x[i] - static_cast<float>(middle[i]);
  }
  adder.Accumulate(rows_.metric(), scratch, 0, rows_.weight(row), 1, sums);
}

absl::StatusOr<KMeansPartial> KMeansShard::Batch(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) {
  const absl::StatusOr<KMeansStep> whole = WholeBatch(step);
  if (!whole.ok()) return whole.status();
  const absl::StatusOr<absl::Span<const int64_t>> batch =
      BatchRows(step, step.count);
  if (!batch.ok()) return batch.status();
  const absl::StatusOr<std::unique_ptr<NearestCentre>> centres =
      CentresOf(*whole);
  if (!centres.ok()) return centres.status();
  const size_t k = static_cast<size_t>((*centres)->size());
  const FixedPointAdder adder(
      Coarser(scale_, static_cast<int32_t>(step.amount)), rows_.size());
  std::vector<Worker> gathered(static_cast<size_t>(workers.count));
  std::atomic<bool> stopped = false;
  const int64_t size = static_cast<int64_t>(batch->size());
  workers.ForEach((size + kRowsPerTask - 1) / kRowsPerTask, [&](int32_t worker,
                                                                int64_t task) {
    if (stopped.load() || stop()) {
      stopped.store(true);
      return;
    }
    Worker& mine = gathered[static_cast<size_t>(worker)];
    const absl::Span<const int64_t> part =
        batch->subspan(static_cast<size_t>(task * kRowsPerTask),
                       static_cast<size_t>(kRowsPerTask));
    mine.found.resize(part.size());
    mine.evaluated += static_cast<int64_t>(part.size() * k);
    (*centres)->Find(rows_, part, absl::MakeSpan(mine.found), mine.scratch);
    mine.sums.resize(k * static_cast<size_t>(d_), 0);
    mine.weights.resize(k, 0);
    mine.touched.resize(k, 0);
    for (size_t i = 0; i < part.size(); ++i) {
      const size_t label = static_cast<size_t>(mine.found[i].label);
      const double weight = rows_.weight(part[i]);
      mine.objective += adder.Objective(weight, mine.found[i].distance);
      mine.touched[label] = 1;
      mine.weights[label] += adder.WeightUnits(weight);
      AddToBatch(adder, step.values, part[i], mine.row,
                 mine.sums.data() + label * static_cast<size_t>(d_));
    }
  });
  if (stopped.load()) {
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  KMeansPartial partial;
  partial.moved = size;
  for (const Worker& worker : gathered) {
    partial.objective += worker.objective;
    partial.evaluated += worker.evaluated;
  }
  FillChanged(gathered, k, partial);
  return partial;
}

absl::StatusOr<KMeansPartial> KMeansShard::BatchPick(const KMeansStep& step) {
  if (!(step.amount >= 1 && step.amount <= static_cast<double>(kMaxBatches))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means step %d: %g batches an epoch", step.number, step.amount));
  }
  const absl::StatusOr<absl::Span<const int64_t>> batch =
      BatchRows(step, static_cast<int64_t>(step.amount));
  if (!batch.ok()) return batch.status();
  std::vector<std::pair<double, int64_t>> keys;
  for (int64_t i : *batch) {
    if (!(rows_.weight(i) > 0)) continue;
    keys.emplace_back(
        UniformOf(HashOf({step.seed, static_cast<uint64_t>(step.kind),
                          static_cast<uint64_t>(step.round), rows_.id(i)})),
        i);
  }
  std::sort(keys.begin(), keys.end());
  KMeansPartial partial;
  for (const auto& [key, row] : keys) {
    if (static_cast<int64_t>(partial.picks.size()) >= step.count) break;
    AddPick({.key = key, .id = rows_.id(row)}, row, partial);
  }
  return partial;
}

}  // namespace coterie
