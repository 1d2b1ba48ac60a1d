#include "index/lsh_dispatch.h"

#include "index/lsh_rotate.h"
#include "index/simd.h"

namespace coterie::internal_lsh {

const RotateKernels& ActiveRotateKernels() {
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      return kRotateAvx512;
    case SimdTarget::kAvx2:
      return kRotateAvx2;
    case SimdTarget::kScalar:
      break;
  }
  return kRotateScalar;
}

}  // namespace coterie::internal_lsh
