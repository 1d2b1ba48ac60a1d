#include "index/simd.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace coterie {
namespace {

TEST(Simd, SupportedTargetsAreOrderedAndBeginWithScalar) {
  const std::vector<SimdTarget>& targets = SupportedSimdTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.front(), SimdTarget::kScalar);
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(targets[i]), i);
  }
}

// The compiler's run-time detection is the model.
TEST(Simd, SupportsWhatTheCompilerSaysTheCpuHas) {
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  EXPECT_EQ(SupportedSimdTargets().size(), 1u + avx2 + avx512);
}

TEST(Simd, NamesAreDistinct) {
  EXPECT_EQ(SimdTargetName(SimdTarget::kScalar), "scalar");
  EXPECT_EQ(SimdTargetName(SimdTarget::kAvx2), "AVX2");
  EXPECT_EQ(SimdTargetName(SimdTarget::kAvx512), "AVX-512");
}

TEST(Simd, EnvironmentChoosesASupportedTargetByName) {
  const std::vector<SimdTarget> all = {SimdTarget::kScalar, SimdTarget::kAvx2,
                                       SimdTarget::kAvx512};
  EXPECT_EQ(internal_simd::Choose("scalar", all), SimdTarget::kScalar);
  EXPECT_EQ(internal_simd::Choose("avx2", all), SimdTarget::kAvx2);
  EXPECT_EQ(internal_simd::Choose("AVX512", all), SimdTarget::kAvx512);
}

TEST(Simd, EnvironmentCannotChooseWhatIsNotSupported) {
  const std::vector<SimdTarget> old = {SimdTarget::kScalar, SimdTarget::kAvx2};
  EXPECT_EQ(internal_simd::Choose("avx512", old), SimdTarget::kAvx2);
  EXPECT_EQ(internal_simd::Choose("", old), SimdTarget::kAvx2);
  EXPECT_EQ(internal_simd::Choose("neon", {SimdTarget::kScalar}),
            SimdTarget::kScalar);
}

TEST(Simd, TestsCanSwitchTargets) {
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    EXPECT_EQ(ActiveSimdTarget(), target);
  }
}

}  // namespace
}  // namespace coterie
