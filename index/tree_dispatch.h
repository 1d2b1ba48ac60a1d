// The lane kernels of this CPU.

#ifndef COTERIE_INDEX_TREE_DISPATCH_H_
#define COTERIE_INDEX_TREE_DISPATCH_H_

#include "index/tree_lanes.h"

namespace coterie::internal_tree {

// Those of ActiveSimdTarget(). Any thread.
const LaneKernels& ActiveLaneKernels();

}  // namespace coterie::internal_tree

#endif  // COTERIE_INDEX_TREE_DISPATCH_H_
