#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/numeric/bits.h"
#include "absl/types/span.h"
#include "index/certified_rounding.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/exact_scan_bound.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_boxes.h"
#include "index/tree_dispatch.h"
#include "index/tree_lanes.h"
#include "index/tree_live.h"
#include "index/tree_types.h"
#include "index/tree_unit.h"
#include "index/vectors.h"

namespace coterie {

using internal_tree::ActiveLaneKernels;
using internal_tree::CountLive;
using internal_tree::kLanes;
using internal_tree::LaneKernels;
using internal_tree::LiveBits;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kStopBytes = 256 << 10;
constexpr int64_t kFanOut = BoxTree::kFanOut;
constexpr int64_t kLeafRows = BoxTree::kLeafRows;
constexpr size_t kFramesAtFirst = 32;

// The least of 16 keys; there is no NaN among them.
float Least(const float* keys) {
  const __m128 a = _mm_min_ps(_mm_load_ps(keys), _mm_load_ps(keys + 4));
  const __m128 b = _mm_min_ps(_mm_load_ps(keys + 8), _mm_load_ps(keys + 12));
  const __m128 c = _mm_min_ps(a, b);
  const __m128 d = _mm_min_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_min_ss(d, _mm_shuffle_ps(d, d, 1)));
}

// Where `key` stands among 16 keys. REQUIRES: it does.
int IndexOf(const float* keys, float key) {
  const __m128 k = _mm_set1_ps(key);
  uint32_t equal = 0;
  for (int i = 0; i < 4; ++i) {
    equal |= static_cast<uint32_t>(
                 _mm_movemask_ps(_mm_cmpeq_ps(_mm_load_ps(keys + 4 * i), k)))
             << (4 * i);
  }
  return absl::countr_zero(equal);
}

}  // namespace

namespace internal_tree {

float BoxCut(Metric metric, int64_t d, double q_squared_norm, float max_norm,
             double threshold) {
  if (!(threshold < std::numeric_limits<double>::infinity())) return kInfinity;
  if (metric == Metric::kSquaredL2) {
    return internal_scan::CutOffFor(metric, 8 * d, 0, threshold).a;
  }
  if (metric == Metric::kCosine) {
    const double s =
        std::sqrt(std::max(0.0, 2 * (threshold + 0x1p-40))) + 0x1p-22;
    return internal_scan::CutOffFor(Metric::kSquaredL2, 8 * d, 0, s * s).a;
  }
  const double norm = std::max(static_cast<double>(max_norm), 0x1p-100);
  if (!(std::sqrt(q_squared_norm) * norm <= 0x1p126) || norm > 0x1p120) {
    return kInfinity;
  }
  const internal_scan::CutOff cut =
      internal_scan::CutOffFor(metric, 8 * d, q_squared_norm, threshold);
  // What is kept has -V >= a + b |x|.
  const double least = static_cast<double>(cut.a) + cut.b * norm;
  return -RoundDown(least - 0x1p-40 * std::fabs(least));
}

}  // namespace internal_tree

// One query after the other, with memory that they share.
class BoxSearch {
 public:
  BoxSearch(const ScanQueries& queries, absl::Span<const BoxSegment> segments,
            const TreeLimits& limits, absl::FunctionRef<bool()> stop)
      : queries_(queries),
        segments_(segments),
        limits_(limits),
        stop_(stop),
        kernels_(ActiveLaneKernels()),
        dot_(queries.metric() == Metric::kInnerProduct),
        unit_(static_cast<size_t>(queries.dimension())) {
    // As deep as most searches go: a lone query of few dimensions takes no
    // longer than a few allocations.
    frames_.reserve(kFramesAtFirst);
    heap_.reserve(kFramesAtFirst);
    for (const BoxSegment& s : segments) {
      live_rows_ += CountLive(s.rows.live, 0, s.tree->size());
      max_norm_ = std::max(max_norm_, s.tree->max_norm_);
    }
  }

  bool AskStop(int64_t bytes) {
    unasked_bytes_ += bytes;
    if (unasked_bytes_ < kStopBytes) return false;
    unasked_bytes_ = 0;
    return stop_();
  }

  bool Run(int64_t query, TopK& top, TreeAccount& account) {
    Start(query, top);
    int64_t evaluated = 0;
    int64_t leaves = 0;
    while (!heap_.empty() && leaves < limits_.max_leaves) {
      const auto [key, at] = heap_.front();
      if (key > cut_) break;
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      Frame& frame = frames_[static_cast<size_t>(at)];
      const int c = IndexOf(frame.keys, key);
      frame.keys[c] = kInfinity;
      const float next = Least(frame.keys);
      Push(next, at);
      if (next <= cut_) Prefetch(frame, IndexOf(frame.keys, next));
      const BoxSegment& segment = segments_[static_cast<size_t>(frame.segment)];
      const int32_t child =
          segment.tree
              ->children_[static_cast<size_t>(frame.group * kFanOut + c)];
      if (child > 0) {
        Enter(frame.segment, child);
      } else {
        evaluated += ReadLeaf(segment, -1 - child, top);
        ++leaves;
      }
      if (AskStop((kLeafRows + 2 * kFanOut) * queries_.dimension() * 4)) {
        return false;
      }
    }
    const int64_t unseen = Unseen(top);
    account.evaluated += evaluated;
    account.leaves += leaves;
    account.unseen += unseen;
    account.ruled_out += live_rows_ - evaluated - unseen;
    return true;
  }

 private:
  // A group that was entered: the values of its children, infinity for those
  // that were taken from it.
  struct Frame {
    alignas(64) float keys[kFanOut];
    int32_t group = 0;
    int32_t segment = 0;
  };

  void Start(int64_t query, const TopK& top) {
    query_ = query;
    const VectorView q = queries_.query(query);
    q_ = q.data();
    if (queries_.metric() == Metric::kCosine) {
      internal_tree::ToUnit(q, unit_.data());
      q_ = unit_.data();
    }
    heap_.clear();
    frames_.clear();
    threshold_ = std::numeric_limits<double>::quiet_NaN();
    RefreshCut(top);
    for (size_t s = 0; s < segments_.size(); ++s) {
      if (segments_[s].tree->groups() > 0) Enter(static_cast<int32_t>(s), 0);
    }
  }

  float CutOf(double threshold) const {
    return internal_tree::BoxCut(queries_.metric(), queries_.dimension(),
                                 queries_.squared_norm(query_), max_norm_,
                                 threshold);
  }

  void RefreshCut(const TopK& top) {
    const double threshold = top.Threshold();
    if (threshold == threshold_) return;
    threshold_ = threshold;
    row_cut_ = CutOf(threshold);
    const bool relative = limits_.epsilon > 0 && !dot_ && threshold > 0;
    cut_ = relative ? CutOf(threshold / (1 + limits_.epsilon)) : row_cut_;
  }

  void Push(float key, int32_t frame) {
    if (key == kInfinity || key > cut_) return;
    heap_.emplace_back(key, frame);
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // Asks memory for the leaf that is likely the next one or the one after.
  void Prefetch(const Frame& frame, int c) const {
    const BoxTree& tree = *segments_[static_cast<size_t>(frame.segment)].tree;
    const int32_t child =
        tree.children_[static_cast<size_t>(frame.group * kFanOut + c)];
    // Few coordinates: too few leaves are read for it to pay.
    if (child >= 0 || tree.d_ < 4) return;
    const int64_t size = kLeafRows * tree.d_;
    const float* leaf = tree.lanes_.data() + (-1 - child) * size;
    for (int64_t i = 0; i < size; i += kLanes) __builtin_prefetch(leaf + i);
  }

  void Enter(int32_t segment, int32_t group) {
    const BoxTree& tree = *segments_[static_cast<size_t>(segment)].tree;
    const int32_t at = static_cast<int32_t>(frames_.size());
    Frame& frame = frames_.emplace_back();
    frame.group = group;
    frame.segment = segment;
    (dot_ ? kernels_.box_dot : kernels_.box_l2)(
        tree.boxes_.data() + int64_t{group} * 2 * tree.d_ * kFanOut, tree.d_,
        q_, frame.keys);
    const int32_t* children = tree.children_.data() + group * kFanOut;
    for (int64_t c = kFanOut - 1; c >= 0 && children[c] == 0; --c) {
      frame.keys[c] = kInfinity;
    }
    Push(Least(frame.keys), at);
  }

  // Without a threshold every row would be evaluated. But rows of the k least
  // values V have distances D <= (V + H) / (1 - g), g for d + 3 roundings: so
  // many within the greatest of these are a threshold. For SQUARED_L2.
  float FirstCut(const float* lanes, int64_t blocks, uint64_t live,
                 int64_t k) const {
    if (absl::popcount(live) < k) return kInfinity;
    alignas(64) float values[kLeafRows];
    kernels_.values_l2(lanes, blocks, queries_.dimension(), q_, values);
    float least[kLeafRows];
    int64_t count = 0;
    for (; live != 0; live &= live - 1) {
      least[count++] = values[absl::countr_zero(live)];
    }
    std::nth_element(least, least + k - 1, least + count);
    const double gamma =
        static_cast<double>(queries_.dimension() + 4) * 0x1p-24;
    const double value = static_cast<double>(least[k - 1]) + 0x1p-140;
    return CutOf(value / (1 - gamma) * (1 + 0x1p-40));
  }

  // Returns how many rows were evaluated.
  int64_t ReadLeaf(const BoxSegment& segment, int64_t leaf, TopK& top) {
    const BoxTree& tree = *segment.tree;
    const ScanRows& rows = segment.rows;
    const int64_t first = leaf * kLeafRows;
    const int64_t count = std::min(kLeafRows, tree.n_ - first);
    const uint64_t live = LiveBits(rows.live, first, count);
    if (live == 0) return 0;
    const float* data = rows.rows.data + first * rows.rows.stride;
    __builtin_prefetch(rows.ids + first);
    __builtin_prefetch(data);
    __builtin_prefetch(data + 16);
    const float* lanes = tree.lanes_.data() + first * tree.d_;
    const int64_t blocks = (count + kLanes - 1) / kLanes;
    float cut = row_cut_;
    if (cut == kInfinity && queries_.metric() == Metric::kSquaredL2) {
      cut = FirstCut(lanes, blocks, live, top.k());
    }
    uint64_t keep = (dot_ ? kernels_.keep_dot : kernels_.keep_l2)(
        lanes, blocks, tree.d_, q_, cut);
    keep &= live;
    const bool with_norms = queries_.metric() != Metric::kSquaredL2;
    const VectorView q = queries_.query(query_);
    const int64_t evaluated = absl::popcount(keep);
    for (; keep != 0; keep &= keep - 1) {
      const int64_t row = first + absl::countr_zero(keep);
      top.Offer({rows.ids[row],
                 CanonicalDistance(queries_.metric(), q, rows.rows.row(row),
                                   queries_.squared_norm(query_),
                                   with_norms ? rows.squared_norms[row] : 0)});
    }
    RefreshCut(top);
    return evaluated;
  }

  // Live rows under children that were not entered although the bound allows.
  int64_t Unseen(const TopK& top) const {
    if (limits_.epsilon == 0 &&
        limits_.max_leaves == std::numeric_limits<int64_t>::max()) {
      return 0;
    }
    const float cut = CutOf(top.Threshold());
    int64_t unseen = 0;
    for (const Frame& frame : frames_) {
      const BoxSegment& segment = segments_[static_cast<size_t>(frame.segment)];
      const int32_t* leaves =
          segment.tree->first_leaf_.data() + frame.group * (kFanOut + 1);
      for (int64_t c = 0; c < kFanOut; ++c) {
        if (frame.keys[c] == kInfinity || frame.keys[c] > cut) continue;
        unseen +=
            CountLive(segment.rows.live, leaves[c] * kLeafRows,
                      std::min(leaves[c + 1] * kLeafRows, segment.tree->n_));
      }
    }
    return unseen;
  }

  const ScanQueries& queries_;
  const absl::Span<const BoxSegment> segments_;
  const TreeLimits& limits_;
  const absl::FunctionRef<bool()> stop_;
  const LaneKernels& kernels_;
  const bool dot_;
  std::vector<float> unit_;
  int64_t live_rows_ = 0;
  float max_norm_ = 0;
  int64_t unasked_bytes_ = kStopBytes;

  int64_t query_ = 0;
  const float* q_ = nullptr;
  double threshold_ = 0;  // that the cuts were made for
  float row_cut_ = 0;     // no row up to here is ruled out
  float cut_ = 0;         // no box up to here is left out
  std::vector<Frame> frames_;
  std::vector<std::pair<float, int32_t>> heap_;
};

bool BoxTreeSearch(const ScanQueries& queries,
                   absl::Span<const BoxSegment> segments,
                   const TreeLimits& limits, absl::Span<TopK> tops,
                   absl::Span<TreeAccount> accounts,
                   absl::FunctionRef<bool()> stop) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ
  BoxSearch search(queries, segments, limits, stop);
  if (search.AskStop(0)) return false;
  for (int64_t q = 0; q < queries.size(); ++q) {
    const size_t at = static_cast<size_t>(q);
    if (!search.Run(q, tops[at], accounts[at])) return false;
  }
  return true;
}

}  // namespace coterie
