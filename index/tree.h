// The tree index: one name for both trees, chosen by dimension. Up to 16
// dimensions boxes (index/tree_boxes.h), beyond that cells
// (index/tree_cells.h).
//
//   Tree tree = Tree::Build(metric, rows, run_tasks, &order);
//   ... lay rows, ids, norms and live bits out in `order`; code the rows if
//   tree.needs_codes() ...
//   tree.Train(rows, codes, run_tasks);  // for target_recall and costs
//   TreeSearch(queries, segments, limits, tops, accounts, stop);
//
// The default limits give a canonical scan's answer, whatever the tree.

#ifndef COTERIE_INDEX_TREE_H_
#define COTERIE_INDEX_TREE_H_

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_boxes.h"
#include "index/tree_cells.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

// Immutable but for Train; then any number of threads may share it.
class Tree {
 public:
  explicit Tree(BoxTree tree) : tree_(std::move(tree)) {}
  explicit Tree(CellTree tree) : tree_(std::move(tree)) {}

  // As BoxTree::Build and CellTree::Build. REQUIRES: d >= 1.
  static Tree Build(Metric metric, RowsView rows, RunTasks run_tasks,
                    std::vector<int64_t>* order);

  // The leaves are ranges of the codes of the rows.
  bool needs_codes() const { return cells() != nullptr; }
  // As CellTree::Train or BoxTree::Train.
  void Train(const ScanRows& rows, const CertifiedCodes* codes,
             RunTasks run_tasks);

  int64_t size() const;
  int64_t MemoryBytes() const;
  // The tree that this is; null for the other.
  const BoxTree* boxes() const { return std::get_if<BoxTree>(&tree_); }
  const CellTree* cells() const { return std::get_if<CellTree>(&tree_); }

 private:
  std::variant<BoxTree, CellTree> tree_;
};

// A part of the data: a tree and its rows in the tree's order.
struct TreeSegment {
  const Tree* tree = nullptr;
  ScanRows rows;
  const CertifiedCodes* codes = nullptr;  // of the rows, if tree->needs_codes()
  FirstLook first_look;                   // of the same, for a scan
};

// As BoxTreeSearch or CellTreeSearch. REQUIRES: as there; all segments have the
// dimension of the queries.
bool TreeSearch(const ScanQueries& queries,
                absl::Span<const TreeSegment> segments,
                const TreeLimits& limits, absl::Span<TopK> tops,
                absl::Span<TreeAccount> accounts,
                absl::FunctionRef<bool()> stop);

}  // namespace coterie

#endif  // COTERIE_INDEX_TREE_H_
