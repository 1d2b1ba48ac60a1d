// Which kernel scores 8-bit codes (index/certified_scan.h). Chosen by single
// CPUID bits within what index/simd.h allows. Any thread.

#ifndef COTERIE_INDEX_CODE_SIMD_H_
#define COTERIE_INDEX_CODE_SIMD_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "index/simd.h"

namespace coterie {

// By rising speed. Not every CPU that has one has those before it: there are
// AVX-512 VNNI CPUs without AVX-VNNI.
enum class CodeKernel {
  kScalar = 0,
  kAvx2 = 1,        // vpmaddubsw: query codes limited, see QueryCodeLimit
  kAvxVnni = 2,     // 256-bit vpdpbusd
  kAvx512Vnni = 3,  // 512-bit vpdpbusd
};

// "scalar", "AVX2", "AVX-VNNI", "AVX-512 VNNI".
absl::string_view CodeKernelName(CodeKernel kernel);

// Kernels that this CPU and operating system support, fastest last.
const std::vector<CodeKernel>& SupportedCodeKernels();

// The fastest supported kernel that needs no more than ActiveSimdTarget(), so
// that COTERIE_SIMD governs this choice too. AVX-VNNI counts as AVX2.
CodeKernel ActiveCodeKernel();

// Largest magnitude of a query code. vpmaddubsw adds two products of at most
// 255 * 64 in 16 bits: 32,640, which does not saturate. Others: 127.
int QueryCodeLimit(CodeKernel kernel);

namespace internal_code_simd {
// For tests: the fastest of `supported` that `target` allows.
CodeKernel Choose(SimdTarget target, absl::Span<const CodeKernel> supported);
}  // namespace internal_code_simd

}  // namespace coterie

#endif  // COTERIE_INDEX_CODE_SIMD_H_
