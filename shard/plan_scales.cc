#include "shard/plan_scales.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/faiss_search.h"
#include "index/handed_over.h"
#include "index/top_k.h"
#include "index/vectors.h"
#include "shard/machine_rates.h"

namespace coterie {
namespace {

constexpr int64_t kK = 10;
constexpr int64_t kQueries = 4;
constexpr int kRounds = 2;
// Of approximate searches: the first that is answered without a scan.
constexpr double kTargets[] = {0.9, 0.7, 0.5};
// Whatever the clock says.
constexpr double kMostScale = 64;

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

bool Never() { return false; }

class Timer {
 public:
  Timer(const TimedSegment& segment, const SearchRates& rates)
      : segment_(segment), rates_(rates) {
    const RowsView& rows = segment.rows.rows;
    live_.assign(static_cast<size_t>((rows.n + 63) / 64), ~uint64_t{0});
    for (int64_t q = 0; q < kQueries; ++q) {
      const int64_t row = RowOf(q);
      live_[static_cast<size_t>(row / 64)] &= ~(uint64_t{1} << (row % 64));
    }
    segment_.rows.live = live_.data();
    question_.dimension = rows.d;
    question_.k = kK;
    planned_.rows = rows.n;
    planned_.coded = segment.codes != nullptr;
    planned_.tree = segment.tree;
    planned_.lsh = segment.lsh;
    planned_.faiss = segment.faiss;
  }

  double Scan() {
    const double took = Time([this](const ScanQueries& query, TopK* top) {
      const int64_t n = segment_.rows.rows.n;
      std::vector<ScanAccount> accounts;
      if (segment_.codes == nullptr) {
        accounts.resize(1);
        return ExactScan(query, segment_.rows, 0, n, {top, 1},
                         absl::MakeSpan(accounts), Never);
      }
      HandedOver all;
      all.Add(0, std::numeric_limits<double>::infinity());
      const ScannedSegment scanned = {segment_.codes, segment_.first_look,
                                      segment_.rows, n};
      return all.Scan(query, {&scanned, 1}, {top, 1}, &accounts, Never);
    });
    const double scale = Scale(took, Predict(1).scan_seconds);
    return scale > 0 ? scale : 1;
  }

  double OfTree() {
    return First([this](double target) {
      const double took = Time([&](const ScanQueries& query, TopK* top) {
        const TreeSegment one = {segment_.tree, segment_.rows, segment_.codes,
                                 segment_.first_look};
        TreeLimits limits;
        limits.target_recall = target;
        TreeAccount account;
        TreeSearch(query, {&one, 1}, limits, {top, 1}, {&account, 1}, Never);
        return !account.scanned;
      });
      return Scale(took, Predict(target).tree_seconds);
    });
  }

  double OfLsh() {
    return First([this](double target) {
      const double took = Time([&](const ScanQueries& query, TopK* top) {
        const LshSegment one = {segment_.lsh, segment_.codes, segment_.rows,
                                segment_.first_look};
        LshLimits limits;
        limits.target_recall = target;
        LshAccount account;
        LshSearch(query, {&one, 1}, limits, {top, 1}, {&account, 1}, Never);
        return !account.scanned;
      });
      return Scale(took, Predict(target).lsh_seconds);
    });
  }

  double OfFaiss() {
    return First([this](double target) {
      const double took = Time([&](const ScanQueries& query, TopK* top) {
        const FaissSegment one = {segment_.faiss, segment_.codes, segment_.rows,
                                  segment_.first_look};
        FaissLimits limits;
        limits.target_recall = target;
        FaissAccount account;
        return FaissSearch(query, {&one, 1}, limits, {top, 1}, {&account, 1},
                           Never)
                   .ok() &&
               !account.scanned;
      });
      return Scale(took, Predict(target).faiss_seconds);
    });
  }

 private:
  using Search = absl::FunctionRef<bool(const ScanQueries&, TopK*)>;

  Plan Predict(double target) {
    question_.target_recall = target;
    return ChoosePlan(question_, {&planned_, 1}, rates_);
  }

  // Spread over the segment.
  int64_t RowOf(int64_t query) const {
    return (2 * query + 1) * segment_.rows.rows.n / (2 * kQueries);
  }

  // Seconds a query; infinite if the search says false of more than one.
  double Time(Search search) const {
    const RowsView& rows = segment_.rows.rows;
    double seconds = 0;
    int refused = 0;
    for (int64_t q = 0; q < kQueries; ++q) {
      const VectorView row = rows.row(RowOf(q));
      const ScanQueries query(segment_.metric, {row.data(), 1, rows.d, rows.d});
      double least = std::numeric_limits<double>::infinity();
      bool served = true;
      for (int round = 0; round < kRounds; ++round) {
        TopK top(kK);
        const double start = ThreadSeconds();
        served = search(query, &top) && served;
        least = std::min(least, ThreadSeconds() - start);
      }
      if (!served) ++refused;
      seconds += least / kQueries;
    }
    return refused > 1 ? std::numeric_limits<double>::infinity() : seconds;
  }

  static double Scale(double took, double predicted) {
    const double scale = took / predicted;
    if (!std::isfinite(scale)) return 0;
    return std::clamp(scale, 1 / kMostScale, kMostScale);
  }

  // At the first target where there is one.
  static double First(absl::FunctionRef<double(double)> scale_at) {
    for (const double target : kTargets) {
      const double scale = scale_at(target);
      if (scale > 0) return scale;
    }
    return 1;
  }

  // A row is not to find itself: queries are dead meanwhile.
  std::vector<uint64_t> live_;
  TimedSegment segment_;
  const SearchRates& rates_;
  PlanQuestion question_;
  PlanSegment planned_;
};

}  // namespace

PlanScales MeasureScales(const TimedSegment& segment,
                         const SearchRates& rates) {
  PlanScales scales;
  if (segment.rows.rows.n == 0) return scales;
  Timer timer(segment, rates);
  scales.scan = timer.Scan();
  if (segment.tree != nullptr) scales.tree = timer.OfTree();
  if (segment.lsh != nullptr) scales.lsh = timer.OfLsh();
  if (segment.faiss != nullptr) scales.faiss = timer.OfFaiss();
  return scales;
}

PlanScales MeasureScales(const Segment& segment, const SegmentIndex& index) {
  TimedSegment timed;
  timed.metric = index.metric();
  timed.rows = {segment.rows(segment.size()), segment.ids(),
                segment.squared_norms(), nullptr};
  timed.codes = index.codes(segment.codes());
  timed.first_look = segment.first_look();
  timed.tree = index.tree();
  timed.lsh = index.lsh();
  timed.faiss = index.faiss();
  return MeasureScales(timed, MachineRates());
}

}  // namespace coterie
