#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "training/draw.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {

absl::StatusOr<KMeansPartial> KMeansShard::Measure(const KMeansStep& step) {
  const absl::Status base = CheckBase(step);
  if (!base.ok()) return base;
  const size_t k = weights_.size();
  KMeansPartial partial;
  partial.potentials.assign(2 * k, 0);
  for (int64_t row = 0; row < rows_.size(); ++row) {
    const size_t i = static_cast<size_t>(row);
    const size_t label = static_cast<size_t>(labels_[i]);
    const double weight = rows_.weight(row);
    partial.potentials[label] += adder_->Objective(weight, distances_[i]);
    partial.potentials[k + label] +=
        adder_->Objective(weight, std::sqrt(distances_[i]));
  }
  return partial;
}

absl::StatusOr<KMeansPartial> KMeansShard::Silhouette(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) {
  const absl::Status base = CheckBase(step);
  if (!base.ok()) return base;
  const size_t k = weights_.size();
  if (step.values.size() != 2 * k) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means step %d: %d values for %d clusters",
                        step.number, step.values.size(), k));
  }
  const auto mean_square = [&](size_t row, size_t j) {
    const int64_t centre = static_cast<int64_t>(j);
    return rows_.Distance(static_cast<int64_t>(row), centres_->centre(centre),
                          centres_->squared_norm(centre)) +
           step.values[j];
  };
  std::vector<absl::int128> sums(static_cast<size_t>(workers.count), 0);
  std::vector<absl::int128> masses(sums.size(), 0);
  const bool complete =
      ForRows(workers, stop, [&](int32_t worker, int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const uint64_t hash = HashOf({step.seed, rows_.id(row)});
          const double weight = rows_.weight(row);
          if (!(UniformOf(hash) < step.amount) || !(weight > 0)) continue;
          const size_t i = static_cast<size_t>(row);
          const size_t own = static_cast<size_t>(labels_[i]);
          double other = std::numeric_limits<double>::infinity();
          for (size_t j = 0; j < k; ++j) {
            if (j == own || !(step.values[k + j] > 0)) continue;
            other = std::min(other, mean_square(i, j));
          }
          // The row itself, at distance 0, is not among the others.
          const double mass = step.values[k + own];
          const double inside = mean_square(i, own) * (mass / (mass - weight));
          double s = 0;
          if (mass > weight &&
              other < std::numeric_limits<double>::infinity() &&
              std::max(inside, other) > 0) {
            s = (other - inside) / std::max(inside, other);
          }
          const size_t w = static_cast<size_t>(worker);
          const int64_t units = adder_->WeightUnits(weight);
          sums[w] += ToFixed128(s, kSilhouetteExponent) * units;
          masses[w] += units;
        }
      });
  if (!complete) {
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  KMeansPartial partial;
  partial.potentials.assign(2, 0);
  for (size_t w = 0; w < sums.size(); ++w) {
    partial.potentials[0] += sums[w];
    partial.potentials[1] += masses[w];
  }
  return partial;
}

}  // namespace coterie
