#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/vectors.h"
#include "training/kmeans_bounds.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_shard_worker.h"
#include "training/kmeans_workers.h"
#include "training/nearest_centre.h"

namespace coterie {
namespace {

// Where codes begin to pay.
constexpr int64_t kMinCodedCentres = 32;
constexpr int64_t kMinCodedDimension = 8;
// Candidates a row, of all centres, above which they do not.
constexpr double kMaxCandidates = 0.1;
// Rows a centre that its separation has to settle.
constexpr int64_t kMinApart = 8;
// Where a first search by codes begins to pay.
constexpr int64_t kMinFirstCoded = 256;
constexpr int64_t kMinFirstDimension = 24;

}  // namespace

absl::StatusOr<std::unique_ptr<NearestCentre>> KMeansShard::CentresOf(
    const KMeansStep& step) const {
  std::vector<float> all = step.rows;
  if (!step.touched.empty()) {
    if (step.base == 0 ||
        static_cast<int64_t>(step.touched.size()) != centres_->size()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "k-means step %d changes %d centres of those of step %d, which does "
          "not fit",
          step.number, step.touched.size(), step.base));
    }
    all.clear();
    auto next = step.rows.begin();
    for (size_t j = 0; j < step.touched.size(); ++j) {
      if (step.touched[j] == 0) {
        const VectorView old = centres_->centre(static_cast<int64_t>(j));
        all.insert(all.end(), old.begin(), old.end());
        continue;
      }
      if (step.rows.end() - next < d_) break;
      all.insert(all.end(), next, next + d_);
      next += d_;
    }
    if (next != step.rows.end() ||
        static_cast<int64_t>(all.size()) !=
            static_cast<int64_t>(step.touched.size()) * d_) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "k-means step %d: changed centres and rows do not agree",
          step.number));
    }
  }
  const int64_t k = d_ > 0 ? static_cast<int64_t>(all.size()) / d_ : 0;
  const bool some =
      step.active.empty() || std::any_of(step.active.begin(), step.active.end(),
                                         [](uint8_t a) { return a != 0; });
  if (k == 0 || !some ||
      (!step.active.empty() && static_cast<int64_t>(step.active.size()) != k)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("k-means step %d: %d centres, %d flags of activity",
                        step.number, k, step.active.size()));
  }
  return std::make_unique<NearestCentre>(
      rows_.metric(), RowsView{all.data(), k, d_, d_}, step.active);
}

absl::StatusOr<KMeansPartial> KMeansShard::Assign(
    const KMeansStep& step, const KMeansWorkers& workers,
    absl::FunctionRef<bool()> stop) {
  if (step.base != 0 && step.base != assigned_) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "k-means step %d needs the labels of step %d; this shard has those of "
        "%d",
        step.number, step.base, assigned_));
  }
  absl::StatusOr<std::unique_ptr<NearestCentre>> centres = CentresOf(step);
  if (!centres.ok()) return centres.status();
  const int64_t k = (*centres)->size();
  has_base_ = step.base != 0 && centres_ != nullptr && centres_->size() == k;
  if (!has_base_) {
    bounds_.clear();
    sums_.assign(static_cast<size_t>(k * d_), 0);
    weights_.assign(static_cast<size_t>(k), 0);
    objective_ = 0;
  }
  FindMoved(**centres);
  PrepareBounds(step, **centres, workers);
  PrepareCodes(**centres);
  next_labels_.resize(static_cast<size_t>(rows_.size()));
  next_distances_.resize(static_cast<size_t>(rows_.size()));

  std::vector<Worker> gathered(static_cast<size_t>(workers.count));
  const bool complete =
      ForRows(workers, stop, [&](int32_t worker, int64_t begin, int64_t end) {
        AssignRows(**centres, begin, end,
                   gathered[static_cast<size_t>(worker)]);
      });
  if (!complete) {
    bounds_.clear();  // some were moved on, some were not
    if (coding_) codes_.reset();
    if (!has_base_) assigned_ = 0;
    return absl::CancelledError(
        absl::StrFormat("k-means step %d was stopped", step.number));
  }
  KMeansPartial partial;
  Count(gathered, partial);
  FillSums(step, gathered, partial);
  std::swap(labels_, next_labels_);
  std::swap(distances_, next_distances_);
  centres_ = *std::move(centres);
  assigned_ = step.number;
  return partial;
}

// A row's distance to a centre that has not moved is what it was.
void KMeansShard::FindMoved(const NearestCentre& centres) {
  moved_.assign(static_cast<size_t>(centres.size()), 1);
  if (!has_base_) return;
  for (int64_t j = 0; j < centres.size(); ++j) {
    const VectorView now = centres.centre(j);
    if (std::equal(now.begin(), now.end(), centres_->centre(j).begin())) {
      moved_[static_cast<size_t>(j)] = 0;
    }
  }
}

void KMeansShard::AssignRows(const NearestCentre& centres, int64_t begin,
                             int64_t end, Worker& worker) {
  worker.pending.clear();
  worker.coded.clear();
  worker.reach.clear();
  worker.near.clear();
  worker.near_reach.clear();
  if (coding_) codes_->Code(rows_, begin, end);
  if (coded_.has_value() && !has_base_) {
    FindFirst(begin, end, worker);
  } else {
    for (int64_t i = begin; i < end; ++i) {
      if (!KeepsLabel(centres, i, worker)) worker.pending.push_back(i);
    }
    FindPending(centres, worker);
    FindCoded(worker);
  }
  FindNear(centres, worker);
  Gather(begin, end, worker);
}

void KMeansShard::FindPending(const NearestCentre& centres, Worker& worker) {
  const size_t count = worker.pending.size();
  if (count == 0) return;
  worker.found.resize(count);
  worker.evaluated += static_cast<int64_t>(count) * centres.size();
  if (algorithm_ == KMeansAlgorithm::kElkan) {
    worker.bound_rows.clear();
    for (int64_t i : worker.pending) {
      worker.bound_rows.push_back(bounds_.data() + i * centres.size());
    }
    centres.FindWithBounds(rows_, worker.pending, absl::MakeSpan(worker.found),
                           worker.bound_rows.data(), worker.scratch);
  } else {
    centres.Find(rows_, worker.pending, absl::MakeSpan(worker.found),
                 worker.scratch);
  }
  for (size_t p = 0; p < count; ++p) {
    const size_t i = static_cast<size_t>(worker.pending[p]);
    next_labels_[i] = worker.found[p].label;
    next_distances_[i] = worker.found[p].distance;
    if (algorithm_ == KMeansAlgorithm::kHamerly) {
      bounds_[i] = FloatAtMost(worker.found[p].other);
    }
  }
}

bool KMeansShard::MayUseCodes(int64_t k) const {
  return algorithm_ == KMeansAlgorithm::kHamerly && codes_pay_ &&
         k >= (has_base_ ? kMinCodedCentres : kMinFirstCoded) &&
         d_ >= (has_base_ ? kMinCodedDimension : kMinFirstDimension) &&
         rows_.size() > 0 &&
         RowCodes::MemoryBytes(rows_.size(), d_) <= options_.code_bytes;
}

void KMeansShard::PrepareCodes(const NearestCentre& centres) {
  coded_.reset();
  near_coded_.reset();
  near_.reset();
  const int64_t k = centres.size();
  const bool codes = MayUseCodes(k);
  coding_ = false;
  if (codes) {
    coding_ = codes_ == nullptr;
    if (coding_) codes_ = std::make_unique<RowCodes>(rows_);
    coded_.emplace(rows_, *codes_, centres);
  }
  if (apart_.empty()) return;
  if (codes) {
    near_coded_.emplace(rows_, *codes_, centres, apart_);
    return;
  }
  std::vector<float> rows;
  std::vector<uint8_t> active;
  for (int32_t j : apart_) {
    rows.insert(rows.end(), centres.centre(j).begin(), centres.centre(j).end());
    active.push_back(centres.active(j) ? 1 : 0);
  }
  if (std::count(active.begin(), active.end(), uint8_t{1}) == 0) return;
  near_.emplace(
      rows_.metric(),
      RowsView{rows.data(), static_cast<int64_t>(apart_.size()), d_, d_},
      active);
}

// Rows of which nothing is known.
void KMeansShard::FindFirst(int64_t begin, int64_t end, Worker& worker) {
  for (int64_t i = begin; i < end; ++i) worker.coded.push_back(i);
  worker.found.resize(worker.coded.size());
  TakeCoded(coded_->FindFirst(worker.coded, absl::MakeSpan(worker.found),
                              worker.coded_scratch),
            worker);
}

void KMeansShard::FindCoded(Worker& worker) {
  if (worker.coded.empty()) return;
  StartFound(worker.coded, worker);
  TakeCoded(coded_->Find(worker.coded, worker.reach,
                         absl::MakeSpan(worker.found), worker.coded_scratch),
            worker);
}

void KMeansShard::TakeCoded(int64_t distances, Worker& worker) {
  const int64_t count = static_cast<int64_t>(worker.coded.size());
  worker.coded_rows += count;
  worker.coded_distances += distances;
  worker.evaluated += distances + count * coded_->size();
  for (size_t p = 0; p < worker.coded.size(); ++p) {
    const size_t i = static_cast<size_t>(worker.coded[p]);
    next_labels_[i] = worker.found[p].label;
    next_distances_[i] = worker.found[p].distance;
    bounds_[i] = FloatAtMost(worker.found[p].other);
  }
}

// What is known of the rows so far.
void KMeansShard::StartFound(absl::Span<const int64_t> which,
                             Worker& worker) const {
  worker.found.resize(which.size());
  for (size_t p = 0; p < which.size(); ++p) {
    const size_t i = static_cast<size_t>(which[p]);
    worker.found[p] = {next_labels_[i], next_distances_[i], 0};
  }
}

// Rows whose bound holds for all but the centres apart.
void KMeansShard::FindNear(const NearestCentre& centres, Worker& worker) {
  const std::vector<int64_t>& which = worker.near;
  if (which.empty()) return;
  const int64_t count = static_cast<int64_t>(which.size());
  worker.evaluated += count * static_cast<int64_t>(apart_.size());
  if (near_coded_.has_value()) {
    StartFound(which, worker);
    worker.evaluated +=
        near_coded_->Find(which, worker.near_reach,
                          absl::MakeSpan(worker.found), worker.coded_scratch);
  } else if (near_.has_value()) {
    worker.found.resize(which.size());
    near_->Find(rows_, which, absl::MakeSpan(worker.found), worker.scratch);
  } else {
    return;
  }
  for (size_t p = 0; p < which.size(); ++p) {
    const size_t i = static_cast<size_t>(which[p]);
    NearestFound found = worker.found[p];
    if (near_.has_value()) found = Nearer(centres.metric(), i, found);
    next_labels_[i] = found.label;
    next_distances_[i] = found.distance;
    bounds_[i] = std::min(bounds_[i], FloatAtMost(found.other));
  }
}

// Of the row's own centre so far and the nearest of those apart.
NearestFound KMeansShard::Nearer(Metric metric, size_t row,
                                 NearestFound apart) const {
  const int32_t own = next_labels_[row];
  const double distance = next_distances_[row];
  apart.label = apart_[static_cast<size_t>(apart.label)];
  if (apart.label == own) return apart;
  if (apart.distance < distance ||
      (apart.distance == distance && apart.label < own)) {
    apart.other = std::min(apart.other, RadiusAtLeast(metric, distance));
    return apart;
  }
  return {own, distance,
          std::min(apart.other, RadiusAtLeast(metric, apart.distance))};
}

// Objective, moves and differences of sums of rows [begin, end).
void KMeansShard::Gather(int64_t begin, int64_t end, Worker& worker) const {
  if (worker.sums.empty()) {
    worker.sums.assign(sums_.size(), 0);
    worker.weights.assign(weights_.size(), 0);
    worker.touched.assign(weights_.size(), 0);
  }
  for (int64_t row = begin; row < end; ++row) {
    const size_t i = static_cast<size_t>(row);
    const int32_t to = next_labels_[i];
    const bool stays = has_base_ && labels_[i] == to;
    if (stays && next_distances_[i] == distances_[i]) continue;
    const double weight = rows_.weight(row);
    worker.objective += adder_->Objective(weight, next_distances_[i]);
    if (has_base_) worker.objective -= adder_->Objective(weight, distances_[i]);
    if (stays) continue;
    ++worker.moved;
    const int64_t units = adder_->WeightUnits(weight);
    if (has_base_) {
      const int32_t from = labels_[i];
      worker.touched[static_cast<size_t>(from)] = 1;
      worker.weights[static_cast<size_t>(from)] -= units;
      adder_->Subtract(rows_, row, worker.sums.data() + from * d_);
    }
    worker.touched[static_cast<size_t>(to)] = 1;
    worker.weights[static_cast<size_t>(to)] += units;
    adder_->Add(rows_, row, worker.sums.data() + to * d_);
  }
}

// Sums of all workers go into the shard's, and counts into `partial`.
void KMeansShard::Count(const std::vector<Worker>& gathered,
                        KMeansPartial& partial) {
  int64_t coded_rows = 0;
  int64_t coded_distances = 0;
  int64_t apart = 0;
  for (const Worker& worker : gathered) {
    coded_rows += worker.coded_rows;
    coded_distances += worker.coded_distances;
    apart += worker.apart;
    objective_ += worker.objective;
    partial.moved += worker.moved;
    partial.evaluated += worker.evaluated;
    partial.skipped += worker.skipped;
    for (size_t j = 0; j < worker.touched.size(); ++j) {
      if (worker.touched[j] == 0) continue;
      weights_[j] += worker.weights[j];
      const size_t first = j * static_cast<size_t>(d_);
      for (size_t i = first; i < first + static_cast<size_t>(d_); ++i) {
        sums_[i] += worker.sums[i];
      }
    }
  }
  partial.objective = objective_;
  if (separation_.has_value()) {
    separation_pays_ =
        apart >= kMinApart * static_cast<int64_t>(weights_.size());
  }
  codes_pay_ = codes_pay_ && static_cast<double>(coded_distances) <=
                                 kMaxCandidates *
                                     static_cast<double>(coded_rows) *
                                     static_cast<double>(weights_.size());
}

void KMeansShard::FillSums(const KMeansStep& step,
                           const std::vector<Worker>& gathered,
                           KMeansPartial& partial) const {
  const size_t d = static_cast<size_t>(d_);
  if (step.form == KMeansSumForm::kFloat32) {
    partial.form = KMeansSumForm::kFloat32;
    for (size_t i = 0; i < sums_.size(); ++i) {
      partial.float_sums.push_back(static_cast<float>(
          FromFixed64(sums_[i], scale_.sum_exponents[i % d])));
    }
    for (int64_t w : weights_) {
      partial.float_weights.push_back(
          static_cast<float>(FromFixed64(w, scale_.weight_exponent)));
    }
    return;
  }
  if (step.form == KMeansSumForm::kChanged && has_base_) {
    FillChanged(gathered, weights_.size(), partial);
    return;
  }
  partial.sums = sums_;
  partial.weights = weights_;
}

void KMeansShard::FillChanged(const std::vector<Worker>& gathered, size_t k,
                              KMeansPartial& partial) const {
  const size_t d = static_cast<size_t>(d_);
  std::vector<uint8_t> touched(k, 0);
  for (const Worker& worker : gathered) {
    for (size_t j = 0; j < worker.touched.size(); ++j) {
      touched[j] |= worker.touched[j];
    }
  }
  const size_t rows = static_cast<size_t>(
      std::count(touched.begin(), touched.end(), uint8_t{1}));
  const bool smaller = (k + 7) / 8 + 8 * rows * (d + 1) < 8 * k * (d + 1);
  partial.form = KMeansSumForm::kChanged;
  for (size_t j = 0; j < k; ++j) {
    if (smaller && touched[j] == 0) continue;
    const size_t at = partial.sums.size();
    partial.sums.resize(at + d, 0);
    partial.weights.push_back(0);
    for (const Worker& worker : gathered) {
      if (worker.touched.empty() || worker.touched[j] == 0) continue;
      partial.weights.back() += worker.weights[j];
      for (size_t i = 0; i < d; ++i) {
        partial.sums[at + i] += worker.sums[j * d + i];
      }
    }
  }
  if (smaller) partial.touched = std::move(touched);
}

}  // namespace coterie
