#include "index/certified_codes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "index/certified_test_data.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};

int CodeAt(const CertifiedCodes& codes, int64_t row, int64_t j) {
  return codes.block(row / 16 * 16)[j / 4 * 64 + row % 16 * 4 + j % 4] - 128;
}

// Row i, centred, in units, in extended precision.
std::vector<long double> Centred(const CertifiedCodes& codes, VectorView x) {
  long double norm = 1;
  if (codes.metric() == Metric::kCosine) {
    norm = 0;
    for (float v : x) norm += static_cast<long double>(v) * v;
    norm = std::sqrt(norm);
  }
  std::vector<long double> y;
  for (size_t j = 0; j < x.size(); ++j) {
    y.push_back(std::ldexp(x[j] / norm - codes.centre()[j], -codes.unit()));
  }
  return y;
}

TEST(CertifiedCodes, FieldsBoundEveryRow) {
  std::mt19937_64 random(TestSeed());
  for (const std::string& kind : CertifiedTestKinds()) {
    for (Metric metric : kMetrics) {
      const int64_t d = 1 + static_cast<int64_t>(random() % 50);
      const CertifiedTestData data =
          MakeCertifiedTestData(kind, metric, 150, 1, d, random);
      CertifiedCodes::Options options;
      options.clip = data.clip;
      options.centre = data.centre;
      const CertifiedCodes codes(metric, data.rows_view(), options);
      const CertifiedPanel& panel = codes.panel(0);
      for (int64_t i = 0; i < codes.size(); ++i) {
        const auto y = Centred(codes, data.rows_view().row(i));
        const long double a = *codes.a(i);
        long double error = 0;
        long double overlap = 0;  // <y^, y - y^>
        long double fit = 0;      // |y^|^2
        long double norm = 0;
        long double code = 0;
        for (size_t j = 0; j < y.size(); ++j) {
          const long double c = CodeAt(codes, i, static_cast<int64_t>(j));
          const long double r = y[j] - c / a;
          error += r * r;
          overlap += c / a * r;
          fit += c / a * (c / a);
          norm += y[j] * y[j];
          code += c * c;
        }
        const std::string where = kind + ", row " + std::to_string(i) + ", d " +
                                  std::to_string(d) +
                                  "; SEED=" + std::to_string(TestSeed());
        ASSERT_TRUE(std::isnormal(*codes.a(i))) << where;
        ASSERT_LE(a, 0x1p31) << where;
        ASSERT_GE(*codes.b(i), 0) << where;
        ASSERT_LE(*codes.b(i), 0x1p27) << where;
        ASSERT_LE(*codes.b(i), a * norm) << where;
        ASSERT_LE(std::sqrt(error), panel.error) << where;
        ASSERT_LE(std::sqrt(error) * a, panel.code_error) << where;
        ASSERT_LE(std::sqrt(code), panel.code_norm) << where;
        ASSERT_LE(a, panel.a) << where;
        // Unit vectors are computed to within 2^-41.
        const long double wrong = metric == Metric::kCosine
                                      ? std::ldexp(1.0L, -41 - codes.unit())
                                      : 0;
        ASSERT_LE(overlap, 0x1p-50 * fit + wrong * std::sqrt(fit)) << where;
      }
    }
  }
}

TEST(CertifiedCodes, PaddingIsTheCodeOfZero) {
  std::mt19937_64 random(TestSeed());
  const CertifiedTestData data =
      MakeCertifiedTestData("gaussian", Metric::kSquaredL2, 70, 1, 6, random);
  const CertifiedCodes codes(Metric::kSquaredL2, data.rows_view());
  EXPECT_EQ(codes.quads(), 2);
  for (int64_t row = 0; row < 128; ++row) {
    for (int64_t j = 0; j < 8; ++j) {
      if (row >= 70 || j >= 6) {
        EXPECT_EQ(CodeAt(codes, row, j), 0);
      }
    }
  }
}

TEST(CertifiedCodes, CodesFillTheirRange) {
  std::mt19937_64 random(TestSeed());
  const CertifiedTestData data =
      MakeCertifiedTestData("gaussian", Metric::kSquaredL2, 100, 1, 20, random);
  const CertifiedCodes codes(Metric::kSquaredL2, data.rows_view());
  for (int64_t row = 0; row < 100; ++row) {
    int largest = 0;
    for (int64_t j = 0; j < 20; ++j) {
      largest = std::max(largest, std::abs(CodeAt(codes, row, j)));
    }
    EXPECT_EQ(largest, 127);
  }
}

TEST(CertifiedCodes, CentreIsTheMeanOfTheRows) {
  const std::vector<float> rows = {1, 10, 3, 30, 5, 50};
  const CertifiedCodes codes(Metric::kSquaredL2, {rows.data(), 3, 2, 2});
  EXPECT_EQ(codes.centre()[0], 3.0f);
  EXPECT_EQ(codes.centre()[1], 30.0f);
  EXPECT_EQ(codes.unit(), 4);  // 20 lies in [2^4, 2^5)
}

TEST(CertifiedCodes, RowsMayBeStrided) {
  std::mt19937_64 random(TestSeed());
  const CertifiedTestData data =
      MakeCertifiedTestData("gaussian", Metric::kCosine, 100, 1, 12, random);
  std::vector<float> wide(100 * 16, 7.0f);
  for (size_t i = 0; i < 100; ++i) {
    std::copy_n(data.rows.data() + i * 12, 12, wide.data() + i * 16);
  }
  const CertifiedCodes dense(Metric::kCosine, data.rows_view());
  const CertifiedCodes strided(Metric::kCosine, {wide.data(), 100, 12, 16});
  EXPECT_EQ(std::memcmp(dense.block(0), strided.block(0), 112 * 12), 0);
  EXPECT_TRUE(std::equal(dense.a(0), dense.a(0) + 100, strided.a(0)));
  EXPECT_TRUE(std::equal(dense.b(0), dense.b(0) + 100, strided.b(0)));
}

TEST(CertifiedCodes, TakeAByteADimensionAndEightARow) {
  const int64_t n = 64 * 1024;
  const int64_t d = 100;
  const std::vector<float> rows(static_cast<size_t>(n * d), 1.0f);
  const CertifiedCodes codes(Metric::kSquaredL2, {rows.data(), n, d, d});
  EXPECT_GE(codes.MemoryBytes(), n * (d + 8));
  EXPECT_LE(codes.MemoryBytes(), n * (d + 8) * 101 / 100);
}

}  // namespace
}  // namespace coterie
