#include "index/distance.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "index/distances.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using internal_distance::DotOn;
using internal_distance::SquaredL2On;

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};

std::vector<int64_t> Dimensions() {
  std::vector<int64_t> all;
  for (int64_t d = 0; d <= 40; ++d) all.push_back(d);
  for (int64_t d : {63, 64, 65, 100, 784}) all.push_back(d);
  return all;
}

uint64_t Bits(double x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The definition in the header, as literally as can be.
double LaneSum(const std::vector<double>& terms) {
  double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  for (size_t j = 0; j < terms.size(); ++j) lane[j % 8] += terms[j];
  for (int i = 0; i < 4; ++i) lane[i] += lane[i + 4];
  for (int i = 0; i < 2; ++i) lane[i] += lane[i + 2];
  return lane[0] + lane[1];
}

double DotModel(VectorView a, VectorView b) {
  std::vector<double> terms;
  for (size_t j = 0; j < a.size(); ++j) {
    terms.push_back(static_cast<double>(a[j]) * b[j]);
  }
  return LaneSum(terms);
}

double SquaredL2Model(VectorView a, VectorView b) {
  std::vector<double> terms;
  for (size_t j = 0; j < a.size(); ++j) {
    const double t = static_cast<double>(a[j]) - b[j];
    terms.push_back(t * t);
  }
  return LaneSum(terms);
}

// Sums to 113 bits: for these tests, real numbers.
struct Real {
  __float128 dot = 0;
  __float128 a_norm = 0;
  __float128 b_norm = 0;
  __float128 l2 = 0;

  Real(VectorView a, VectorView b) {
    for (size_t j = 0; j < a.size(); ++j) {
      const __float128 x = a[j];
      const __float128 y = b[j];
      dot += x * y;
      a_norm += x * x;
      b_norm += y * y;
      l2 += (x - y) * (x - y);
    }
  }

  // To 63 bits, as the square root comes from long double.
  long double norms() const {
    return std::sqrt(static_cast<long double>(a_norm)) *
           std::sqrt(static_cast<long double>(b_norm));
  }
};

// g_n of the header.
long double Gamma(int64_t n) {
  const long double nu = static_cast<long double>(n) * 0x1p-53L;
  return nu / (1 - nu);
}

void ExpectWithinBounds(VectorView q, VectorView x) {
  const int64_t chain = (static_cast<int64_t>(q.size()) + 7) / 8;
  const Real real(q, x);
  const long double slack = 1 + 0x1p-50L;  // of this test's own arithmetic

  const __float128 l2 = CanonicalDistance(Metric::kSquaredL2, q, x);
  const long double l2_error = static_cast<long double>(l2 - real.l2);
  EXPECT_LE(std::fabs(l2_error),
            Gamma(chain + 5) * slack * static_cast<long double>(real.l2));

  const __float128 ip = CanonicalDistance(Metric::kInnerProduct, q, x);
  const long double ip_error = static_cast<long double>(ip + real.dot);
  EXPECT_LE(std::fabs(ip_error), Gamma(chain + 2) * slack * real.norms());

  if (real.norms() == 0) return;
  const long double cosine = CanonicalDistance(Metric::kCosine, q, x);
  const long double true_cosine =
      1 - static_cast<long double>(real.dot) / real.norms();
  EXPECT_LE(std::fabs(cosine - true_cosine), Gamma(2 * chain + 12) + 0x1p-61L);
  EXPECT_GE(cosine, 0);
  EXPECT_LE(cosine, 2);
}

TEST(CanonicalDistance, ErrsByNoMoreThanTheHeaderSays) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const std::string& kind : TestVectorKinds()) {
    SCOPED_TRACE(kind);
    for (int64_t d : {1, 2, 3, 5, 8, 17, 64, 100, 784, 4096}) {
      SCOPED_TRACE(d);
      const TestVectors made = MakeTestVectors(kind, 6, 4, d, false, random);
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
          ExpectWithinBounds(made.queries_view().row(i),
                             made.rows_view().row(j));
        }
      }
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

TEST(CanonicalDistance, HasTheSameBitsOnEveryTarget) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const std::string& kind : TestVectorKinds()) {
    for (int64_t d : Dimensions()) {
      const TestVectors made =
          MakeTestVectors(kind, 2, 1, std::max<int64_t>(d, 1), false, random);
      for (int offset = 0; offset < 4; ++offset) {
        // Misaligned copies, differently for the two.
        std::vector<float> a(static_cast<size_t>(d + offset));
        std::vector<float> b(static_cast<size_t>(d + 3 - offset));
        const VectorView q = made.queries_view().row(0);
        const VectorView x = made.rows_view().row(offset % 2);
        std::copy_n(q.begin(), d, a.begin() + offset);
        std::copy_n(x.begin(), d, b.begin() + 3 - offset);
        const VectorView va(a.data() + offset, static_cast<size_t>(d));
        const VectorView vb(b.data() + 3 - offset, static_cast<size_t>(d));
        for (SimdTarget target : SupportedSimdTargets()) {
          ASSERT_EQ(Bits(DotOn(target, va, vb)), Bits(DotModel(va, vb)))
              << kind << ", d " << d << ", " << SimdTargetName(target);
          ASSERT_EQ(Bits(SquaredL2On(target, va, vb)),
                    Bits(SquaredL2Model(va, vb)))
              << kind << ", d " << d << ", " << SimdTargetName(target);
        }
      }
    }
  }
}

// Each case gives another value if the order is another one.
TEST(CanonicalDistance, AddsInTheFixedOrder) {
  const float big = 0x1p60f;
  const std::vector<float> ones(9, 1);
  const std::vector<float> lane = {big, 0, 0, 0, -big, 0, 0, 0, 1};
  const std::vector<float> fours = {big, 1, 0, 0, -big, 0, 0, 0, 0};
  const std::vector<float> twos = {big, 1, -big, 0, 0, 0, 0, 0, 0};
  for (SimdTarget target : SupportedSimdTargets()) {
    SCOPED_TRACE(SimdTargetName(target));
    EXPECT_EQ(DotOn(target, ones, lane), 0);   // 1 is lost in lane 0
    EXPECT_EQ(DotOn(target, ones, fours), 1);  // 0+4 come before 0+1
    EXPECT_EQ(DotOn(target, ones, twos), 1);   // 0+2 come before 0+1
  }
}

TEST(CanonicalDistance, RoundsSquaresBeforeAddingThem) {
  // Lane 0 holds a little less than 2^-53, then meets (1 + 2^-30)^2: with FMA
  // the 2^-60 of the square would tip the sum to the next double.
  for (size_t d : {9, 16}) {  // the second term in a tail or a full step
    std::vector<float> q(d, 0);
    std::vector<float> x(d, 0);
    q[0] = 1.41f * 0x1p-27f;
    q[8] = 1;
    x[8] = -0x1p-30f;
    for (SimdTarget target : SupportedSimdTargets()) {
      EXPECT_EQ(SquaredL2On(target, q, x), 1 + 0x1p-29)
          << SimdTargetName(target) << ", d " << d;
    }
  }
}

TEST(CanonicalDistance, OfNoDimensionsIsZero) {
  EXPECT_EQ(CanonicalDistance(Metric::kSquaredL2, {}, {}), 0);
  EXPECT_EQ(Bits(CanonicalDistance(Metric::kInnerProduct, {}, {})), Bits(0.0));
}

TEST(CanonicalDistance, ByInnerProductIsNeverMinusZero) {
  const std::vector<float> a = {0, -0.0f};
  const std::vector<float> b = {-1, 1};
  EXPECT_EQ(Bits(CanonicalDistance(Metric::kInnerProduct, a, b)), Bits(0.0));
}

TEST(CanonicalDistance, OfAZeroVectorUnderCosineIsOne) {
  const std::vector<float> zero = {0, 0};
  const std::vector<float> unit = {1, 0};
  EXPECT_EQ(CanonicalDistance(Metric::kCosine, zero, unit), 1);
  EXPECT_EQ(CanonicalDistance(Metric::kCosine, unit, zero), 1);
  EXPECT_EQ(CanonicalDistance(Metric::kCosine, zero, zero), 1);
}

TEST(CanonicalDistance, ToAPowerOfTwoMultipleIsExactlyZeroUnderCosine) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int64_t d : {1, 3, 17, 100, 784}) {
    const TestVectors made =
        MakeTestVectors("gaussian", 0, 20, d, true, random);
    for (int64_t i = 0; i < 20; ++i) {
      const VectorView q = made.queries_view().row(i);
      for (int e = -40; e <= 40; e += 8) {
        std::vector<float> x(q.begin(), q.end());
        for (float& component : x) component = std::ldexp(component, e);
        EXPECT_EQ(CanonicalDistance(Metric::kCosine, q, x), 0);
        for (float& component : x) component = -component;
        EXPECT_EQ(CanonicalDistance(Metric::kCosine, q, x), 2);
      }
    }
  }
}

TEST(CanonicalDistance, IsTheSameWithNormsGiven) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const std::string& kind : TestVectorKinds()) {
    const TestVectors made = MakeTestVectors(kind, 4, 4, 37, false, random);
    for (int64_t i = 0; i < 16; ++i) {
      const VectorView q = made.queries_view().row(i % 4);
      const VectorView x = made.rows_view().row(i / 4);
      for (Metric metric : kMetrics) {
        EXPECT_EQ(Bits(CanonicalDistance(metric, q, x)),
                  Bits(CanonicalDistance(metric, q, x, CanonicalSquaredNorm(q),
                                         CanonicalSquaredNorm(x))))
            << kind << " " << MetricName(metric);
      }
    }
  }
}

TEST(CanonicalDistance, IsSymmetric) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const std::string& kind : TestVectorKinds()) {
    const TestVectors made = MakeTestVectors(kind, 5, 5, 21, false, random);
    for (int64_t i = 0; i < 5; ++i) {
      const VectorView q = made.queries_view().row(i);
      const VectorView x = made.rows_view().row(i);
      for (Metric metric : kMetrics) {
        EXPECT_EQ(Bits(CanonicalDistance(metric, q, x)),
                  Bits(CanonicalDistance(metric, x, q)))
            << kind << " " << MetricName(metric);
      }
    }
  }
}

TEST(CanonicalDistance, StaysFiniteAtTheEndsOfTheRange) {
  const float most = 3.4028234e38f;
  const std::vector<float> a(kMaxDimension, most);
  const std::vector<float> b(kMaxDimension, -most);
  for (Metric metric : kMetrics) {
    EXPECT_TRUE(std::isfinite(CanonicalDistance(metric, a, b)));
  }
  EXPECT_EQ(CanonicalDistance(Metric::kCosine, a, b), 2);
  const std::vector<float> least = {0x1p-149f};
  EXPECT_EQ(CanonicalDistance(Metric::kInnerProduct, least, least), -0x1p-298);
  EXPECT_EQ(CanonicalDistance(Metric::kCosine, least, least), 0);
  EXPECT_EQ(CanonicalDistance(Metric::kSquaredL2, least, {0}), 0x1p-298);
}

// The page after the vectors cannot be read.
TEST(CanonicalDistance, ReadsNothingBehindTheVectors) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* guard = static_cast<char*>(memory) + page;
  ASSERT_EQ(mprotect(guard, page, PROT_NONE), 0);
  for (size_t d = 0; d <= 40; ++d) {
    float* v = reinterpret_cast<float*>(guard) - d;
    std::fill_n(v, d, 1.0f);
    for (SimdTarget target : SupportedSimdTargets()) {
      EXPECT_EQ(DotOn(target, {v, d}, {v, d}), static_cast<double>(d));
      EXPECT_EQ(SquaredL2On(target, {v, d}, {v, d}), 0);
    }
  }
  munmap(memory, 2 * page);
}

TEST(CanonicalDistances, HaveTheBitsOfOneAtATimeOnEveryTarget) {
  std::mt19937_64 random(TestSeed());
  const SimdTarget active = ActiveSimdTarget();
  for (const std::string& kind : TestVectorKinds()) {
    for (const int64_t d : Dimensions()) {
      if (d == 0) continue;
      const TestVectors made = MakeTestVectors(kind, 4, 1, d, true, random);
      const VectorView q = made.queries_view().row(0);
      const float* rows[kRowsAtOnce];
      double norms[kRowsAtOnce];
      for (int i = 0; i < kRowsAtOnce; ++i) {
        // One of them twice.
        const VectorView row = made.rows_view().row(std::min(i, 2));
        rows[i] = row.data();
        norms[i] = CanonicalSquaredNorm(row);
      }
      for (const SimdTarget target : SupportedSimdTargets()) {
        SetActiveSimdTargetForTest(target);
        for (const Metric metric : kMetrics) {
          double found[kRowsAtOnce];
          CanonicalDistances(metric, q, rows, CanonicalSquaredNorm(q), norms,
                             found);
          for (int i = 0; i < kRowsAtOnce; ++i) {
            ASSERT_EQ(
                Bits(found[i]),
                Bits(CanonicalDistance(
                    metric, q, VectorView(rows[i], static_cast<size_t>(d)))))
                << kind << ", d " << d << ", " << SimdTargetName(target)
                << "; SEED=" << TestSeed();
          }
        }
      }
    }
  }
  SetActiveSimdTargetForTest(active);
}

TEST(CanonicalDots, HaveTheBitsOfOneAtATime) {
  std::mt19937_64 random(TestSeed());
  for (const int64_t n : {1, 3, 4, 5, 9}) {
    const TestVectors made =
        MakeTestVectors("gaussian", n, 1, 21, false, random);
    std::vector<double> dots(static_cast<size_t>(n));
    CanonicalDots(made.queries_view().row(0), made.rows_view(), dots.data());
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(Bits(dots[static_cast<size_t>(i)]),
                Bits(CanonicalDot(made.queries_view().row(0),
                                  made.rows_view().row(i))));
    }
  }
}

}  // namespace
}  // namespace coterie
