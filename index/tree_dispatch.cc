#include "index/tree_dispatch.h"

#include "index/simd.h"
#include "index/tree_lanes.h"

namespace coterie::internal_tree {

const LaneKernels& ActiveLaneKernels() {
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      return kLaneKernelsAvx512;
    case SimdTarget::kAvx2:
      return kLaneKernelsAvx2;
    case SimdTarget::kScalar:
      break;
  }
  return kLaneKernelsScalar;
}

}  // namespace coterie::internal_tree
