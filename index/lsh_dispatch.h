// The rotation kernels of this CPU.

#ifndef COTERIE_INDEX_LSH_DISPATCH_H_
#define COTERIE_INDEX_LSH_DISPATCH_H_

#include "index/lsh_rotate.h"

namespace coterie::internal_lsh {

// Those of ActiveSimdTarget(). Any thread.
const RotateKernels& ActiveRotateKernels();

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_DISPATCH_H_
