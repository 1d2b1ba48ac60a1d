#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/vectors.h"
#include "training/draw.h"
#include "training/kmeans_draw.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_shard_worker.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint64_t HashOfRow(const KMeansStep& step, int64_t draw, PointId id) {
  return HashOf({step.seed, static_cast<uint64_t>(step.kind),
                 static_cast<uint64_t>(step.round), static_cast<uint64_t>(draw),
                 id});
}

struct Raced {
  double key = kInfinity;
  int64_t row = -1;

  friend bool operator<(const Raced& a, const Raced& b) {
    return a.key != b.key ? a.key < b.key : a.row < b.row;
  }
};

}  // namespace

absl::StatusOr<KMeansPartial> KMeansShard::Seed(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) {
  if (step.kind == KMeansStepKind::kPick) return Pick(step);
  if (step.kind == KMeansStepKind::kTry) return Try(step, workers, stop);
  if (step.kind != KMeansStepKind::kSample) {
    const absl::Status known = Know(step, workers, stop);
    if (!known.ok()) return known;
  } else if (known_ == 0 || known_ != step.first_row) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d builds on %d seeds; this shard knows %d", step.number,
        step.first_row, known_));
  }
  switch (step.kind) {
    case KMeansStepKind::kDraw:
      return Draw(step, workers);
    case KMeansStepKind::kPotential:
      return Potential();
    case KMeansStepKind::kSample:
      return Sample(step);
    default:
      return Weigh();
  }
}

// Brings the nearest known row of each row up to date.
absl::Status KMeansShard::Know(const KMeansStep& step,
                               const KMeansWorkers& workers,
                               absl::FunctionRef<bool()> stop) {
  if (step.first_row != 0 && step.first_row != known_) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d builds on %d seeds; this shard knows %d", step.number,
        step.first_row, known_));
  }
  std::vector<double> distances = seed_distances_;
  std::vector<int32_t> labels = seed_labels_;
  if (step.first_row == 0) {
    distances.assign(static_cast<size_t>(rows_.size()), kInfinity);
    labels.assign(static_cast<size_t>(rows_.size()), -1);
  }
  const int64_t fresh = static_cast<int64_t>(step.rows.size()) / d_;
  if (fresh == 0) {
    known_ = step.first_row;
    seed_distances_ = std::move(distances);
    seed_labels_ = std::move(labels);
    return absl::OkStatus();
  }
  const NearestCentre nearest(rows_.metric(),
                              RowsView{step.rows.data(), fresh, d_, d_}, {});
  const int32_t first = static_cast<int32_t>(step.first_row);
  std::vector<Worker> gathered(static_cast<size_t>(workers.count));
  const bool complete =
      ForRows(workers, stop, [&](int32_t worker, int64_t begin, int64_t end) {
        Worker& mine = gathered[static_cast<size_t>(worker)];
        mine.pending.resize(static_cast<size_t>(end - begin));
        mine.found.resize(mine.pending.size());
        for (int64_t i = begin; i < end; ++i) {
          mine.pending[static_cast<size_t>(i - begin)] = i;
        }
        nearest.Find(rows_, mine.pending, absl::MakeSpan(mine.found),
                     mine.scratch);
        for (int64_t i = begin; i < end; ++i) {
          const NearestFound& found =
              mine.found[static_cast<size_t>(i - begin)];
          double& distance = distances[static_cast<size_t>(i)];
          if (found.distance < distance) {
            distance = found.distance;
            labels[static_cast<size_t>(i)] = first + found.label;
          }
        }
      });
  if (!complete) {
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  known_ = step.first_row + fresh;
  seed_distances_ = std::move(distances);
  seed_labels_ = std::move(labels);
  return absl::OkStatus();
}

KMeansPartial KMeansShard::Pick(const KMeansStep& step) const {
  std::vector<Raced> raced;
  for (int64_t i = 0; i < rows_.size(); ++i) {
    const double key =
        RaceKey(HashOfRow(step, 0, rows_.id(i)), rows_.weight(i));
    if (key < kInfinity) raced.push_back({key, i});
  }
  const size_t count = std::min(raced.size(), static_cast<size_t>(step.count));
  std::partial_sort(raced.begin(), raced.begin() + static_cast<int64_t>(count),
                    raced.end());
  KMeansPartial partial;
  for (size_t i = 0; i < count; ++i) {
    AddPick({.key = raced[i].key, .id = rows_.id(raced[i].row)}, raced[i].row,
            partial);
  }
  return partial;
}

KMeansPartial KMeansShard::Draw(const KMeansStep& step,
                                const KMeansWorkers& workers) const {
  std::vector<Raced> best(static_cast<size_t>(step.count));
  workers.ForEach(step.count, [&](int32_t, int64_t draw) {
    Raced least;
    for (int64_t i = 0; i < rows_.size(); ++i) {
      double mass = rows_.weight(i);
      if (known_ > 0) mass *= seed_distances_[static_cast<size_t>(i)];
      const uint64_t hash = HashOfRow(step, draw, rows_.id(i));
      // -ln(u) >= 1 - u: most keys lose without a logarithm.
      if ((1 - UniformOf(hash)) * (1 - 0x1p-40) > least.key * mass) continue;
      const Raced one = {RaceKey(hash, mass), i};
      if (one < least) least = one;
    }
    best[static_cast<size_t>(draw)] = least;
  });
  KMeansPartial partial;
  for (size_t draw = 0; draw < best.size(); ++draw) {
    if (!(best[draw].key < kInfinity)) continue;
    AddPick({.key = best[draw].key,
             .id = rows_.id(best[draw].row),
             .slot = static_cast<int32_t>(draw)},
            best[draw].row, partial);
  }
  return partial;
}

absl::StatusOr<KMeansPartial> KMeansShard::Try(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) const {
  if (known_ != step.first_row || known_ == 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d builds on %d seeds; this shard knows %d", step.number,
        step.first_row, known_));
  }
  const size_t count = step.rows.size() / static_cast<size_t>(d_);
  std::vector<double> norms(count, 0);
  const auto candidate = [&](size_t c) {
    return absl::MakeConstSpan(step.rows).subspan(c * static_cast<size_t>(d_),
                                                  static_cast<size_t>(d_));
  };
  if (rows_.metric() == Metric::kCosine) {
    for (size_t c = 0; c < count; ++c) {
      norms[c] = CanonicalSquaredNorm(candidate(c));
    }
  }
  std::vector<std::vector<absl::int128>> sums(
      static_cast<size_t>(workers.count));
  const bool complete =
      ForRows(workers, stop, [&](int32_t worker, int64_t begin, int64_t end) {
        std::vector<absl::int128>& mine = sums[static_cast<size_t>(worker)];
        mine.resize(count, 0);
        for (int64_t i = begin; i < end; ++i) {
          const double known = seed_distances_[static_cast<size_t>(i)];
          for (size_t c = 0; c < count; ++c) {
            const double with = rows_.Distance(i, candidate(c), norms[c]);
            mine[c] +=
                adder_->Objective(rows_.weight(i), std::min(known, with));
          }
        }
      });
  if (!complete) {
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  KMeansPartial partial;
  partial.potentials.assign(count, 0);
  for (const std::vector<absl::int128>& mine : sums) {
    for (size_t c = 0; c < mine.size(); ++c) partial.potentials[c] += mine[c];
  }
  return partial;
}

KMeansPartial KMeansShard::Potential() const {
  KMeansPartial partial;
  partial.potentials.assign(1, 0);
  for (int64_t i = 0; i < rows_.size(); ++i) {
    partial.potentials[0] += adder_->Objective(
        rows_.weight(i), seed_distances_[static_cast<size_t>(i)]);
  }
  return partial;
}

KMeansPartial KMeansShard::Sample(const KMeansStep& step) const {
  KMeansPartial partial;
  const double potential =
      FromFixed128(step.potential, scale_.objective_exponent);
  if (!(potential > 0)) return partial;
  for (int64_t i = 0; i < rows_.size(); ++i) {
    const double mass =
        rows_.weight(i) * seed_distances_[static_cast<size_t>(i)];
    const double chance = step.amount * (mass / potential);
    if (UniformOf(HashOfRow(step, 0, rows_.id(i))) < chance) {
      AddPick({.key = mass, .id = rows_.id(i)}, i, partial);
    }
  }
  return partial;
}

KMeansPartial KMeansShard::Weigh() const {
  KMeansPartial partial;
  partial.weights.assign(static_cast<size_t>(known_), 0);
  for (int64_t i = 0; i < rows_.size(); ++i) {
    const int32_t nearest = seed_labels_[static_cast<size_t>(i)];
    if (nearest < 0) continue;
    partial.weights[static_cast<size_t>(nearest)] +=
        adder_->WeightUnits(rows_.weight(i));
  }
  return partial;
}

}  // namespace coterie
