#include "index/certified_dispatch.h"

#include "index/certified_kernels.h"
#include "index/code_simd.h"

namespace coterie::internal_certified {

BatchKernel BatchKernelFor(CodeKernel kernel) {
  switch (kernel) {
    case CodeKernel::kAvx512Vnni:
      return BatchAvx512Vnni;
    case CodeKernel::kAvxVnni:
      return BatchAvxVnni;
    case CodeKernel::kAvx2:
      return BatchAvx2;
    case CodeKernel::kScalar:
      break;
  }
  return BatchScalar;
}

FineKernel FineKernelFor(CodeKernel kernel) {
  switch (kernel) {
    case CodeKernel::kAvx512Vnni:
      return FineAvx512Vnni;
    case CodeKernel::kAvxVnni:
      return FineAvxVnni;
    case CodeKernel::kAvx2:
      return FineAvx2;
    case CodeKernel::kScalar:
      break;
  }
  return FineScalar;
}

PlaneKernel PlaneKernelFor(CodeKernel kernel) {
  switch (kernel) {
    case CodeKernel::kAvx512Vnni:
      return PlaneAvx512Vnni;
    case CodeKernel::kAvxVnni:
      return PlaneAvxVnni;
    case CodeKernel::kAvx2:
      return PlaneAvx2;
    case CodeKernel::kScalar:
      break;
  }
  return PlaneScalar;
}

}  // namespace coterie::internal_certified
