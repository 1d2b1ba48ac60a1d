#include "index/tree_lanes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/tree_boxes.h"
#include "index/tree_cell_bound.h"
#include "index/vectors.h"

namespace coterie::internal_tree {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<const LaneKernels*> Kernels() {
  std::vector<const LaneKernels*> kernels;
  for (SimdTarget target : SupportedSimdTargets()) {
    kernels.push_back(target == SimdTarget::kAvx512 ? &kLaneKernelsAvx512
                      : target == SimdTarget::kAvx2 ? &kLaneKernelsAvx2
                                                    : &kLaneKernelsScalar);
  }
  return kernels;
}

// Floats of all magnitudes, zeros and extremes among them.
float Wild(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return random() % 2 ? 3e38f : -3e38f;
    default:
      return std::ldexp(static_cast<float>(random() % 2001) - 1000,
                        static_cast<int>(random() % 40) - 20);
  }
}

struct Block {
  float rows[kMaxBlocks * 20 * kLanes];
  float boxes[2 * 20 * kLanes];
};

// Four rows in each box.
Block MakeBlock(int64_t d, bool wild, std::mt19937_64& random) {
  Block block;
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < kMaxBlocks * d * kLanes; ++i) {
    block.rows[i] = wild ? Wild(random) : normal(random);
  }
  for (int64_t j = 0; j < d; ++j) {
    for (int64_t c = 0; c < kLanes; ++c) {
      float lo = kInfinity;
      float hi = -kInfinity;
      for (int64_t b = 0; b < kMaxBlocks; ++b) {
        lo = std::min(lo, block.rows[(b * d + j) * kLanes + c]);
        hi = std::max(hi, block.rows[(b * d + j) * kLanes + c]);
      }
      block.boxes[2 * j * kLanes + c] = lo;
      block.boxes[(2 * j + 1) * kLanes + c] = hi;
    }
  }
  return block;
}

TEST(TreeLanes, EveryTargetComputesTheSameBits) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const int64_t d = 1 + static_cast<int64_t>(random() % 20);
    const Block block = MakeBlock(d, round % 2 == 0, random);
    std::vector<float> q;
    for (int64_t j = 0; j < d; ++j) q.push_back(Wild(random));
    for (const LaneKernels* kernels : Kernels()) {
      for (int64_t blocks = 1; blocks <= kMaxBlocks; ++blocks) {
        alignas(64) float mine[64];
        alignas(64) float reference[64];
        kernels->values_l2(block.rows, blocks, d, q.data(), mine);
        kLaneKernelsScalar.values_l2(block.rows, blocks, d, q.data(),
                                     reference);
        for (int64_t i = 0; i < blocks * kLanes; ++i) {
          ASSERT_TRUE(mine[i] == reference[i] || mine[i] != mine[i]);
          ASSERT_EQ(mine[i] != mine[i], reference[i] != reference[i]);
        }
        const float cut = mine[3];
        ASSERT_EQ(
            kernels->keep_l2(block.rows, blocks, d, q.data(), cut),
            kLaneKernelsScalar.keep_l2(block.rows, blocks, d, q.data(), cut));
        ASSERT_EQ(
            kernels->keep_dot(block.rows, blocks, d, q.data(), cut),
            kLaneKernelsScalar.keep_dot(block.rows, blocks, d, q.data(), cut));
      }
    }
  }
}

TEST(TreeLanes, ABoxIsNeverFartherThanARowInIt) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 2000; ++round) {
    const int64_t d = 1 + static_cast<int64_t>(random() % 16);
    const Block block = MakeBlock(d, round % 2 == 0, random);
    std::vector<float> q;
    for (int64_t j = 0; j < d; ++j) {
      q.push_back(random() % 4 ? Wild(random) : block.rows[j * kLanes + 5]);
    }
    for (const LaneKernels* kernels : Kernels()) {
      alignas(64) float boxes[kLanes];
      alignas(64) float rows[64];
      kernels->box_l2(block.boxes, d, q.data(), boxes);
      kernels->values_l2(block.rows, 4, d, q.data(), rows);
      for (int64_t i = 0; i < 64; ++i) {
        ASSERT_FALSE(boxes[i % kLanes] > rows[i]) << "seed " << TestSeed();
      }
      kernels->box_dot(block.boxes, d, q.data(), boxes);
      kernels->values_dot(block.rows, 4, d, q.data(), rows);
      for (int64_t i = 0; i < 64; ++i) {
        ASSERT_FALSE(boxes[i % kLanes] > rows[i]) << "seed " << TestSeed();
      }
    }
  }
}

// Copies of row i of a block, as a vector.
std::vector<float> RowOf(const Block& block, int64_t d, int64_t i) {
  std::vector<float> row;
  for (int64_t j = 0; j < d; ++j) {
    row.push_back(block.rows[((i / kLanes) * d + j) * kLanes + i % kLanes]);
  }
  return row;
}

TEST(TreeLanes, TheCutKeepsEveryRowAtItsOwnDistance) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 2000; ++round) {
    const int64_t d = 1 + static_cast<int64_t>(random() % 16);
    const Block block = MakeBlock(d, round % 3 == 0, random);
    std::vector<float> q;
    for (int64_t j = 0; j < d; ++j) {
      q.push_back(round % 2 ? Wild(random) : block.rows[j * kLanes] * 1.001f);
    }
    for (Metric metric : {Metric::kSquaredL2, Metric::kInnerProduct}) {
      double norm = 0;
      for (int64_t i = 0; i < 64; ++i) {
        norm = std::max(norm, CanonicalSquaredNorm(RowOf(block, d, i)));
      }
      const float max_norm = std::nextafterf(
          static_cast<float>(std::min(std::sqrt(norm), 1e38)), kInfinity);
      for (int64_t i = 0; i < 64; ++i) {
        const double t = CanonicalDistance(metric, q, RowOf(block, d, i));
        const float cut =
            BoxCut(metric, d, CanonicalSquaredNorm(q), max_norm, t);
        const auto keep = metric == Metric::kSquaredL2
                              ? kLaneKernelsScalar.keep_l2
                              : kLaneKernelsScalar.keep_dot;
        ASSERT_TRUE(keep(block.rows, 4, d, q.data(), cut) >> i & 1)
            << MetricName(metric) << " seed " << TestSeed();
      }
    }
  }
}

TEST(CellBound, NeverExceedsTheDistanceOfARowInTheBall) {
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  for (int round = 0; round < 3000; ++round) {
    const int64_t d = 17 + static_cast<int64_t>(random() % 100);
    const float scale = std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
    const float spread = std::ldexp(scale, -static_cast<int>(random() % 24));
    std::vector<float> mean, row, query, lanes(d * kLanes, 0);
    for (int64_t j = 0; j < d; ++j) {
      mean.push_back(scale * normal(random));
      row.push_back(mean[j] + spread * normal(random));
      query.push_back(round % 2 ? scale * normal(random) : row[j]);
      lanes[j * kLanes] = mean[j];
    }
    float values[kLanes];
    std::vector<float> aligned(lanes.size() + 16);
    float* block = aligned.data();
    while (reinterpret_cast<uintptr_t>(block) % 64 != 0) ++block;
    std::copy(lanes.begin(), lanes.end(), block);
    const float radius = std::nextafterf(
        static_cast<float>(
            std::sqrt(CanonicalDistance(Metric::kSquaredL2, mean, row))),
        kInfinity);
    const float max_norm = std::nextafterf(
        static_cast<float>(std::sqrt(CanonicalSquaredNorm(mean))), kInfinity);
    for (Metric metric : {Metric::kSquaredL2, Metric::kInnerProduct}) {
      (metric == Metric::kSquaredL2
           ? kLaneKernelsScalar.values_l2
           : kLaneKernelsScalar.values_dot)(block, 1, d, query.data(), values);
      const CellBound bound(metric, d, CanonicalSquaredNorm(query), max_norm);
      ASSERT_LE(bound.Proven(values[0], radius),
                CanonicalDistance(metric, query, row))
          << MetricName(metric) << " seed " << TestSeed();
    }
  }
}

}  // namespace
}  // namespace coterie::internal_tree
