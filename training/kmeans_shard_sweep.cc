#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_shard_worker.h"
#include "training/kmeans_sweep.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

// Also that nothing overflows while these rows move.
bool Fits(const KMeansToken& token, size_t k, size_t d, int64_t rows) {
  const auto small = [](int64_t v, int64_t limit) {
    return v >= -limit && v <= limit;
  };
  for (const auto* values : {&token.sums, &token.weights}) {
    for (int64_t v : *values) {
      if (!small(v, int64_t{1} << 61)) return false;
    }
  }
  constexpr int64_t kMaxRows = int64_t{1} << 48;
  return token.rows <= kMaxRows && small(token.unmoved, kMaxRows) &&
         small(token.quiet, kMaxRows) && small(token.step, 64 * kMaxRows) &&
         small(token.moves, int64_t{1} << 61) && token.sums.size() == k * d &&
         token.weights.size() == k && token.live.size() == k &&
         token.changed.size() == k && token.quick.size() == k &&
         token.offset >= 0 && token.rows >= rows &&
         token.offset <= token.rows - rows;
}

}  // namespace

absl::StatusOr<KMeansPartial> KMeansShard::Sweep(
    const KMeansStep& step, absl::FunctionRef<bool()> stop) {
  const bool first = step.round == 0;
  if (assigned_ == 0 || step.base != assigned_ ||
      (!first && step.base != sweep_base_)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d is pass %d over the labels of step %d; this shard has "
        "those of step %d and began with those of step %d",
        step.number, step.round, step.base, assigned_, sweep_base_));
  }
  const size_t k = weights_.size();
  bool fits = Fits(step.token, k, static_cast<size_t>(d_), rows_.size());
  for (size_t j = 0; fits && j < k; ++j) {
    // Rows of this shard are in clusters with a weight.
    fits = step.token.weights[j] >= (first ? weights_[j] : 0);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means step %d: a token that does not fit", step.number));
  }
  if (stop()) {
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  if (first) {
    sweep_labels_ = labels_;
    sweep_others_.clear();
    for (int32_t label : labels_) {
      sweep_others_.push_back(
          static_cast<int32_t>((static_cast<size_t>(label) + 1) % k));
    }
  }
  KMeansPartial partial;
  partial.token = step.token;
  SweepRows(rows_, scale_, absl::MakeSpan(sweep_labels_),
            absl::MakeSpan(sweep_others_), partial.token);
  sweep_base_ = step.base;
  return partial;
}

absl::StatusOr<KMeansPartial> KMeansShard::Propose(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) {
  const absl::Status base = CheckBase(step);
  if (!base.ok()) return base;
  if (step.round != 0 && sweep_base_ != step.base) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d goes on with moves over the labels of step %d; this "
        "shard began with those of step %d",
        step.number, step.base, sweep_base_));
  }
  if (!Fits(step.token, weights_.size(), static_cast<size_t>(d_),
            rows_.size())) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "k-means step %d: a token that does not fit", step.number));
  }
  std::vector<int32_t> labels = step.round == 0 ? labels_ : sweep_labels_;
  if (step.round > 0 && step.round == tentative_number_) {
    for (const auto& [row, to] : tentative_) {
      labels[static_cast<size_t>(row)] = to;
    }
  }
  std::vector<std::vector<HartiganMove>> found(
      static_cast<size_t>(workers.count));
  const bool complete =
      ForRows(workers, stop, [&](int32_t worker, int64_t begin, int64_t end) {
        ProposeMoves(rows_, scale_, labels, step.token, begin, end,
                     found[static_cast<size_t>(worker)]);
      });
  if (!complete) {
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  std::vector<HartiganMove> moves;
  for (const std::vector<HartiganMove>& some : found) {
    moves.insert(moves.end(), some.begin(), some.end());
  }
  std::sort(moves.begin(), moves.end(),
            [](const HartiganMove& a, const HartiganMove& b) {
              return a.gain != b.gain ? a.gain > b.gain : a.row < b.row;
            });
  KMeansPartial partial;
  for (const HartiganMove& move : moves) {
    if (static_cast<int64_t>(partial.picks.size()) >= step.count) break;
    partial.picks.push_back(
        {.key = move.gain, .id = rows_.id(move.row), .slot = move.to});
  }
  sweep_labels_ = std::move(labels);
  sweep_base_ = step.base;
  tentative_.clear();
  tentative_number_ = 0;
  return partial;
}

absl::StatusOr<KMeansPartial> KMeansShard::Apply(const KMeansStep& step) {
  const absl::Status base = CheckBase(step);
  if (!base.ok()) return base;
  const size_t k = weights_.size();
  if (sweep_base_ != step.base ||
      sweep_labels_.size() != static_cast<size_t>(rows_.size())) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d makes moves that this shard did not propose",
        step.number));
  }
  std::vector<Worker> gathered(1);
  Worker& mine = gathered[0];
  mine.sums.assign(k * static_cast<size_t>(d_), 0);
  mine.weights.assign(k, 0);
  mine.touched.assign(k, 0);
  tentative_.clear();
  for (const KMeansPick& pick : step.picks) {
    const int64_t row = rows_.Find(pick.id);
    if (row < 0) continue;
    const size_t from =
        static_cast<size_t>(sweep_labels_[static_cast<size_t>(row)]);
    const size_t to = static_cast<size_t>(pick.slot);
    if (pick.slot < 0 || to >= k || tentative_.size() >= sweep_labels_.size()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("k-means step %d: point %d moves to cluster %d of %d",
                          step.number, pick.id, pick.slot, k));
    }
    const int64_t units = adder_->WeightUnits(rows_.weight(row));
    adder_->Subtract(rows_, row,
                     mine.sums.data() + from * static_cast<size_t>(d_));
    adder_->Add(rows_, row, mine.sums.data() + to * static_cast<size_t>(d_));
    mine.weights[from] -= units;
    mine.weights[to] += units;
    mine.touched[from] = 1;
    mine.touched[to] = 1;
    tentative_.emplace_back(row, pick.slot);
  }
  tentative_number_ = step.number;
  KMeansPartial partial;
  partial.moved = static_cast<int64_t>(tentative_.size());
  FillChanged(gathered, k, partial);
  return partial;
}

}  // namespace coterie
