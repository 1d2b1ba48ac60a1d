// Compiled with AVX-512 F, BW, DQ and VL: include intrinsics only.

#include "index/tree_lanes.h"
#include "index/tree_lanes_kernels.h"

namespace coterie::internal_tree {

const LaneKernels kLaneKernelsAvx512 = kKernels;

}  // namespace coterie::internal_tree
