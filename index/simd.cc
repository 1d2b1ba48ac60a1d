#include "index/simd.h"

#include <cpuid.h>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace coterie {
namespace {

// Register state that the operating system saves on a context switch (XCR0).
// Inline assembly, as the intrinsic needs a compiler flag for the whole file.
uint64_t EnabledState() {
  uint32_t low = 0;
  uint32_t high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr bool HasAll(uint64_t value, uint64_t bits) {
  return (value & bits) == bits;
}

std::vector<SimdTarget> Detect() {
  // XCR0: SSE and AVX state; with AVX-512 also opmask and both ZMM parts.
  constexpr uint64_t kYmmState = 0x6;
  constexpr uint64_t kZmmState = 0xe6;

  std::vector<SimdTarget> targets = {SimdTarget::kScalar};
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return targets;
  if (!HasAll(ecx, bit_OSXSAVE | bit_AVX | bit_FMA)) return targets;
  const uint64_t state = EnabledState();
  if (!HasAll(state, kYmmState)) return targets;

  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return targets;
  if (!HasAll(ebx, bit_AVX2)) return targets;
  targets.push_back(SimdTarget::kAvx2);
  if (HasAll(state, kZmmState) &&
      HasAll(ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)) {
    targets.push_back(SimdTarget::kAvx512);
  }
  return targets;
}

SimdTarget Choose() {
  const std::vector<SimdTarget>& supported = SupportedSimdTargets();
  // Read once, before anything of ours could change the environment.
  const char* wish = std::getenv("COTERIE_SIMD");  // NOLINT(*-mt-unsafe)
  if (wish == nullptr) return supported.back();
  return internal_simd::Choose(wish, supported);
}

std::atomic<SimdTarget>& Active() {
  static std::atomic<SimdTarget> active{Choose()};
  return active;
}

}  // namespace

namespace internal_simd {

SimdTarget Choose(absl::string_view wish,
                  const std::vector<SimdTarget>& supported) {
  for (SimdTarget target : supported) {
    const absl::string_view name = target == SimdTarget::kScalar ? "scalar"
                                   : target == SimdTarget::kAvx2 ? "avx2"
                                                                 : "avx512";
    if (absl::AsciiStrToLower(wish) == name) return target;
  }
  return supported.back();
}

}  // namespace internal_simd

absl::string_view SimdTargetName(SimdTarget target) {
  switch (target) {
    case SimdTarget::kScalar:
      return "scalar";
    case SimdTarget::kAvx2:
      return "AVX2";
    case SimdTarget::kAvx512:
      return "AVX-512";
  }
  return "unknown";
}

const std::vector<SimdTarget>& SupportedSimdTargets() {
  static const auto& targets = *new std::vector<SimdTarget>(Detect());
  return targets;
}

SimdTarget ActiveSimdTarget() {
  return Active().load(std::memory_order_relaxed);
}

void SetActiveSimdTargetForTest(SimdTarget target) {
  assert(absl::c_linear_search(SupportedSimdTargets(), target));
  Active().store(target, std::memory_order_relaxed);
}

}  // namespace coterie
