// Compiled with AVX2: include plain declarations only.

#include "index/lsh_rotate.h"
#include "index/lsh_rotate_kernels.h"

namespace coterie::internal_lsh {

const RotateKernels kRotateAvx2 = {Rotate, Largest, Differ};

}  // namespace coterie::internal_lsh
