#include "index/code_simd.h"

#include <vector>

#include "gtest/gtest.h"
#include "index/simd.h"

namespace coterie {
namespace {

using internal_code_simd::Choose;

TEST(CodeSimd, ChoosesTheFastestThatTheTargetAllows) {
  const std::vector<CodeKernel> all = {CodeKernel::kScalar, CodeKernel::kAvx2,
                                       CodeKernel::kAvxVnni,
                                       CodeKernel::kAvx512Vnni};
  EXPECT_EQ(Choose(SimdTarget::kScalar, all), CodeKernel::kScalar);
  EXPECT_EQ(Choose(SimdTarget::kAvx2, all), CodeKernel::kAvxVnni);
  EXPECT_EQ(Choose(SimdTarget::kAvx512, all), CodeKernel::kAvx512Vnni);
}

TEST(CodeSimd, DoesWithoutWhatTheCpuLacks) {
  const std::vector<CodeKernel> old = {CodeKernel::kScalar, CodeKernel::kAvx2};
  EXPECT_EQ(Choose(SimdTarget::kAvx512, old), CodeKernel::kAvx2);
  const std::vector<CodeKernel> no_avx_vnni = {
      CodeKernel::kScalar, CodeKernel::kAvx2, CodeKernel::kAvx512Vnni};
  EXPECT_EQ(Choose(SimdTarget::kAvx2, no_avx_vnni), CodeKernel::kAvx2);
}

TEST(CodeSimd, FollowsTheActiveTarget) {
  const SimdTarget before = ActiveSimdTarget();
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    EXPECT_EQ(ActiveCodeKernel(), Choose(target, SupportedCodeKernels()));
  }
  SetActiveSimdTargetForTest(before);
}

TEST(CodeSimd, SupportsScalarFirst) {
  ASSERT_FALSE(SupportedCodeKernels().empty());
  EXPECT_EQ(SupportedCodeKernels().front(), CodeKernel::kScalar);
}

TEST(CodeSimd, TwoProductsOfLimitedCodesFitIn16Bits) {
  EXPECT_LE(2 * 255 * QueryCodeLimit(CodeKernel::kAvx2), 32767);
  EXPECT_EQ(QueryCodeLimit(CodeKernel::kAvx512Vnni), 127);
}

}  // namespace
}  // namespace coterie
