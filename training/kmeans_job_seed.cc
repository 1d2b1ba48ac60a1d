#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "index/vectors.h"
#include "training/draw.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_job.h"
#include "training/kmeans_local.h"
#include "training/kmeans_messages.h"

namespace coterie {
namespace {

// Lloyd steps over the rows that k-means|| sampled.
constexpr int64_t kReclusterIterations = 10;

}  // namespace

uint64_t KMeansJob::RunSeed() const {
  return HashOf({state_.options.seed, static_cast<uint64_t>(state_.run)});
}

void KMeansJob::StartRun() {
  state_.round = 0;
  state_.seeds.clear();
  state_.candidates.clear();
  state_.potential = 0;
  state_.iteration = 0;
  state_.stop = KMeansStop::kNone;
  state_.relocated = 0;
  state_.assigned = KMeansCentres();
  state_.polished = false;
  assigned_number_ = 0;
  seeds_known_ = 0;
  switch (state_.options.seeding) {
    case KMeansSeeding::kGiven:
      state_.seeds = state_.options.given;
      SeedsAreCentres();
      return;
    case KMeansSeeding::kRandom:
      state_.phase = KMeansPhase::kPick;
      return;
    case KMeansSeeding::kParallel:
    case KMeansSeeding::kPlusPlus:
      state_.phase = KMeansPhase::kFirstDraw;
      return;
  }
}

void KMeansJob::AdvanceSeeding() {
  seeds_known_ =
      static_cast<int64_t>(state_.seeds.size()) / state_.options.dimension;
  switch (state_.phase) {
    case KMeansPhase::kPick:
      return FinishPick();
    case KMeansPhase::kFirstDraw:
    case KMeansPhase::kPlusDraw:
      return FinishDraw();
    case KMeansPhase::kPlusTry:
      return FinishTry();
    case KMeansPhase::kPotential:
      return FinishPotential();
    case KMeansPhase::kSample:
      return FinishSample();
    default:
      return FinishWeigh();
  }
}

void KMeansJob::AddSeed(absl::Span<const float> row) {
  state_.seeds.insert(state_.seeds.end(), row.begin(), row.end());
}

// By (slot, key, id); only the first `count` of the whole (kPick) or of each
// slot (kDraw) are of use.
void KMeansJob::SortPicks() {
  const size_t d = static_cast<size_t>(state_.options.dimension);
  std::vector<size_t> order(merged_.picks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    const KMeansPick& x = merged_.picks[a];
    const KMeansPick& y = merged_.picks[b];
    if (x.slot != y.slot) return x.slot < y.slot;
    return x.key != y.key ? x.key < y.key : x.id < y.id;
  });
  KMeansPartial sorted;
  for (size_t i : order) {
    sorted.picks.push_back(merged_.picks[i]);
    const auto row = merged_.pick_rows.begin() + static_cast<int64_t>(i * d);
    sorted.pick_rows.insert(sorted.pick_rows.end(), row,
                            row + static_cast<int64_t>(d));
  }
  merged_.picks = std::move(sorted.picks);
  merged_.pick_rows = std::move(sorted.pick_rows);
}

void KMeansJob::FinishPick() {
  SortPicks();
  const size_t values = std::min(
      merged_.pick_rows.size(),
      static_cast<size_t>(state_.options.k * state_.options.dimension));
  state_.seeds.assign(merged_.pick_rows.begin(),
                      merged_.pick_rows.begin() + static_cast<int64_t>(values));
  SeedsAreCentres();
}

void KMeansJob::FinishDraw() {
  SortPicks();
  const size_t d = static_cast<size_t>(state_.options.dimension);
  state_.candidates.clear();
  std::vector<PointId> ids;
  int32_t slot = -1;
  for (size_t i = 0; i < merged_.picks.size(); ++i) {
    const KMeansPick& pick = merged_.picks[i];
    if (pick.slot == slot) continue;
    slot = pick.slot;
    if (std::count(ids.begin(), ids.end(), pick.id) > 0) continue;
    ids.push_back(pick.id);
    const auto row = merged_.pick_rows.begin() + static_cast<int64_t>(i * d);
    state_.candidates.insert(state_.candidates.end(), row,
                             row + static_cast<int64_t>(d));
  }
  if (ids.empty()) return SeedsAreCentres();  // all rows are seeds by now
  if (ids.size() > 1) {
    state_.phase = KMeansPhase::kPlusTry;
    return;
  }
  merged_.potentials = {0};
  FinishTry();
}

void KMeansJob::FinishTry() {
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const size_t best = static_cast<size_t>(
      std::min_element(merged_.potentials.begin(), merged_.potentials.end()) -
      merged_.potentials.begin());
  AddSeed(absl::MakeConstSpan(state_.candidates).subspan(best * d, d));
  state_.candidates.clear();
  ++state_.round;
  const bool first = state_.seeds.size() == d;
  if (first && state_.options.seeding == KMeansSeeding::kParallel) {
    state_.round = 0;
    state_.phase = KMeansPhase::kPotential;
    return;
  }
  if (static_cast<int64_t>(state_.seeds.size()) ==
      state_.options.k * state_.options.dimension) {
    return SeedsAreCentres();
  }
  state_.phase = KMeansPhase::kPlusDraw;
}

void KMeansJob::FinishPotential() {
  state_.potential = merged_.potentials[0];
  const bool enough =
      state_.potential == 0 || state_.round >= state_.options.rounds;
  state_.phase = enough ? KMeansPhase::kWeigh : KMeansPhase::kSample;
}

void KMeansJob::FinishSample() {
  for (KMeansPick& pick : merged_.picks) pick.key = 0;  // by id
  SortPicks();
  AddSeed(merged_.pick_rows);
  ++state_.round;
  state_.phase = KMeansPhase::kPotential;
}

void KMeansJob::FinishWeigh() {
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const int64_t k = state_.options.k;
  // A row that no row is nearest to equals one before it.
  std::vector<float> rows;
  std::vector<int64_t> weights;
  for (size_t i = 0; i < merged_.weights.size(); ++i) {
    if (merged_.weights[i] <= 0) continue;
    weights.push_back(merged_.weights[i]);
    const auto row = state_.seeds.begin() + static_cast<int64_t>(i * d);
    rows.insert(rows.end(), row, row + static_cast<int64_t>(d));
  }
  state_.seeds = std::move(rows);
  seeds_known_ = 0;
  if (static_cast<int64_t>(weights.size()) > k) return Recluster(weights);
  if (static_cast<int64_t>(weights.size()) == k || state_.potential == 0) {
    return SeedsAreCentres();
  }
  ++state_.round;
  state_.phase = KMeansPhase::kPlusDraw;  // one by one, up to k
}

void KMeansJob::Recluster(const std::vector<int64_t>& weights) {
  const int64_t d = state_.options.dimension;
  std::vector<PointId> ids(weights.size());
  std::iota(ids.begin(), ids.end(), PointId{0});
  std::vector<double> natural;
  for (int64_t w : weights) {
    natural.push_back(FromFixed64(w, state_.scale.weight_exponent));
  }
  const std::vector<float> rows = state_.seeds;
  const KMeansBlock block = {
      .rows = {rows.data(), static_cast<int64_t>(weights.size()), d, d},
      .ids = ids.data(),
      .weights = natural.data()};
  KMeansOptions options;
  options.metric = state_.options.metric;
  options.dimension = d;
  options.k = state_.options.k;
  options.seed = RunSeed();
  options.seeding = KMeansSeeding::kPlusPlus;
  options.max_iterations = kReclusterIterations;
  absl::StatusOr<KMeansRows> local =
      KMeansRows::Create(options.metric, d, {block});
  if (!local.ok()) return Fail(local.status());
  KMeansShard shard(*std::move(local));
  const absl::StatusOr<KMeansResult> result =
      RunKMeans(options, {&shard}, KMeansWorkers());
  if (!result.ok()) return Fail(result.status());
  state_.seeds = result->centres;
  SeedsAreCentres();
}

// Fewer seeds than k leave inactive centres, copies of the first.
void KMeansJob::SeedsAreCentres() {
  const size_t d = static_cast<size_t>(state_.options.dimension);
  const size_t k = static_cast<size_t>(state_.options.k);
  const size_t seeds = state_.seeds.size() / d;
  state_.centres = KMeansCentres();
  state_.centres.rows = std::move(state_.seeds);
  state_.centres.active.assign(seeds, 1);
  state_.centres.active.resize(k, 0);
  for (size_t j = seeds; j < k; ++j) {
    for (size_t i = 0; i < d; ++i) {
      state_.centres.rows.push_back(state_.centres.rows[i]);
    }
  }
  state_.seeds.clear();
  state_.candidates.clear();
  seeds_known_ = 0;
  state_.iteration = 1;
  state_.phase = KMeansPhase::kAssign;
  if (state_.options.batch_rows > 0) StartBatches();
}

}  // namespace coterie
