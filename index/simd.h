// Which vector instructions this process uses. One binary runs on every
// x86-64; kernels are chosen once, by single CPUID feature bits.

#ifndef COTERIE_INDEX_SIMD_H_
#define COTERIE_INDEX_SIMD_H_

#include <vector>

#include "absl/strings/string_view.h"

namespace coterie {

// Ordered: a CPU that has one has those before it.
enum class SimdTarget {
  kScalar = 0,
  kAvx2 = 1,    // AVX2 and FMA
  kAvx512 = 2,  // AVX-512 F, BW, DQ, VL
};

// "scalar", "AVX2", "AVX-512".
absl::string_view SimdTargetName(SimdTarget target);

// Targets that this CPU and operating system support, best last. Never empty.
const std::vector<SimdTarget>& SupportedSimdTargets();

// The target that dispatched kernels use: the best supported one, or the one
// named by the environment variable COTERIE_SIMD (scalar, avx2, avx512) if
// supported. Read once, at first use. Any thread.
SimdTarget ActiveSimdTarget();

// For tests, before other threads start: use this target from now on.
// REQUIRES: supported.
void SetActiveSimdTargetForTest(SimdTarget target);

namespace internal_simd {
// For tests: the target that a COTERIE_SIMD of `wish` (any case) selects; the
// best supported one if it names none of them.
SimdTarget Choose(absl::string_view wish,
                  const std::vector<SimdTarget>& supported);
}  // namespace internal_simd

}  // namespace coterie

#endif  // COTERIE_INDEX_SIMD_H_
