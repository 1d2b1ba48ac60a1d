// A tree of bounding boxes for up to 16 dimensions: exact, and sub-linear where
// the data let boxes be told apart.
//
// A k-d tree (Bentley, CACM 1975; Friedman, Bentley, Finkel, TOMS 1977) in
// groups of 16 children: splits at medians of the widest coordinate, nodes keep
// the box of their rows, which is tighter than a split plane, and a query
// measures 16 boxes at once. Leaves hold 32 rows, 16 to a block, coordinate by
// coordinate. The search is best-first over one queue (Hjaltason, Samet, TODS
// 1999) for all segments.
//
// A float32 value v of a box is never above that of a row in it
// (index/tree_lanes.h), and canonical distance <= t implies v <= cut(t)
// (BoxCut). So what lies strictly above the cut is ruled out, and the answer is
// a canonical scan's. COSINE boxes hold unit rows.
//
// Memory: 4 d bytes a row for the leaves, about 4.5 d for 16 rows for boxes.

#ifndef COTERIE_INDEX_TREE_BOXES_H_
#define COTERIE_INDEX_TREE_BOXES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/certified_memory.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

// Immutable but for Train; then any number of threads may share it. Speaks of
// rows in the order of the tree: see Build.
class BoxTree {
 public:
  static constexpr int64_t kMaxDimension = 16;
  static constexpr int64_t kLeafRows = 32;
  static constexpr int64_t kFanOut = 16;
  // For these k Train counts leaves.
  static constexpr int64_t kTrainedK[] = {1, 10, 100};

  // The tree as plain memory: what to write to disk and to read back.
  struct Parts {
    Metric metric = Metric::kSquaredL2;
    int64_t n = 0;
    int64_t d = 0;
    float max_norm = 0;  // >= the norm of every row
    // Groups of kFanOut children; group 0 is the root. Boxes: for each
    // coordinate 16 lower and 16 upper limits.
    absl::Span<const float> boxes;
    // > 0: a group. < 0: -1 - the number of a leaf. 0: no child.
    absl::Span<const int32_t> children;
    // For each child the first leaf under it; then the end of the last one's.
    absl::Span<const int32_t> first_leaf;  // 17 a group
    // Rows of the leaves, in blocks of 16, d x 16 floats each.
    absl::Span<const float> lanes;
    // Read by a search, on average, for each trained k; empty if not trained.
    absl::Span<const float> leaves;
  };

  // Builds the tree of `rows` and writes to `order` the order in which it wants
  // them: row i of the tree is rows.row(order[i]). The caller lays out its rows
  // so before it searches. The same tree whatever the threads.
  // REQUIRES: 1 <= d <= kMaxDimension, fewer than 2^31 rows that pass
  // ValidateVector, no DAZ or FTZ. O(n d log n) time, 12 n bytes.
  static BoxTree Build(Metric metric, RowsView rows, RunTasks run_tasks,
                       std::vector<int64_t>* order);

  // Counts the leaves that exact searches read, for up to 64 rows as queries:
  // what a search is going to cost. Leaves a tree of fewer than 1,024 rows as
  // it is. REQUIRES: rows in the tree's order; nobody uses the tree meanwhile.
  void Train(const ScanRows& rows);

  // Copies. INVALID_ARGUMENT if sizes or references do not fit together: then
  // no search reads beyond the arrays. Values are taken on trust: check a sum.
  static absl::StatusOr<BoxTree> FromParts(const Parts& parts);
  Parts parts() const;

  Metric metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t dimension() const { return d_; }
  int64_t groups() const {
    return static_cast<int64_t>(children_.size()) / kFanOut;
  }
  // Bytes on the heap.
  int64_t MemoryBytes() const;

  // What an exact search for k neighbours reads, on average: as was counted,
  // between counts by the logarithm of k, beyond them in proportion; all leaves
  // if nothing was.
  double Leaves(double k) const;

 private:
  friend class BoxSearch;
  class Builder;
  template <typename T>
  using Array = std::vector<T, internal_certified::StreamAllocator<T>>;

  BoxTree() = default;

  Metric metric_ = Metric::kSquaredL2;
  int64_t n_ = 0;
  int64_t d_ = 0;
  float max_norm_ = 0;
  Array<float> boxes_;
  std::vector<int32_t> children_;
  std::vector<int32_t> first_leaf_;
  Array<float> lanes_;
  std::vector<float> counted_;
};

// A part of the data: a tree and its rows, laid out in the tree's order.
struct BoxSegment {
  const BoxTree* tree = nullptr;
  ScanRows rows;
};

// Searches all segments for each query, offers what may be near to tops[q] and
// adds to accounts[q]. Leaves by limits.max_leaves are per query; target_recall
// has no effect: boxes close their bound. `stop` as in ExactScan: asked first
// and then after every 256 KiB read.
// REQUIRES: as ExactScan; metric and dimension agree throughout.
bool BoxTreeSearch(const ScanQueries& queries,
                   absl::Span<const BoxSegment> segments,
                   const TreeLimits& limits, absl::Span<TopK> tops,
                   absl::Span<TreeAccount> accounts,
                   absl::FunctionRef<bool()> stop);

namespace internal_tree {

// For d <= 16: canonical distance <= threshold implies that the value of the
// row, and of every box around it, is <= the result or not finite.
//
// A value is a sum of d terms in turn, each rounded at most 3 times before: d +
// 3 roundings, fewer than the d + 8 for which CutOffFor (8 d; index/
// exact_scan_bound.h) pays under SQUARED_L2 and INNER_PRODUCT; there the norm
// of the row counts at its greatest, as its factor is negative, and nothing
// overflows while |q||x| <= 2^126. COSINE: rows and query are unit vectors
// rounded to float32, off by less than 2^-23 together with the rounding of
// their norms. With s = |q' - x'| of the true ones, s^2 = 2 D, the computed
// ones are at most s + 2^-22 apart, so V <= (s + 2^-22)^2 (1 + g_n) + H.
float BoxCut(Metric metric, int64_t d, double q_squared_norm, float max_norm,
             double threshold);

}  // namespace internal_tree

}  // namespace coterie

#endif  // COTERIE_INDEX_TREE_BOXES_H_
