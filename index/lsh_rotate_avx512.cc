// Compiled with AVX-512 F, BW, DQ and VL: include plain declarations only.

#include "index/lsh_rotate.h"
#include "index/lsh_rotate_kernels.h"

namespace coterie::internal_lsh {

const RotateKernels kRotateAvx512 = {Rotate, Largest, Differ};

}  // namespace coterie::internal_lsh
