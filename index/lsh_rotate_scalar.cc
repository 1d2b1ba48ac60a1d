// Compiled for every x86-64: include plain declarations only.

#include "index/lsh_rotate.h"
#include "index/lsh_rotate_kernels.h"

namespace coterie::internal_lsh {

const RotateKernels kRotateScalar = {Rotate, Largest, Differ};

}  // namespace coterie::internal_lsh
