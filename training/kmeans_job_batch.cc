// Mini-batch k-means (Sculley, "Web-scale k-means clustering", WWW 2010), with
// the stopping rule and reassignment of scikit-learn's MiniBatchKMeans.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "index/distance.h"
#include "index/metric.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

// Rows a centre between two reassignments.
constexpr int64_t kRowsPerReassignment = 10;
// Batches count by their number to the power of one less than this: a centre
// forgets where it began (polynomial averaging: Shamir and Zhang, ICML 2013).
constexpr double kRecency = 4;
// Bits that a batch's sums have.
constexpr int32_t kSumBits = 30;

// To the nearest bfloat16, and not to infinity.
float Rounded16(float v) {
  const uint32_t bits = absl::bit_cast<uint32_t>(v);
  const uint32_t up = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  const bool finite = (up & 0x7f800000) != 0x7f800000;
  return absl::bit_cast<float>(finite ? up : bits & 0xffff0000);
}

int32_t LogCeil(int64_t n) {
  int32_t bits = 0;
  while (int64_t{1} << bits < n) ++bits;
  return bits;
}

}  // namespace

int64_t KMeansJob::BatchesPerEpoch() const {
  const int64_t size = state_.options.batch_rows;
  return (state_.extent.rows + size - 1) / size;
}

void KMeansJob::StartBatches() {
  state_.batch = KMeansBatchState();
  state_.batch.counts.assign(static_cast<size_t>(state_.options.k), 0);
  state_.phase = KMeansPhase::kBatch;
}

// How much coarser a batch's sums are than those of all rows. Weights may make
// any column's range, so sums of weighted rows stay as they are.
int32_t KMeansJob::BatchCoarseness() const {
  if (state_.extent.weighted) return 0;
  const int32_t all = LogCeil(state_.extent.rows);
  // Of 2^62 / rows a column; a batch may be larger than on average, and rows
  // twice as far from the offset as from 0.
  const int32_t now = std::min<int32_t>(50, 62 - all);
  const int32_t enough = kSumBits - 2 - LogCeil(state_.options.batch_rows);
  return std::max(1, now - std::max<int32_t>(8, enough));
}

// Centres of 16 bits are near enough to label a sample, if they are measured
// from the middle of the rows.
void KMeansJob::FillShortRows() {
  if (state_.extent.weighted) {
    step_.rows = state_.centres.rows;
    return;
  }
  step_.amount = BatchCoarseness();
  const bool cosine = state_.options.metric == Metric::kCosine;
  if (!cosine) step_.values = MiddleOfCentres();
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const std::vector<float>& rows = state_.centres.rows;
  step_.rows.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const float middle = cosine ? 0 : static_cast<float>(step_.values[i % d]);
    step_.rows[i] = Rounded16(rows[i] - middle);
  }
  // A direction too short for 16 bits.
  for (size_t first = 0; cosine && first < rows.size(); first += d) {
    const auto row = step_.rows.begin() + static_cast<int64_t>(first);
    if (std::all_of(row, row + static_cast<int64_t>(d),
                    [](float v) { return v == 0; })) {
      std::copy_n(rows.begin() + static_cast<int64_t>(first), d, row);
    }
  }
}

// As float32 values, within the range of the rows.
std::vector<double> KMeansJob::MiddleOfCentres() const {
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const std::vector<float>& rows = state_.centres.rows;
  std::vector<double> middle(d, 0);
  for (size_t i = 0; i < rows.size(); ++i) middle[i % d] += rows[i];
  for (size_t i = 0; i < d; ++i) {
    const double most = state_.extent.max_value[i];
    middle[i] = static_cast<float>(std::clamp(
        middle[i] / static_cast<double>(state_.options.k), -most, most));
  }
  return middle;
}

void KMeansJob::FillBatchStep() {
  step_.seed = RunSeed();
  step_.round = state_.batch.number;
  if (state_.phase == KMeansPhase::kReassign) {
    step_.kind = KMeansStepKind::kBatchPick;
    step_.count = static_cast<int64_t>(state_.batch.reassign.size());
    step_.amount = static_cast<double>(BatchesPerEpoch());
    return;
  }
  step_.kind = KMeansStepKind::kBatch;
  step_.count = BatchesPerEpoch();
  FillShortRows();
  const std::vector<uint8_t>& active = state_.centres.active;
  if (std::count(active.begin(), active.end(), uint8_t{0}) > 0) {
    step_.active = active;
  }
}

// Each centre moves to the mean of all rows that it ever got, later ones
// counting more.
double KMeansJob::MoveTowardsBatch() {
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const bool cosine = state_.options.metric == Metric::kCosine;
  const KMeansScale scale =
      Coarser(state_.scale, static_cast<int32_t>(step_.amount));
  double shift = 0;
  std::vector<double> mean(d);
  for (size_t j = 0; j < merged_.weights.size(); ++j) {
    if (merged_.weights[j] <= 0) continue;
    const double weight =
        FromFixed64(merged_.weights[j], state_.scale.weight_exponent);
    double& count = state_.batch.counts[j];
    float* row = state_.centres.rows.data() + j * d;
    double square = 0;
    for (size_t i = 0; i < d; ++i) {
      const double middle = step_.values.empty() ? 0 : step_.values[i];
      const double sum =
          FromFixed64(merged_.sums[j * d + i], scale.sum_exponents[i]) +
          middle * weight;
      mean[i] = (static_cast<double>(row[i]) * (count / kRecency) + sum) /
                (count / kRecency + weight);
      square += mean[i] * mean[i];
    }
    count += weight;
    if (cosine && !(square > 0)) continue;
    const double norm = cosine ? std::sqrt(square) : 1.0;
    for (size_t i = 0; i < d; ++i) {
      const float now = static_cast<float>(mean[i] / norm);
      const double moved = static_cast<double>(now) - row[i];
      shift += moved * moved;
      row[i] = now;
    }
  }
  return shift;
}

void KMeansJob::FinishBatch() {
  KMeansBatchState& batch = state_.batch;
  const double shift = MoveTowardsBatch();
  const double weight = std::accumulate(
      merged_.weights.begin(), merged_.weights.end(), 0.0,
      [this](double sum, int64_t w) {
        return sum + FromFixed64(w, state_.scale.weight_exponent);
      });
  const double objective =
      FromFixed128(merged_.objective, state_.scale.objective_exponent);
  batch.epoch_objective += objective;
  batch.epoch_rows += merged_.moved;
  batch.rows_since += merged_.moved;
  batch.evaluated += merged_.evaluated;
  between_down_ += bytes_down_;
  between_up_ += bytes_up_;
  KMeansStop stop = KMeansStop::kNone;
  // The first batch tells of the seeds.
  if (batch.number > 0 && weight > 0) {
    const double share =
        std::min(1.0, 2.0 * static_cast<double>(merged_.moved) /
                          static_cast<double>(state_.extent.rows + 1));
    const double mean = objective / weight;
    batch.average =
        batch.averaged == 0 ? mean : batch.average * (1 - share) + mean * share;
    ++batch.averaged;
    if (batch.averaged == 1 || batch.average < batch.least) {
      batch.least = batch.average;
      batch.worse = 0;
    } else if (++batch.worse >= state_.options.patience) {
      stop = KMeansStop::kConverged;
    }
    if (state_.options.tolerance > 0 &&
        shift <= state_.options.tolerance * state_.mean_variance) {
      stop = KMeansStop::kTolerance;
    }
  }
  if (state_.stop_requested) stop = KMeansStop::kRequested;
  EndBatch(shift, stop);
}

void KMeansJob::EndBatch(double shift, KMeansStop stop) {
  KMeansBatchState& batch = state_.batch;
  const bool epoch_ends = (batch.number + 1) % BatchesPerEpoch() == 0;
  if (epoch_ends || stop != KMeansStop::kNone) {
    state_.progress.push_back({.run = state_.run,
                               .iteration = state_.iteration,
                               .objective = batch.epoch_objective,
                               .moved = batch.epoch_rows,
                               .shift_squared = shift,
                               .evaluated = batch.evaluated,
                               .bytes_down = std::exchange(between_down_, 0),
                               .bytes_up = std::exchange(between_up_, 0)});
    batch.epoch_objective = 0;
    batch.epoch_rows = 0;
    batch.evaluated = 0;
    if (stop == KMeansStop::kNone &&
        state_.iteration >= state_.options.max_iterations) {
      stop = KMeansStop::kMaxIterations;
    }
    if (stop != KMeansStop::kNone) return GoToFinal(stop);
    ++state_.iteration;
  }
  if (WantsReassignment()) {
    state_.phase = KMeansPhase::kReassign;
    return;
  }
  ++batch.number;
}

// Centres with few rows move onto rows of the batch, at most half as many as
// it has, fewest rows first.
bool KMeansJob::WantsReassignment() {
  KMeansBatchState& batch = state_.batch;
  batch.reassign.clear();
  if (state_.options.reassignment_ratio == 0) return false;
  const std::vector<double>& counts = batch.counts;
  const std::vector<uint8_t>& active = state_.centres.active;
  double most = 0;
  bool unused = false;
  for (size_t j = 0; j < counts.size(); ++j) {
    if (active[j] == 0) continue;
    most = std::max(most, counts[j]);
    unused = unused || counts[j] == 0;
  }
  if (!unused && batch.rows_since < kRowsPerReassignment * state_.options.k) {
    return false;
  }
  batch.rows_since = 0;
  for (size_t j = 0; j < counts.size(); ++j) {
    if (active[j] != 0 &&
        counts[j] < state_.options.reassignment_ratio * most) {
      batch.reassign.push_back(static_cast<int64_t>(j));
    }
  }
  std::stable_sort(batch.reassign.begin(), batch.reassign.end(),
                   [&counts](int64_t a, int64_t b) {
                     return counts[static_cast<size_t>(a)] <
                            counts[static_cast<size_t>(b)];
                   });
  const size_t limit = static_cast<size_t>(merged_.moved / 2);
  if (batch.reassign.size() > limit) batch.reassign.resize(limit);
  return !batch.reassign.empty();
}

void KMeansJob::FinishReassign() {
  SortPicks();
  KMeansBatchState& batch = state_.batch;
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const size_t count = std::min(batch.reassign.size(), merged_.picks.size());
  batch.reassign.resize(count);
  double least = std::numeric_limits<double>::infinity();
  for (size_t j = 0; j < batch.counts.size(); ++j) {
    if (state_.centres.active[j] != 0 &&
        std::count(batch.reassign.begin(), batch.reassign.end(),
                   static_cast<int64_t>(j)) == 0) {
      least = std::min(least, batch.counts[j]);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t j = static_cast<size_t>(batch.reassign[i]);
    std::copy_n(merged_.pick_rows.begin() + static_cast<int64_t>(i * d), d,
                state_.centres.rows.begin() + static_cast<int64_t>(j * d));
    batch.counts[j] = std::isfinite(least) ? least : 0;
  }
  between_down_ += bytes_down_;
  between_up_ += bytes_up_;
  batch.reassign.clear();
  ++batch.number;
  state_.phase = KMeansPhase::kBatch;
}

}  // namespace coterie
