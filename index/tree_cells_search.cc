#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"
#include "index/certified_query.h"
#include "index/certified_threshold.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/handed_over.h"
#include "index/metric.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"
#include "index/tree_cell_bound.h"
#include "index/tree_cells.h"
#include "index/tree_dispatch.h"
#include "index/tree_lanes.h"
#include "index/tree_live.h"
#include "index/tree_types.h"
#include "index/tree_unit.h"
#include "index/vectors.h"

namespace coterie {

using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::FineKernel;
using internal_certified::QueryThreshold;
using internal_tree::CellBound;
using internal_tree::CountLive;
using internal_tree::kLanes;
using internal_tree::kMaxBlocks;
using internal_tree::LaneKernels;
using internal_tree::LiveBits;

namespace {

constexpr int64_t kStopBytes = 256 << 10;
constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;
constexpr int64_t kBlockRows = CertifiedCodes::kBlockRows;
constexpr int64_t kPanelRows = CertifiedCodes::kPanelRows;
constexpr int64_t kChunkGroups = kPanelRows / kGroupRows;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kInfinityF = std::numeric_limits<float>::infinity();

// Bounds are looked at after one live row in kLookRows and some leaves; if they
// leave more than kScanShare, reading in order is faster.
constexpr int64_t kLookRows = 100;
constexpr int64_t kLookLeaves = 4;
constexpr double kScanShare = 0.4;

int64_t RoundUpTo(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// What holds for every row of [begin, end). REQUIRES: begin < end.
CertifiedPanel PanelOver(const CertifiedCodes& codes, int64_t begin,
                         int64_t end) {
  CertifiedPanel all = codes.panel(begin / kPanelRows);
  for (int64_t p = begin / kPanelRows + 1; p <= (end - 1) / kPanelRows; ++p) {
    const CertifiedPanel& panel = codes.panel(p);
    all.code_error = std::max(all.code_error, panel.code_error);
    all.code_norm = std::max(all.code_norm, panel.code_norm);
    all.error = std::max(all.error, panel.error);
    all.a = std::max(all.a, panel.a);
  }
  return all;
}

}  // namespace

// One query after the other, with memory that they share.
class CellSearch {
 public:
  CellSearch(const ScanQueries& queries, absl::Span<const CellSegment> segments,
             const TreeLimits& limits, absl::FunctionRef<bool()> stop)
      : queries_(queries),
        segments_(segments),
        limits_(limits),
        stop_(stop),
        kernels_(internal_tree::ActiveLaneKernels()),
        fine_(internal_certified::FineKernelFor(ActiveCodeKernel())),
        hits_(static_cast<size_t>(kPanelRows)) {
    int64_t cells = 0;
    for (const CellSegment& s : segments) {
      coded_.push_back(std::make_unique<CertifiedQueries>(
          queries, *s.codes, ActiveCodeKernel(),
          CertifiedQueries::Depth::kFine));
      first_cell_.push_back(cells);
      cells += RoundUpTo(s.tree->cells(), kLanes);
      live_.push_back(CountLive(s.rows.live, 0, s.tree->n_));
      live_rows_ += live_.back();
    }
    first_cell_.push_back(cells);
    values_.resize(static_cast<size_t>(cells));
    working_.resize(static_cast<size_t>(queries.dimension()));
  }

  bool AskStop(int64_t bytes) {
    unasked_bytes_ += bytes;
    if (unasked_bytes_ < kStopBytes) return false;
    unasked_bytes_ = 0;
    return stop_();
  }

  enum class Outcome { kDone, kStopped, kScan };

  // kScan: nothing was offered; a scan with `*seed` should answer the query.
  Outcome Run(int64_t query, TopK& top, TreeAccount& account, double* seed) {
    TopK mine(top.k(), top.Threshold());
    if (!Start(query, mine)) return Outcome::kStopped;
    bool looked = part_;
    int64_t leaves = 0;
    int64_t rows = 0;
    while (!heap_.empty() && leaves < limits_.max_leaves) {
      const Cell cell = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      const int64_t live = LiveRowsOf(cell);
      if (live == 0) continue;
      if (part_ && !Spend(cell, live)) {
        if (open_segments_ == 0) break;
        continue;
      }
      if (RuledOut(cell, epsilon_factor_)) continue;
      if (!Read(cell)) return Outcome::kStopped;
      values_[static_cast<size_t>(cell.at)] = kTaken;
      ++leaves;
      rows += live;
      if (!looked && leaves >= kLookLeaves && rows * kLookRows >= live_rows_) {
        looked = true;
        if (!Tighten()) return Outcome::kStopped;
        if (static_cast<double>(KeepWanted()) >
                kScanShare * static_cast<double>(live_rows_) &&
            !LimitedLeaves()) {
          *seed = threshold_;
          return Outcome::kScan;
        }
      }
    }
    if (!Finish(mine, top, account)) return Outcome::kStopped;
    account.leaves += leaves;
    return Outcome::kDone;
  }

 private:
  struct Cell {
    double promised = 0;
    int32_t segment = 0;
    int32_t number = 0;
    int64_t at = 0;  // in values_

    friend bool operator>(const Cell& a, const Cell& b) {
      return a.promised != b.promised ? a.promised > b.promised : a.at > b.at;
    }
  };

  // In values_: this cell was read.
  static constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();

  bool LimitedLeaves() const {
    return limits_.max_leaves != std::numeric_limits<int64_t>::max();
  }

  const CellTree& TreeOf(const Cell& cell) const {
    return *segments_[static_cast<size_t>(cell.segment)].tree;
  }

  int64_t LiveRowsOf(const Cell& cell) const {
    const int64_t* begin = TreeOf(cell).begins_.data() + cell.number;
    const CellSegment& segment = segments_[static_cast<size_t>(cell.segment)];
    return CountLive(segment.rows.live, begin[0], begin[1]);
  }

  bool RuledOut(const Cell& cell, double factor) const {
    const double proven = bounds_[static_cast<size_t>(cell.segment)].Proven(
        values_[static_cast<size_t>(cell.at)],
        TreeOf(cell).radii_[static_cast<size_t>(cell.number)]);
    return (proven > 0 ? proven * factor : proven) > threshold_;
  }

  // Whether to read a part, and how much of it. Among fewer live rows the k-th
  // lies as far as one of a larger k among all; where they lie, they are spent.
  void SetBudgets(int64_t k) {
    part_ = limits_.target_recall < 1;
    budgets_.clear();
    double total = 0;
    for (size_t s = 0; s < segments_.size(); ++s) {
      const double n = static_cast<double>(segments_[s].tree->n_);
      const double spread =
          n / static_cast<double>(std::max<int64_t>(1, live_[s]));
      budgets_.push_back(
          static_cast<double>(live_[s]) *
          segments_[s].tree->Budget(static_cast<double>(k) * spread,
                                    limits_.target_recall));
      total += budgets_.back();
    }
    // A scan reads faster and misses nothing.
    if (total > kScanShare * static_cast<double>(live_rows_)) part_ = false;
    open_segments_ = std::count_if(budgets_.begin(), budgets_.end(),
                                   [](double budget) { return budget > 0; });
  }

  // Whether the budget of its segment allows the cell, and pays for it.
  bool Spend(const Cell& cell, int64_t live) {
    double& left = budgets_[static_cast<size_t>(cell.segment)];
    if (left <= 0) return false;
    left -= static_cast<double>(live);
    if (left <= 0) --open_segments_;
    return true;
  }

  // Measures the query to all means. False if stopped.
  bool Start(int64_t query, TopK& mine) {
    query_ = query;
    const VectorView q = queries_.query(query);
    const float* working = q.data();
    if (queries_.metric() == Metric::kCosine) {
      internal_tree::ToUnit(q, working_.data());
      working = working_.data();
    }
    const bool dot = queries_.metric() == Metric::kInnerProduct;
    epsilon_factor_ = dot ? 1 : 1 + limits_.epsilon;
    SetBudgets(mine.k());
    threshold_ = mine.Threshold();
    heap_.clear();
    bounds_.clear();
    thresholds_.clear();
    shared_.emplace();
    shared_->Lower(threshold_);
    for (size_t s = 0; s < segments_.size(); ++s) {
      const CellTree& tree = *segments_[s].tree;
      bounds_.emplace_back(queries_.metric(), queries_.dimension(),
                           queries_.squared_norm(query), tree.max_norm_);
      thresholds_.emplace_back(*coded_[s], query, segments_[s].rows, &*shared_,
                               mine);
      if (live_[s] == 0) continue;
      float* values = values_.data() + first_cell_[s];
      for (int64_t c = 0; c < tree.cells(); c += kMaxBlocks * kLanes) {
        const int64_t blocks =
            std::min(kMaxBlocks, (tree.cells() - c + kLanes - 1) / kLanes);
        (dot ? kernels_.values_dot : kernels_.values_l2)(
            tree.means_.data() + c * tree.d_, blocks, tree.d_, working,
            values + c);
        if (AskStop(blocks * kLanes * tree.d_ * 4)) return false;
      }
      for (int64_t c = 0; c < tree.cells(); ++c) {
        // It says nothing; and NaN is taken.
        if (!std::isfinite(values[c])) values[c] = -kInfinityF;
        heap_.push_back({bounds_.back().Promised(
                             values[c], tree.spreads_[static_cast<size_t>(c)],
                             tree.promise_),
                         static_cast<int32_t>(s), static_cast<int32_t>(c),
                         first_cell_[s] + c});
      }
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    return true;
  }

  // Lowers the threshold by what is pending. False if stopped.
  bool Tighten() {
    for (QueryThreshold& t : thresholds_) {
      if (!t.Shrink([this](int64_t bytes) { return AskStop(bytes); })) {
        return false;
      }
      threshold_ = std::min(threshold_, t.threshold());
    }
    return true;
  }

  // Drops cells that the threshold rules out by now; returns the live rows of
  // the others.
  int64_t KeepWanted() {
    int64_t rows = 0;
    const auto unwanted = [&](const Cell& cell) {
      if (RuledOut(cell, epsilon_factor_)) return true;
      rows += LiveRowsOf(cell);
      return false;
    };
    heap_.erase(std::remove_if(heap_.begin(), heap_.end(), unwanted),
                heap_.end());
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    return rows;
  }

  // Scores the codes of the cell. False if stopped.
  bool Read(const Cell& cell) {
    const size_t s = static_cast<size_t>(cell.segment);
    const int64_t* range = TreeOf(cell).begins_.data() + cell.number;
    const CertifiedCodes& codes = *segments_[s].codes;
    const int64_t padded = RoundUpTo(codes.size(), kGroupRows);
    for (int64_t begin = range[0]; begin < range[1];) {
      int64_t row = begin / kBlockRows * kBlockRows;
      const int64_t groups = std::min(
          kChunkGroups, (range[1] - row + kGroupRows - 1) / kGroupRows);
      // Nothing is readable beyond the last group of the codes.
      row = std::min(row, padded - groups * kGroupRows);
      const int64_t end = std::min(range[1], row + groups * kGroupRows);
      if (!ReadRows(s, row, groups, begin, end)) return false;
      begin = end;
    }
    return true;
  }

  // Rows [begin, end) of the groups that start at `row`.
  bool ReadRows(size_t s, int64_t row, int64_t groups, int64_t begin,
                int64_t end) {
    const CellSegment& segment = segments_[s];
    const CertifiedCodes& codes = *segment.codes;
    const CertifiedQueries& coded = *coded_[s];
    uint64_t live[kChunkGroups];
    uint64_t any = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = row + g * kGroupRows;
      const int64_t from = std::clamp(begin - first, int64_t{0}, kGroupRows);
      const int64_t to = std::clamp(end - first, from, kGroupRows);
      live[g] = from == to
                    ? 0
                    : LiveBits(segment.rows.live, first + from, to - from)
                          << from;
      any |= live[g];
    }
    if (any == 0) return true;
    const CertifiedCut cut = CutFor(codes, coded.query(query_),
                                    PanelOver(codes, begin, end), threshold_);
    const CodeTile tile = {.codes = codes.block(row),
                           .groups = groups,
                           .quads = codes.quads(),
                           .a = codes.a(row),
                           .b = codes.b(row),
                           .live = live,
                           .queries = coded.quads(query_),
                           .query_stride = coded.quad_stride(),
                           .starts = coded.starts(query_),
                           .cut_a = &cut.a,
                           .cut_b = &cut.b,
                           .cut_k = &cut.k};
    const int64_t found = fine_(tile, coded.low_bits(), hits_.data());
    QueryThreshold& threshold = thresholds_[s];
    const auto stop = [this](int64_t bytes) { return AskStop(bytes); };
    for (int64_t i = 0; i < found; ++i) {
      const CodeHit& hit = hits_[static_cast<size_t>(i)];
      threshold.Add(row + hit.row, hit.ip);
      if (threshold.full() && !threshold.Shrink(stop)) return false;
    }
    threshold_ = std::min(threshold_, threshold.threshold());
    return !AskStop(groups * kGroupRows * 4 * codes.quads());
  }

  // Re-scores what is left and gives it away. False if stopped.
  bool Finish(TopK& mine, TopK& top, TreeAccount& account) {
    int64_t evaluated = 0;
    for (QueryThreshold& t : thresholds_) {
      if (!t.Rescore([this](int64_t bytes) { return AskStop(bytes); })) {
        return false;
      }
      evaluated += t.evaluated();
    }
    threshold_ = std::min(threshold_, mine.Threshold());
    for (const Neighbor& n : mine.TakeSorted()) top.Offer(n);
    const int64_t unseen = Unseen();
    account.evaluated += evaluated;
    account.unseen += unseen;
    account.ruled_out += live_rows_ - evaluated - unseen;
    return true;
  }

  // Live rows of cells that were left out although the bound allows.
  int64_t Unseen() const {
    if (!part_ && limits_.epsilon == 0 && !LimitedLeaves()) return 0;
    int64_t unseen = 0;
    for (size_t s = 0; s < segments_.size(); ++s) {
      const CellTree& tree = *segments_[s].tree;
      for (int64_t c = 0; c < tree.cells(); ++c) {
        const Cell cell = {0, static_cast<int32_t>(s), static_cast<int32_t>(c),
                           first_cell_[s] + c};
        const float value = values_[static_cast<size_t>(cell.at)];
        if (value != value || RuledOut(cell, 1)) continue;
        const int64_t* range = tree.begins_.data() + c;
        unseen += CountLive(segments_[s].rows.live, range[0], range[1]);
      }
    }
    return unseen;
  }

  const ScanQueries& queries_;
  const absl::Span<const CellSegment> segments_;
  const TreeLimits& limits_;
  const absl::FunctionRef<bool()> stop_;
  const LaneKernels& kernels_;
  const FineKernel fine_;
  std::vector<std::unique_ptr<CertifiedQueries>> coded_;
  std::vector<int64_t> first_cell_;
  std::vector<int64_t> live_;  // of each segment
  int64_t live_rows_ = 0;
  int64_t unasked_bytes_ = 0;
  int64_t query_ = 0;
  double epsilon_factor_ = 1;
  bool part_ = false;            // only a part of the answer is wanted
  std::vector<double> budgets_;  // live rows to read, if so, of each segment
  int64_t open_segments_ = 0;    // that have some left
  double threshold_ = 0;
  std::vector<float> values_;
  std::vector<float> working_;
  std::vector<CellBound> bounds_;
  std::optional<SharedThreshold> shared_;  // of the segments
  std::vector<QueryThreshold> thresholds_;
  std::vector<Cell> heap_;
  std::vector<CodeHit> hits_;
};

namespace {

bool Scan(const ScanQueries& all, absl::Span<const CellSegment> segments,
          const HandedOver& handed, absl::Span<TopK> tops,
          absl::Span<TreeAccount> accounts, absl::FunctionRef<bool()> stop) {
  std::vector<ScannedSegment> scanned;
  for (const CellSegment& s : segments) {
    scanned.push_back({s.codes, s.first_look, s.rows, s.tree->size()});
  }
  std::vector<ScanAccount> found;
  if (!handed.Scan(all, scanned, tops, &found, stop)) return false;
  for (size_t i = 0; i < found.size(); ++i) {
    TreeAccount& account = accounts[static_cast<size_t>(handed.queries()[i])];
    account.evaluated += found[i].evaluated;
    account.ruled_out += found[i].ruled_out;
    account.scanned = true;
  }
  return true;
}

}  // namespace

bool CellTreeSearch(const ScanQueries& queries,
                    absl::Span<const CellSegment> segments,
                    const TreeLimits& limits, absl::Span<TopK> tops,
                    absl::Span<TreeAccount> accounts,
                    absl::FunctionRef<bool()> stop) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ
  CellSearch search(queries, segments, limits, stop);
  if (search.AskStop(kStopBytes)) return false;
  HandedOver handed;
  for (int64_t q = 0; q < queries.size(); ++q) {
    const size_t at = static_cast<size_t>(q);
    double seed = kInfinity;
    switch (search.Run(q, tops[at], accounts[at], &seed)) {
      case CellSearch::Outcome::kStopped:
        return false;
      case CellSearch::Outcome::kScan:
        handed.Add(q, seed);
        break;
      case CellSearch::Outcome::kDone:
        break;
    }
  }
  return handed.empty() ||
         Scan(queries, segments, handed, tops, accounts, stop);
}

}  // namespace coterie
