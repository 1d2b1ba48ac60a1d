// LshIndex::Train and what it knows afterwards.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/lsh.h"
#include "index/lsh_searcher.h"
#include "index/top_k.h"

namespace coterie {
namespace {

using internal_lsh::LshSearcher;
using internal_lsh::LshStep;

constexpr int64_t kMostQueries = 256;
constexpr int64_t kTaskQueries = 32;
constexpr size_t kKs = std::size(LshIndex::kTrainedK);
constexpr double kErrors = 1.65;
// Neighbours of a query whose sketches are looked at, and how many of them the
// cut is to keep.
constexpr size_t kSketched = 10;
constexpr double kKeptBySketch = 0.98;

// Rules to be tried: when what was met should be enough, and how much to meet
// at most.
constexpr double kTargets[] = {0.1, 0.2,  0.3, 0.4,  0.5,  0.6,  0.7,   0.75,
                               0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999};
constexpr double kMost[] = {0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02,
                            0.03,   0.04,  0.06,   0.08, 1};

bool Never() { return false; }

}  // namespace

// Follows queries as far as the most patient rule would go.
class LshIndex::Trainer {
 public:
  Trainer(const LshIndex& index, const ScanRows& rows,
          const CertifiedCodes& codes)
      : index_(index),
        codes_(codes),
        rows_(rows),
        held_(std::min(kMostQueries, index.n_ / 16)),
        ids_(static_cast<size_t>(index.n_)),
        live_((ids_.size() + 63) / 64, ~uint64_t{0}),
        farthest_(static_cast<size_t>(held_) * kKs),
        differing_(static_cast<size_t>(held_) * kSketched),
        traces_(farthest_.size()) {
    std::iota(ids_.begin(), ids_.end(), PointId{0});
    for (int64_t i = 0; i < held_; ++i) {
      const int64_t row = Row(i);
      live_[static_cast<size_t>(row / 64)] &= ~(uint64_t{1} << (row % 64));
    }
    rows_.ids = ids_.data();
    rows_.live = live_.data();
  }

  // What sketch_cut_ should be.
  float SketchCut() const {
    if (differing_.empty()) return 1;
    std::vector<float> sorted = differing_;
    std::sort(sorted.begin(), sorted.end());
    const auto at =
        static_cast<size_t>(kKeptBySketch * static_cast<double>(sorted.size()));
    return std::min(1.0F, sorted[std::min(at, sorted.size() - 1)]);
  }

  int64_t tasks() const { return (held_ + kTaskQueries - 1) / kTaskQueries; }

  // The nearest of the queries of one task.
  void Look(int64_t task) {
    const Batch batch(*this, task);
    std::vector<TopK> tops(static_cast<size_t>(batch.queries.size()),
                           TopK(kTrainedK[kKs - 1]));
    std::vector<ScanAccount> accounts(tops.size());
    CertifiedScan(CertifiedQueries(batch.queries, codes_), rows_, 0, index_.n_,
                  absl::MakeSpan(tops), absl::MakeSpan(accounts), Never);
    Searching searching(*this, batch);
    for (int64_t i = 0; i < batch.queries.size(); ++i) {
      const std::vector<Neighbor> nearest =
          tops[static_cast<size_t>(i)].TakeSorted();
      const auto at = static_cast<size_t>(batch.first + i);
      for (size_t k = 0; k < kKs; ++k) {
        farthest_[at * kKs + k] =
            nearest[static_cast<size_t>(kTrainedK[k] - 1)].distance;
      }
      for (size_t j = 0; j < kSketched; ++j) {
        differing_[at * kSketched + j] = static_cast<float>(
            searching.searcher.Differing(i, static_cast<int64_t>(nearest[j].id),
                                         nearest[kSketched - 1].distance));
      }
    }
  }

  // Their searches, with the cut that the index has now.
  void Follow(int64_t task) {
    const Batch batch(*this, task);
    Searching searching(*this, batch);
    for (int64_t i = 0; i < batch.queries.size(); ++i) {
      const size_t at = static_cast<size_t>(batch.first + i) * kKs;
      for (size_t k = 0; k < kKs; ++k) {
        traces_[at + k] = searching.searcher.Trace(
            i, kTrainedK[k], farthest_[at + k], index_.n_ / kRowsPerCandidate);
      }
    }
  }

  std::vector<Trained> Learned() const {
    std::vector<Trained> learned;
    for (const double most : kMost) {
      for (const double target : kTargets) {
        Trained& one = learned.emplace_back();
        one.target = static_cast<float>(target);
        one.most = static_cast<float>(most);
        for (size_t k = 0; k < kKs; ++k) Judge(k, &one);
      }
    }
    return learned;
  }

 private:
  struct Batch {
    Batch(const Trainer& trainer, int64_t task)
        : first(task * kTaskQueries),
          data(trainer.DataOf(first)),
          queries(trainer.index_.metric_,
                  {data.data(),
                   static_cast<int64_t>(data.size()) / trainer.index_.d_,
                   trainer.index_.d_, trainer.index_.d_}) {}
    int64_t first;
    std::vector<float> data;
    ScanQueries queries;
  };
  struct Searching {
    Searching(const Trainer& trainer, const Batch& batch)
        : segment{&trainer.index_, &trainer.codes_, trainer.rows_},
          searcher(batch.queries, segment, limits, Never, unasked) {}
    LshSegment segment;
    LshLimits limits;
    int64_t unasked = 0;
    LshSearcher searcher;
  };
  struct End {
    double found = 1;
    double cost = 0;  // in scans
  };

  std::vector<float> DataOf(int64_t first) const {
    std::vector<float> data;
    for (int64_t i = first; i < std::min(first + kTaskQueries, held_); ++i) {
      const VectorView row = rows_.rows.row(Row(i));
      data.insert(data.end(), row.begin(), row.end());
    }
    return data;
  }

  // Spread over the data.
  int64_t Row(int64_t i) const { return (2 * i + 1) * index_.n_ / (2 * held_); }

  void Judge(size_t k, Trained* one) const {
    LshRule rule = {one->target, index_.n_};
    rule.most = std::max<int64_t>(
        1, static_cast<int64_t>(one->most * static_cast<float>(index_.n_)));
    double found = 0;
    double squares = 0;
    double cost = 0;
    for (size_t q = 0; q < static_cast<size_t>(held_); ++q) {
      const End end = EndOf(traces_[q * kKs + k], kTrainedK[k], rule);
      found += end.found;
      squares += end.found * end.found;
      cost += end.cost;
    }
    const auto n = static_cast<double>(held_);
    // As if one half-found query more had been asked: none is never sure.
    const double mean = (found + 0.5) / (n + 1);
    const double variance =
        std::max(0.0, (squares + 0.25) / (n + 1) - mean * mean);
    one->found[k] = static_cast<float>(
        std::max(0.0, found / n - kErrors * std::sqrt(variance / n)));
    one->cost[k] = static_cast<float>(cost / n);
  }

  // Where a search by this rule would have ended.
  End EndOf(const std::vector<LshStep>& trace, int64_t k,
            const LshRule& rule) const {
    const auto cost = [this](const LshStep& step) {
      return static_cast<double>(step.met * kRowsPerCandidate) /
             static_cast<double>(index_.n_);
    };
    for (const LshStep& step : trace) {
      if (!step.looked &&
          (step.missed <= 1 - rule.target || step.met >= rule.most)) {
        return {std::min(1.0, static_cast<double>(step.hits) /
                                  static_cast<double>(k)),
                cost(step)};
      }
      if (step.looked && !LshSearcher::Worthwhile(index_, step, rule)) {
        return {1, 1 + cost(step)};
      }
    }
    return {1, 1 + (trace.empty() ? 0 : cost(trace.back()))};
  }

  const LshIndex& index_;
  const CertifiedCodes& codes_;
  ScanRows rows_;  // with numbers for ids, the others alive
  const int64_t held_;
  std::vector<PointId> ids_;
  std::vector<uint64_t> live_;
  std::vector<double> farthest_;  // by query and k
  std::vector<float> differing_;  // of the nearest kSketched of each query
  std::vector<std::vector<LshStep>> traces_;  // by query and k
};

void LshIndex::Train(const ScanRows& rows, const CertifiedCodes& codes,
                     RunTasks run_tasks) {
  trained_.clear();
  if (n_ < kLeastTrained) return;
  Trainer trainer(*this, rows, codes);
  sketch_cut_ = 1;
  run_tasks(trainer.tasks(), [&](int64_t task) { trainer.Look(task); });
  sketch_cut_ = trainer.SketchCut();
  run_tasks(trainer.tasks(), [&](int64_t task) { trainer.Follow(task); });
  trained_ = trainer.Learned();
}

const LshIndex::Trained* LshIndex::Best(double k, double share,
                                        double* cost) const {
  *cost = 1 + 1.0 / 16;  // a scan, and the look before it
  size_t at = 0;
  while (at < kKs && static_cast<double>(kTrainedK[at]) < k) ++at;
  if (at == kKs || share >= 1) return nullptr;
  // Between two trained k, what both reach.
  const size_t below =
      at > 0 && k < static_cast<double>(kTrainedK[at]) ? at - 1 : at;
  const Trained* best = nullptr;
  for (const Trained& one : trained_) {
    if (one.found[at] < share || one.found[below] < share) continue;
    if (best != nullptr && one.cost[at] >= best->cost[at]) continue;
    best = &one;
    *cost = static_cast<double>(one.cost[at]);
  }
  return best;
}

LshRule LshIndex::RuleFor(double k, double share) const {
  double cost = 0;
  const Trained* const best = Best(k, share, &cost);
  if (best == nullptr) return {share};
  if (cost >= 1) return {1};
  LshRule rule = {best->target};
  rule.most = std::max<int64_t>(
      1, static_cast<int64_t>(best->most * static_cast<float>(n_)));
  return rule;
}

double LshIndex::CostFor(double k, double share) const {
  double cost = 0;
  Best(k, share, &cost);
  return std::min(cost, 1 + 1.0 / 16);
}

}  // namespace coterie
