// What bounds say of a shard's rows before an assignment: which rows keep their
// centre, and how much of the others has to be searched.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "training/kmeans_bounds.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_shard_worker.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {
namespace {

constexpr int64_t kProbeSteps = 8;
// Of the radius.
constexpr double kReach = 0.02;
constexpr double kApartReach = 0.05;
// Centres apart are a multiple of this: a group of the codes' kernels.
constexpr int64_t kApartMultiple = 64;
// Of a search apart, in searches of one group: what it takes beside them.
constexpr double kApartCost = 0.5;
// Part of a whole search above which bounds are not worth a distance a row.
constexpr double kPointless = 0.95;
// Rows that slack is measured on.
constexpr int64_t kSlackRows = 2048;

}  // namespace

void KMeansShard::PrepareBounds(const KMeansStep& step,
                                const NearestCentre& centres,
                                const KMeansWorkers& workers) {
  const int64_t k = centres.size();
  algorithm_ = step.algorithm;
  if (algorithm_ == KMeansAlgorithm::kElkan &&
      rows_.size() > options_.bound_bytes / int64_t{sizeof(float)} / k) {
    algorithm_ = KMeansAlgorithm::kHamerly;
  }
  has_bounds_ = false;
  drift_.reset();
  apart_.clear();
  separation_.reset();
  if (algorithm_ == KMeansAlgorithm::kLloyd) {
    bounds_.clear();
    return;
  }
  const bool elkan = algorithm_ == KMeansAlgorithm::kElkan;
  const size_t size =
      static_cast<size_t>(elkan ? rows_.size() * k : rows_.size());
  if (bounds_kind_ != algorithm_ || bounds_.size() != size) bounds_.clear();
  if (bounds_.empty()) {
    bounds_kind_ = algorithm_;
    bounds_.resize(size);
    return;
  }
  has_bounds_ = true;
  drift_.emplace(*centres_, centres);
  // k^2 distances must pay for themselves; whether they begin to is tried again
  // from time to time.
  const bool probe = step.number % kProbeSteps == 0;
  if (elkan || (k * k / 2 <= rows_.size() && (separation_pays_ || probe))) {
    separation_.emplace(centres, elkan, workers);
  }
  if (!elkan) ChooseApart();
}

// Bounds lose the largest drift of all centres that they are about. So the
// centres that moved farthest are left out of them and searched for every row,
// as many as make the work least; how often bounds would fail is measured on
// some rows. The choice changes work, not results.
void KMeansShard::ChooseApart() {
  const int64_t k = drift_->size();
  if (rows_.size() == 0) return;
  const std::vector<int32_t> order = drift_->Farthest();
  const auto drift = [&](int64_t i) {
    return drift_->of(order[static_cast<size_t>(i)]);
  };
  std::vector<float> slacks;  // what bounds may lose
  const int64_t step = std::max<int64_t>(1, rows_.size() / kSlackRows);
  for (int64_t row = 0; row < rows_.size(); row += step) {
    const size_t i = static_cast<size_t>(row);
    slacks.push_back(static_cast<float>(
        bounds_[i] - RadiusAtMost(rows_.metric(), distances_[i])));
  }
  std::sort(slacks.begin(), slacks.end());
  const auto failing = [&](float loss) {
    return static_cast<double>(
               std::upper_bound(slacks.begin(), slacks.end(), loss) -
               slacks.begin()) /
           static_cast<double>(slacks.size());
  };
  const double groups =
      static_cast<double>((k + kApartMultiple - 1) / kApartMultiple);
  double least = failing(drift(0));
  int64_t count = 0;
  for (int64_t n = kApartMultiple; n < k; n += kApartMultiple) {
    const double searched = static_cast<double>(n / kApartMultiple) / groups;
    const double work =
        kApartCost / groups + searched + failing(drift(n)) * (1 - searched);
    if (work < least) {
      least = work;
      count = n;
    }
  }
  // All is searched anyway, and without codes a radius is of no use.
  if (least > kPointless && !MayUseCodes(k)) has_bounds_ = false;
  apart_.assign(order.begin(), order.begin() + count);
  std::sort(apart_.begin(), apart_.end());  // ties go to the least index
  drift_->SetApart(apart_);
}

bool KMeansShard::KeepsLabel(const NearestCentre& centres, int64_t row,
                             Worker& worker) {
  if (!has_bounds_ && !coded_.has_value()) return false;
  const size_t i = static_cast<size_t>(row);
  const int32_t label = labels_[i];
  const bool elkan = algorithm_ == KMeansAlgorithm::kElkan;
  if (elkan) {
    LowerBounds(*drift_, centres.size(), bounds_.data() + row * centres.size());
  }
  if (!centres.active(label)) return false;
  double distance = distances_[i];
  if (moved_[static_cast<size_t>(label)] != 0) {
    distance =
        rows_.Distance(row, centres.centre(label), centres.squared_norm(label));
    ++worker.evaluated;
  }
  const double radius = RadiusAtMost(centres.metric(), distance);
  next_labels_[i] = label;
  next_distances_[i] = distance;
  const bool separate =
      separation_.has_value() && separation_->half(label) > radius;
  if (elkan) {
    if (separate) {
      worker.skipped += centres.size() - 1;
    } else {
      ScanByElkan(centres, row, worker);
    }
    return true;
  }
  if (has_bounds_ && KeepsBound(row, label, radius, separate, worker)) {
    return true;
  }
  if (!coded_.has_value()) return false;
  // Somewhat beyond the radius, for a bound that outlasts the next movement.
  double reach = 0;
  if (has_bounds_) {
    reach = std::min(kReach * radius, 2.0 * drift_->of_others(label));
  }
  worker.coded.push_back(row);
  worker.reach.push_back(reach);
  return true;
}

// Moves the row's bound on. Whether it settles the row, or all but the centres
// apart, to be searched.
bool KMeansShard::KeepsBound(int64_t row, int32_t label, double radius,
                             bool separate, Worker& worker) {
  float& bound = bounds_[static_cast<size_t>(row)];
  const int64_t others = drift_->size() - 1;
  const float all = LowerBound(bound, drift_->of_others(label));
  // A search apart would leave no more than this.
  const double enough = apart_.empty() ? radius : radius * (1 + kApartReach);
  if (separate || all > enough) {
    worker.apart += separate ? 1 : 0;
    worker.skipped += others;
    bound = all;
    return true;
  }
  if (!apart_.empty()) {
    const float slow = LowerBound(bound, drift_->of_others_not_apart(label));
    if (slow > radius) {
      bound = slow;
      worker.near.push_back(row);
      worker.near_reach.push_back(
          std::min(slow - radius, kApartReach * radius));
      worker.skipped += others - static_cast<int64_t>(apart_.size());
      return true;
    }
  }
  bound = all;
  return false;
}

// Begins with label and distance of the row's old centre.
void KMeansShard::ScanByElkan(const NearestCentre& centres, int64_t row,
                              Worker& worker) {
  const size_t i = static_cast<size_t>(row);
  const int64_t k = centres.size();
  float* bounds = bounds_.data() + row * k;
  int32_t& label = next_labels_[i];
  double& distance = next_distances_[i];
  double radius = RadiusAtMost(centres.metric(), distance);
  bounds[label] = FloatAtMost(RadiusAtLeast(centres.metric(), distance));
  const int32_t old = label;
  for (int64_t j = 0; j < k; ++j) {
    if (j == old || !centres.active(j)) continue;
    if (bounds[j] > radius || separation_->half(label, j) > radius) {
      ++worker.skipped;
      continue;
    }
    const double other =
        rows_.Distance(row, centres.centre(j), centres.squared_norm(j));
    ++worker.evaluated;
    bounds[j] = FloatAtMost(RadiusAtLeast(centres.metric(), other));
    if (other < distance || (other == distance && j < label)) {
      label = static_cast<int32_t>(j);
      distance = other;
      radius = RadiusAtMost(centres.metric(), distance);
    }
  }
}

}  // namespace coterie
