#include "index/lsh_rotate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "index/lsh_collision.h"
#include "index/simd.h"
#include "index/test_vectors.h"

namespace coterie {
namespace {

using internal_lsh::CollisionTable;
using internal_lsh::kLanes;
using internal_lsh::RotateKernels;

TEST(CollisionTable, FallsWithTheAngleAndTheGap) {
  const CollisionTable& table = CollisionTable::For(6);
  EXPECT_EQ(CollisionTable::AngleRow(3), CollisionTable::kAngles);
  EXPECT_EQ(CollisionTable::GapColumn(2.5), CollisionTable::kGaps);
  EXPECT_GT(table.At(0, 0), 0.95);
  EXPECT_LT(table.At(CollisionTable::kAngles - 1, 0), 0.05);
  for (double angle : {0.3, 0.8, 1.2}) {
    const int64_t row = CollisionTable::AngleRow(angle);
    EXPECT_GT(table.At(row, 0), table.At(row, 16));
    EXPECT_GT(table.At(row, 0), table.At(row + 15, 0));
  }
}

std::vector<const RotateKernels*> Kernels() {
  std::vector<const RotateKernels*> kernels;
  for (SimdTarget target : SupportedSimdTargets()) {
    kernels.push_back(
        target == SimdTarget::kAvx512 ? &internal_lsh::kRotateAvx512
        : target == SimdTarget::kAvx2 ? &internal_lsh::kRotateAvx2
                                      : &internal_lsh::kRotateScalar);
  }
  return kernels;
}

TEST(LshRotate, KeepsLengthsAndAgreesOnEveryTarget) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  for (int64_t dims : {32, 128, 1024}) {
    const size_t size = static_cast<size_t>(dims * kLanes);
    std::vector<float> buffer(size * 5 + 32);
    float* signs = buffer.data();
    while (reinterpret_cast<uintptr_t>(signs) % 64 != 0) ++signs;
    float* out = signs + 3 * size;
    for (size_t i = 0; i < 3 * size; ++i)
      signs[i] = random() % 2 ? 1.0f : -1.0f;
    std::vector<float> v;
    double square = 0;
    for (int64_t i = 0; i < dims; ++i) {
      v.push_back(normal(random));
      square += double{v.back()} * v.back();
    }
    std::vector<float> reference;
    std::vector<uint32_t> reference_codes;
    for (const RotateKernels* kernels : Kernels()) {
      kernels->rotate(v.data(), dims, signs, out);
      uint32_t codes[kLanes];
      kernels->largest(out, dims / 2, codes);
      const std::vector<float> got(out, out + size);
      const std::vector<uint32_t> got_codes(codes, codes + kLanes);
      if (reference.empty()) {
        reference = got;
        reference_codes = got_codes;
      }
      EXPECT_EQ(got, reference);
      EXPECT_EQ(got_codes, reference_codes);
      const double grown = std::pow(static_cast<double>(dims), 3);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        double sum = 0;
        double most = 0;
        for (int64_t i = 0; i < dims; ++i) {
          const double x = out[i * kLanes + lane];
          sum += x * x;
          if (i < dims / 2) most = std::max(most, std::fabs(x));
        }
        EXPECT_NEAR(sum, square * grown, 1e-4 * square * grown);
        const double best = out[(codes[lane] / 2) * kLanes + lane];
        EXPECT_EQ(std::fabs(best), most);
        EXPECT_EQ(best < 0, codes[lane] % 2 == 1);
      }
    }
  }
}

}  // namespace
}  // namespace coterie
