#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_sweep.h"

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

}  // namespace coterie
