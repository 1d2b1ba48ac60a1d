#include "index/tree_boxes.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/certified_rounding.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_lanes.h"
#include "index/tree_types.h"
#include "index/tree_unit.h"
#include "index/vectors.h"

namespace coterie {

using internal_tree::kLanes;

namespace {

constexpr int64_t kFanOut = BoxTree::kFanOut;
constexpr int64_t kLeafRows = BoxTree::kLeafRows;

static_assert(kFanOut == kLanes && kLeafRows % kLanes == 0);

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Leaves under one child of a group over `leaves` leaves: the greatest power of
// the fan-out below it, so that groups further down are full.
int64_t LeavesPerChild(int64_t leaves) {
  int64_t unit = 1;
  while (unit * kFanOut < leaves) unit *= kFanOut;
  return unit;
}

// Leaves [begin, end) of the tree.
struct LeafRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Where a range is cut in two.
int64_t Middle(LeafRange range) {
  const int64_t leaves = range.end - range.begin;
  const int64_t unit = LeavesPerChild(leaves);
  return range.begin + unit * (CeilDiv(leaves, unit) / 2);
}

struct Box {
  float lo[BoxTree::kMaxDimension];
  float hi[BoxTree::kMaxDimension];
};

}  // namespace

class BoxTree::Builder {
 public:
  // `rows` are the working rows: of unit length under COSINE.
  Builder(RowsView rows, RunTasks run_tasks, BoxTree& tree)
      : rows_(rows),
        run_tasks_(run_tasks),
        tree_(tree),
        leaves_(CeilDiv(rows.n, kLeafRows)),
        order_(static_cast<size_t>(rows.n)) {
    for (size_t i = 0; i < order_.size(); ++i) {
      order_[i] = static_cast<int32_t>(i);
    }
  }

  void Run(std::vector<int64_t>* order) {
    Partition();
    FillLeaves();
    if (leaves_ > 0) AddGroup({0, leaves_});
    order->assign(order_.begin(), order_.end());
  }

 private:
  float At(int32_t row, int64_t j) const {
    return rows_.data[row * rows_.stride + j];
  }
  int64_t FirstRow(int64_t leaf) const {
    return std::min(leaf * kLeafRows, rows_.n);
  }

  // Level by level, so that the ranges of one can be split at once.
  void Partition() {
    std::vector<LeafRange> level;
    if (leaves_ > 1) level.push_back({0, leaves_});
    while (!level.empty()) {
      run_tasks_(static_cast<int64_t>(level.size()),
                 [&](int64_t i) { Split(level[static_cast<size_t>(i)]); });
      std::vector<LeafRange> next;
      for (const LeafRange& range : level) {
        const int64_t middle = Middle(range);
        if (middle - range.begin > 1) next.push_back({range.begin, middle});
        if (range.end - middle > 1) next.push_back({middle, range.end});
      }
      level = std::move(next);
    }
  }

  // Puts the rows that are least in the widest coordinate first.
  void Split(LeafRange range) {
    const int64_t begin = FirstRow(range.begin);
    const int64_t end = FirstRow(range.end);
    const int64_t axis = WidestAxis(begin, end);
    std::vector<std::pair<float, int32_t>> keys;
    keys.reserve(static_cast<size_t>(end - begin));
    for (int64_t i = begin; i < end; ++i) {
      const int32_t row = order_[static_cast<size_t>(i)];
      keys.emplace_back(At(row, axis), row);
    }
    std::nth_element(keys.begin(),
                     keys.begin() + (FirstRow(Middle(range)) - begin),
                     keys.end());
    for (int64_t i = begin; i < end; ++i) {
      order_[static_cast<size_t>(i)] =
          keys[static_cast<size_t>(i - begin)].second;
    }
  }

  Box BoxOf(int64_t begin, int64_t end) const {
    Box box;
    std::fill_n(box.lo, kMaxDimension, std::numeric_limits<float>::infinity());
    std::fill_n(box.hi, kMaxDimension, -std::numeric_limits<float>::infinity());
    for (int64_t i = begin; i < end; ++i) {
      const int32_t row = order_[static_cast<size_t>(i)];
      for (int64_t j = 0; j < rows_.d; ++j) {
        box.lo[j] = std::min(box.lo[j], At(row, j));
        box.hi[j] = std::max(box.hi[j], At(row, j));
      }
    }
    return box;
  }

  int64_t WidestAxis(int64_t begin, int64_t end) const {
    const Box box = BoxOf(begin, end);
    int64_t widest = 0;
    double width = -1;
    for (int64_t j = 0; j < rows_.d; ++j) {
      const double w = static_cast<double>(box.hi[j]) - box.lo[j];
      if (w > width) {
        width = w;
        widest = j;
      }
    }
    return widest;
  }

  void FillLeaves() {
    const int64_t d = rows_.d;
    tree_.lanes_.assign(static_cast<size_t>(leaves_ * kLeafRows * d), 0);
    run_tasks_(CeilDiv(leaves_, 1024), [&](int64_t task) {
      const int64_t end = std::min(leaves_, (task + 1) * 1024);
      for (int64_t leaf = task * 1024; leaf < end; ++leaf) FillLeaf(leaf);
    });
  }

  void FillLeaf(int64_t leaf) {
    const int64_t begin = FirstRow(leaf);
    const int64_t end = FirstRow(leaf + 1);
    std::sort(order_.begin() + begin, order_.begin() + end);
    for (int64_t i = begin; i < end; ++i) {
      float* block = tree_.lanes_.data() + i / kLanes * kLanes * rows_.d;
      for (int64_t j = 0; j < rows_.d; ++j) {
        block[j * kLanes + i % kLanes] = At(order_[static_cast<size_t>(i)], j);
      }
    }
  }

  // Adds the group over `range` and all below it; returns its box.
  Box AddGroup(LeafRange range) {
    const int64_t d = rows_.d;
    const int64_t unit = LeavesPerChild(range.end - range.begin);
    const int64_t group = tree_.groups();
    tree_.children_.resize(static_cast<size_t>((group + 1) * kFanOut), 0);
    tree_.first_leaf_.resize(static_cast<size_t>((group + 1) * (kFanOut + 1)),
                             static_cast<int32_t>(range.end));
    tree_.boxes_.resize(static_cast<size_t>((group + 1) * 2 * d * kFanOut), 0);
    Box all = BoxOf(0, 0);
    int64_t c = 0;
    for (int64_t leaf = range.begin; leaf < range.end; leaf += unit, ++c) {
      const LeafRange child = {leaf, std::min(leaf + unit, range.end)};
      const bool is_leaf = child.end - child.begin == 1;
      const int64_t next = tree_.groups();
      const Box box =
          is_leaf ? BoxOf(FirstRow(leaf), FirstRow(leaf + 1)) : AddGroup(child);
      const size_t at = static_cast<size_t>(group * kFanOut + c);
      tree_.children_[at] = static_cast<int32_t>(is_leaf ? -1 - leaf : next);
      tree_.first_leaf_[static_cast<size_t>(group * (kFanOut + 1) + c)] =
          static_cast<int32_t>(leaf);
      float* boxes = tree_.boxes_.data() + group * 2 * d * kFanOut + c;
      for (int64_t j = 0; j < d; ++j) {
        boxes[2 * j * kFanOut] = box.lo[j];
        boxes[(2 * j + 1) * kFanOut] = box.hi[j];
        all.lo[j] = std::min(all.lo[j], box.lo[j]);
        all.hi[j] = std::max(all.hi[j], box.hi[j]);
      }
    }
    return all;
  }

  const RowsView rows_;
  const RunTasks run_tasks_;
  BoxTree& tree_;
  const int64_t leaves_;
  std::vector<int32_t> order_;
};

BoxTree BoxTree::Build(Metric metric, RowsView rows, RunTasks run_tasks,
                       std::vector<int64_t>* order) {
  assert(rows.d >= 1 && rows.d <= kMaxDimension);
  assert(rows.n < std::numeric_limits<int32_t>::max());
  BoxTree tree;
  tree.metric_ = metric;
  tree.n_ = rows.n;
  tree.d_ = rows.d;
  std::vector<float> unit;
  if (metric == Metric::kCosine) {
    unit.resize(static_cast<size_t>(rows.n * rows.d));
    for (int64_t i = 0; i < rows.n; ++i) {
      internal_tree::ToUnit(rows.row(i), unit.data() + i * rows.d);
    }
    rows = {unit.data(), rows.n, rows.d, rows.d};
  }
  double squared_norm = 0;
  for (int64_t i = 0; i < rows.n; ++i) {
    squared_norm = std::max(squared_norm, CanonicalSquaredNorm(rows.row(i)));
  }
  tree.max_norm_ =
      -RoundDown(-std::min(std::sqrt(squared_norm) * (1 + 0x1p-40), 0x1p127));
  Builder(rows, run_tasks, tree).Run(order);
  return tree;
}

BoxTree::Parts BoxTree::parts() const {
  return {.metric = metric_,
          .n = n_,
          .d = d_,
          .max_norm = max_norm_,
          .boxes = boxes_,
          .children = children_,
          .first_leaf = first_leaf_,
          .lanes = lanes_,
          .leaves = counted_};
}

void BoxTree::Train(const ScanRows& rows) {
  constexpr int64_t kQueries = 64;
  constexpr int64_t kLeastRows = 1024;
  if (n_ < kLeastRows) return;
  std::vector<float> data;
  for (int64_t i = 0; i < kQueries; ++i) {
    const VectorView row = rows.rows.row((2 * i + 1) * n_ / (2 * kQueries));
    data.insert(data.end(), row.begin(), row.end());
  }
  const ScanQueries queries(metric_, {data.data(), kQueries, d_, d_});
  const BoxSegment segment = {this, rows};
  std::vector<float> counted;
  for (const int64_t k : kTrainedK) {
    // One more, as each finds itself.
    std::vector<TopK> tops(static_cast<size_t>(kQueries), TopK(k + 1));
    std::vector<TreeAccount> accounts(tops.size());
    BoxTreeSearch(queries, {&segment, 1}, TreeLimits(), absl::MakeSpan(tops),
                  absl::MakeSpan(accounts), [] { return false; });
    double leaves = 0;
    for (const TreeAccount& account : accounts) {
      leaves += static_cast<double>(account.leaves);
    }
    counted.push_back(
        static_cast<float>(leaves / static_cast<double>(kQueries)));
  }
  counted_ = std::move(counted);
}

double BoxTree::Leaves(double k) const {
  const auto all = static_cast<double>(CeilDiv(n_, kLeafRows));
  if (counted_.empty()) return all;
  constexpr size_t kLast = std::size(kTrainedK) - 1;
  size_t at = 0;
  while (at < kLast && static_cast<double>(kTrainedK[at]) < k) ++at;
  const auto high = static_cast<double>(counted_[at]);
  const auto trained = static_cast<double>(kTrainedK[at]);
  if (k >= trained) return std::min(all, high * k / trained);
  if (at == 0) return std::min(all, high);
  const auto low = static_cast<double>(counted_[at - 1]);
  const double part =
      std::log(k / static_cast<double>(kTrainedK[at - 1])) /
      std::log(trained / static_cast<double>(kTrainedK[at - 1]));
  return std::min(all, low + part * (high - low));
}

absl::StatusOr<BoxTree> BoxTree::FromParts(const Parts& parts) {
  const auto refuse = [](auto... what) {
    return absl::InvalidArgumentError(absl::StrCat("box tree: ", what...));
  };
  if (parts.d < 1 || parts.d > kMaxDimension) {
    return refuse("dimension ", parts.d, " is not in [1, ", kMaxDimension, "]");
  }
  if (parts.n < 0 || parts.n >= std::numeric_limits<int32_t>::max()) {
    return refuse(parts.n, " rows are not in [0, 2^31)");
  }
  const int64_t leaves = CeilDiv(parts.n, kLeafRows);
  const int64_t groups = static_cast<int64_t>(parts.children.size()) / kFanOut;
  const auto is = [](size_t size, int64_t expected) {
    return static_cast<int64_t>(size) == expected;
  };
  if (!parts.leaves.empty() && parts.leaves.size() != std::size(kTrainedK)) {
    return refuse("leaves were counted for ", parts.leaves.size(), " k");
  }
  if (!is(parts.children.size(), groups * kFanOut) ||
      !is(parts.first_leaf.size(), groups * (kFanOut + 1)) ||
      !is(parts.boxes.size(), groups * 2 * parts.d * kFanOut) ||
      !is(parts.lanes.size(), leaves * kLeafRows * parts.d) ||
      (groups == 0) != (leaves == 0)) {
    return refuse("arrays for ", groups, " groups and ", leaves,
                  " leaves do not fit together");
  }
  for (size_t i = 0; i < parts.children.size(); ++i) {
    const int64_t child = parts.children[i];
    // Groups refer to later ones only: no search goes round in circles.
    const int64_t group = static_cast<int64_t>(i) / kFanOut;
    const bool gap =
        child != 0 && i % kFanOut != 0 && parts.children[i - 1] == 0;
    if (gap ||
        (child < 0 ? -1 - child >= leaves
                   : child != 0 && (child <= group || child >= groups))) {
      return refuse("child ", i, " refers to ", child);
    }
  }
  for (size_t i = 0; i < parts.first_leaf.size(); ++i) {
    const bool falls =
        i % (kFanOut + 1) != 0 && parts.first_leaf[i] < parts.first_leaf[i - 1];
    if (falls || parts.first_leaf[i] < 0 || parts.first_leaf[i] > leaves) {
      return refuse("leaf ", parts.first_leaf[i], " at ", i,
                    " is out of order");
    }
  }
  BoxTree tree;
  tree.metric_ = parts.metric;
  tree.n_ = parts.n;
  tree.d_ = parts.d;
  tree.max_norm_ = parts.max_norm;
  tree.boxes_.assign(parts.boxes.begin(), parts.boxes.end());
  tree.children_.assign(parts.children.begin(), parts.children.end());
  tree.first_leaf_.assign(parts.first_leaf.begin(), parts.first_leaf.end());
  tree.counted_.assign(parts.leaves.begin(), parts.leaves.end());
  tree.lanes_.assign(parts.lanes.begin(), parts.lanes.end());
  return tree;
}

int64_t BoxTree::MemoryBytes() const {
  return static_cast<int64_t>(boxes_.capacity() * sizeof(float) +
                              lanes_.capacity() * sizeof(float) +
                              children_.capacity() * sizeof(int32_t) +
                              first_leaf_.capacity() * sizeof(int32_t));
}

}  // namespace coterie
