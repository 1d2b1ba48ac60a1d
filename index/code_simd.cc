#include "index/code_simd.h"

#include <cpuid.h>

#include <cstdint>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "index/simd.h"

namespace coterie {
namespace {

// What a kernel needs of index/simd.h: registers that the system saves.
SimdTarget Needs(CodeKernel kernel) {
  switch (kernel) {
    case CodeKernel::kScalar:
      return SimdTarget::kScalar;
    case CodeKernel::kAvx2:
    case CodeKernel::kAvxVnni:
      return SimdTarget::kAvx2;
    case CodeKernel::kAvx512Vnni:
      return SimdTarget::kAvx512;
  }
  return SimdTarget::kScalar;
}

std::vector<CodeKernel> Detect() {
  constexpr uint32_t kAvx512VnniBit = 1u << 11;  // leaf 7.0, ECX
  constexpr uint32_t kAvxVnniBit = 1u << 4;      // leaf 7.1, EAX

  std::vector<CodeKernel> kernels = {CodeKernel::kScalar};
  const auto has = [](SimdTarget target) {
    return absl::c_linear_search(SupportedSimdTargets(), target);
  };
  if (!has(SimdTarget::kAvx2)) return kernels;
  kernels.push_back(CodeKernel::kAvx2);

  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return kernels;
  const uint32_t last_subleaf = eax;
  const bool avx512_vnni = (ecx & kAvx512VnniBit) != 0;
  if (last_subleaf >= 1 &&
      __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 &&
      (eax & kAvxVnniBit) != 0) {
    kernels.push_back(CodeKernel::kAvxVnni);
  }
  if (avx512_vnni && has(SimdTarget::kAvx512)) {
    kernels.push_back(CodeKernel::kAvx512Vnni);
  }
  return kernels;
}

}  // namespace

namespace internal_code_simd {

CodeKernel Choose(SimdTarget target, absl::Span<const CodeKernel> supported) {
  CodeKernel best = CodeKernel::kScalar;
  for (CodeKernel kernel : supported) {
    if (Needs(kernel) <= target && kernel > best) best = kernel;
  }
  return best;
}

}  // namespace internal_code_simd

absl::string_view CodeKernelName(CodeKernel kernel) {
  switch (kernel) {
    case CodeKernel::kScalar:
      return "scalar";
    case CodeKernel::kAvx2:
      return "AVX2";
    case CodeKernel::kAvxVnni:
      return "AVX-VNNI";
    case CodeKernel::kAvx512Vnni:
      return "AVX-512 VNNI";
  }
  return "unknown";
}

const std::vector<CodeKernel>& SupportedCodeKernels() {
  static const auto& kernels = *new std::vector<CodeKernel>(Detect());
  return kernels;
}

CodeKernel ActiveCodeKernel() {
  return internal_code_simd::Choose(ActiveSimdTarget(), SupportedCodeKernels());
}

int QueryCodeLimit(CodeKernel kernel) {
  return kernel == CodeKernel::kAvx2 ? 64 : 127;
}

}  // namespace coterie
