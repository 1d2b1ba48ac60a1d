// Compiled for every x86-64: include intrinsics only.

#include "index/tree_lanes.h"
#include "index/tree_lanes_kernels.h"

namespace coterie::internal_tree {

const LaneKernels kLaneKernelsScalar = kKernels;

}  // namespace coterie::internal_tree
