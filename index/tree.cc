#include "index/tree.h"

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_boxes.h"
#include "index/tree_cells.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

Tree Tree::Build(Metric metric, RowsView rows, RunTasks run_tasks,
                 std::vector<int64_t>* order) {
  if (rows.d <= BoxTree::kMaxDimension) {
    return Tree(BoxTree::Build(metric, rows, run_tasks, order));
  }
  return Tree(CellTree::Build(metric, rows, run_tasks, order));
}

void Tree::Train(const ScanRows& rows, const CertifiedCodes* codes,
                 RunTasks run_tasks) {
  if (CellTree* tree = std::get_if<CellTree>(&tree_)) {
    tree->Train(rows, *codes, run_tasks);
  } else {
    std::get<BoxTree>(tree_).Train(rows);
  }
}

int64_t Tree::size() const {
  return std::visit([](const auto& tree) { return tree.size(); }, tree_);
}

int64_t Tree::MemoryBytes() const {
  return std::visit([](const auto& tree) { return tree.MemoryBytes(); }, tree_);
}

bool TreeSearch(const ScanQueries& queries,
                absl::Span<const TreeSegment> segments,
                const TreeLimits& limits, absl::Span<TopK> tops,
                absl::Span<TreeAccount> accounts,
                absl::FunctionRef<bool()> stop) {
  if (queries.dimension() <= BoxTree::kMaxDimension) {
    std::vector<BoxSegment> boxes;
    for (const TreeSegment& s : segments) {
      boxes.push_back({s.tree->boxes(), s.rows});
    }
    return BoxTreeSearch(queries, boxes, limits, tops, accounts, stop);
  }
  std::vector<CellSegment> cells;
  for (const TreeSegment& s : segments) {
    cells.push_back({s.tree->cells(), s.codes, s.rows, s.first_look});
  }
  return CellTreeSearch(queries, cells, limits, tops, accounts, stop);
}

}  // namespace coterie
