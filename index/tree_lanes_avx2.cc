// Compiled with AVX2: include intrinsics only.

#include "index/tree_lanes.h"
#include "index/tree_lanes_kernels.h"

namespace coterie::internal_tree {

const LaneKernels kLaneKernelsAvx2 = kKernels;

}  // namespace coterie::internal_tree
