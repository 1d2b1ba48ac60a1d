// What both trees (index/tree_boxes.h, index/tree_cells.h) take and report.

#ifndef COTERIE_INDEX_TREE_TYPES_H_
#define COTERIE_INDEX_TREE_TYPES_H_

#include <cstdint>
#include <limits>

#include "absl/functional/function_ref.h"

namespace coterie {

// Calls task(0) ... task(count - 1), in any order, from any threads, and
// returns when all are done. Results do not depend on how.
using RunTasks = absl::FunctionRef<void(int64_t count,
                                        absl::FunctionRef<void(int64_t)> task)>;

// How far a search goes. The defaults are exact.
struct TreeLimits {
  // The k-th distance found, over 1 + epsilon, is no more than the true one.
  // REQUIRES: >= 0. Without effect under INNER_PRODUCT, whose distances have no
  // zero to be relative to.
  double epsilon = 0;
  // Leaves to read, over all segments together.
  int64_t max_leaves = std::numeric_limits<int64_t>::max();
  // Expected share of the k nearest that is found; 1 is exact. A trained rule
  // (CellTree::Train), not a bound; where there is none the search is exact.
  double target_recall = 1;
};

// What became of the live rows of one query: rows = evaluated + ruled_out +
// unseen.
struct TreeAccount {
  int64_t evaluated = 0;  // canonical distance computed
  int64_t ruled_out = 0;  // a proven bound strictly above the k-th distance
  int64_t unseen = 0;     // left out by a limit, and might have been near
  int64_t leaves = 0;     // leaves read
  bool scanned = false;   // pruning did not pay: the certified scan took over

  // The certificate: the answer is that of a canonical scan.
  bool exact() const { return unseen == 0; }
};

}  // namespace coterie

#endif  // COTERIE_INDEX_TREE_TYPES_H_
