// The functions of a code kernel. Pure; any thread.

#ifndef COTERIE_INDEX_CERTIFIED_DISPATCH_H_
#define COTERIE_INDEX_CERTIFIED_DISPATCH_H_

#include "index/certified_kernels.h"
#include "index/code_simd.h"

namespace coterie::internal_certified {

// Calling what they return REQUIRES a CPU that has `kernel`.
BatchKernel BatchKernelFor(CodeKernel kernel);
FineKernel FineKernelFor(CodeKernel kernel);
PlaneKernel PlaneKernelFor(CodeKernel kernel);

}  // namespace coterie::internal_certified

#endif  // COTERIE_INDEX_CERTIFIED_DISPATCH_H_
