#include "index/certified_head.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "index/certified_bound.h"
#include "index/certified_codes.h"
#include "index/certified_dispatch.h"
#include "index/certified_kernels.h"
#include "index/certified_slack.h"
#include "index/certified_test_data.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/principal_directions.h"
#include "index/test_vectors.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using internal_certified::CodeHit;
using internal_certified::CodeTile;
using internal_certified::FineKernelFor;

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kCosine};
constexpr int64_t kGroupRows = CertifiedCodes::kGroupRows;

// How often the random data sets are drawn; the long test draws more.
int64_t Rounds() {
  const char* text = std::getenv("ROUNDS");
  return text == nullptr ? 1 : std::atoll(text);
}

bool InRange(const CertifiedTestData& data) {
  return std::all_of(data.rows.begin(), data.rows.end(), [](float v) {
    return std::fabs(v) <= CertifiedHead::kMostMagnitude;
  });
}

// Any directions are valid: principal ones, axes, and such as are neither
// orthogonal nor of length one, some of them equal or zero.
std::vector<float> DrawDirections(const CertifiedTestData& data,
                                  std::mt19937_64& random) {
  const int64_t d = data.d;
  const RowsView rows = data.rows_view();
  const int64_t m =
      1 + static_cast<int64_t>(random() % static_cast<uint64_t>(std::min(
                                              {d, rows.n, int64_t{40}})));
  std::vector<float> directions(static_cast<size_t>(m * d));
  switch (random() % 4) {
    case 0: {
      // Of large rows squares overflow; then any will do.
      std::vector<float> small = data.rows;
      for (float& v : small) v = std::clamp(v, -1e9f, 1e9f);
      return PrincipalDirections({small.data(), rows.n, d, d}, m, 2);
    }
    case 1:
      for (int64_t i = 0; i < m; ++i) {
        directions[static_cast<size_t>(i * d + i)] = 1;
      }
      return directions;
    default: {
      std::normal_distribution<float> normal;
      const float scale = std::exp(normal(random));
      for (float& v : directions) v = scale * normal(random);
      if (m > 2) {
        std::copy_n(directions.begin(), d, directions.begin() + d);
        std::fill_n(directions.begin() + 2 * d, d, 0.0f);
      }
      return directions;
    }
  }
}

// Checks every bound of a head on every pair of a data set.
class HeadCheck {
 public:
  struct Losses {
    int64_t pairs = 0;
    int64_t apart = 0;  // farther apart in the head than in truth
    int64_t lower = 0;
    int64_t upper = 0;
    int64_t dropped = 0;  // by a kernel, at the row's own distance
    std::string first;

    int64_t all() const { return apart + lower + upper + dropped; }
  };

  HeadCheck(const CertifiedTestData& data, Metric metric,
            std::vector<float> directions, const CertifiedSlack& slack)
      : data_(data),
        queries_(metric, data.queries_view()),
        head_(metric, data.rows_view(), std::move(directions), slack) {}

  void Run(CodeKernel kernel, Losses& losses) const {
    CertifiedHead::Projection row;
    for (int64_t q = 0; q < queries_.size(); ++q) {
      const CertifiedHeadQuery query(queries_, q, head_, kernel);
      const VectorView z = query.coded().queries().query(0);
      for (int64_t i = 0; i < data_.rows_view().n; ++i) {
        head_.Project(data_.rows_view().row(i), row);
        const double truth = CanonicalDistance(
            queries_.metric(), queries_.query(q), data_.rows_view().row(i));
        CheckExact(query, i, CanonicalDistance(Metric::kSquaredL2, z, row.z),
                   truth, losses);
        CheckCoded(query, i, truth, losses);
        ++losses.pairs;
      }
    }
  }

 private:
  void CheckExact(const CertifiedHeadQuery& query, int64_t row, double apart,
                  double truth, Losses& losses) const {
    const int64_t panel = row / CertifiedCodes::kPanelRows;
    Expect(apart <= query.ThresholdFor(panel, truth), "apart", losses.apart,
           losses);
    Expect(query.Lower(panel, apart) <= truth, "lower", losses.lower, losses);
    Expect(query.Upper(row, apart) >= truth, "upper", losses.upper, losses);
  }

  // The same through the codes, at a threshold of the row's own distance.
  void CheckCoded(const CertifiedHeadQuery& query, int64_t row, double truth,
                  Losses& losses) const {
    const CertifiedCodes& codes = head_.codes();
    const CertifiedQueries& coded = query.coded();
    const int64_t panel = row / CertifiedCodes::kPanelRows;
    const CertifiedCut cut = CutFor(codes, coded.query(0), codes.panel(panel),
                                    query.ThresholdFor(panel, truth));
    const int64_t first = row / kGroupRows * kGroupRows;
    const uint64_t live = uint64_t{1} << (row % kGroupRows);
    const CodeTile tile = {
        .codes = codes.block(first),
        .groups = 1,
        .quads = codes.quads(),
        .a = codes.a(first),
        .b = codes.b(first),
        .live = &live,
        .queries = coded.quads(0),
        .query_stride = coded.quad_stride(),
        .starts = coded.starts(0),
        .cut_a = &cut.a,
        .cut_b = &cut.b,
        .cut_k = &cut.k,
        .ahead = nullptr,
    };
    CodeHit hits[kGroupRows];
    const bool kept =
        FineKernelFor(coded.kernel())(tile, coded.low_bits(), hits) == 1;
    Expect(kept, "dropped", losses.dropped, losses);
    if (!kept) return;
    const CertifiedScore score = {*codes.a(row), *codes.b(row), hits[0].ip};
    const CertifiedRange::Bounds range =
        CertifiedRange(codes, coded.query(0)).Of(codes.panel(panel), score);
    const double lower =
        LowerBound(codes, coded.query(0), codes.panel(panel), score);
    Expect(query.Lower(panel, range.lower) <= truth &&
               query.Lower(panel, lower) <= truth,
           "coded lower", losses.lower, losses);
    Expect(query.Upper(row, range.upper) >= truth, "coded upper", losses.upper,
           losses);
  }

  void Expect(bool holds, const char* what, int64_t& count,
              Losses& losses) const {
    if (holds) return;
    ++count;
    if (losses.first.empty()) {
      losses.first =
          absl::StrCat(what, ": kind ", data_.kind, ", ",
                       absl::string_view(MetricName(queries_.metric())), ", d ",
                       data_.d, ", ", head_.directions(), " directions");
    }
  }

  const CertifiedTestData& data_;
  const ScanQueries queries_;
  const CertifiedHead head_;
};

class CertifiedHeadTest : public testing::TestWithParam<int64_t> {};

TEST_P(CertifiedHeadTest, LosesNoRowOfAnyPair) {
  std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(GetParam()));
  const int64_t n = GetParam() > 1000 ? 8 : GetParam() > 100 ? 40 : 75;
  for (int64_t round = 0; round < Rounds(); ++round) {
    for (const std::string& kind : CertifiedTestKinds()) {
      for (const Metric metric : kMetrics) {
        const CertifiedTestData data =
            MakeCertifiedTestData(kind, metric, n, 9, GetParam(), random);
        if (!InRange(data)) continue;
        const HeadCheck check(data, metric, DrawDirections(data, random),
                              CertifiedSlack());
        HeadCheck::Losses losses;
        for (const CodeKernel kernel : SupportedCodeKernels()) {
          check.Run(kernel, losses);
        }
        ASSERT_EQ(losses.all(), 0) << losses.first << "; of " << losses.pairs
                                   << "; SEED=" << TestSeed();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dimensions, CertifiedHeadTest,
                         testing::Values(1, 2, 3, 8, 17, 64, 100, 784,
                                         kMaxDimension));

TEST(CertifiedHead, AQueryBeyondFloatRulesNothingOut) {
  const std::vector<float> rows = {1, 2, 3, 4};
  const std::vector<float> far = {3e38f, -3e38f};
  const CertifiedHead head(Metric::kSquaredL2, {rows.data(), 2, 2, 2}, {1, 0});
  const ScanQueries queries(Metric::kSquaredL2, {far.data(), 1, 2, 2});
  const CertifiedHeadQuery query(queries, 0, head);
  EXPECT_EQ(query.Lower(0, 1e9), 0);
  EXPECT_TRUE(std::isinf(query.ThresholdFor(0, 1)));
  EXPECT_TRUE(std::isinf(query.Upper(0, 1)));
}

struct Mutation {
  std::string name;
  CertifiedFault fault;
  std::vector<std::string> kinds;
};

void PrintTo(const Mutation& m, std::ostream* os) { *os << m.name; }

class CertifiedHeadMutation : public testing::TestWithParam<Mutation> {};

TEST_P(CertifiedHeadMutation, BreaksABoundThatTheSoundHeadKeeps) {
  std::mt19937_64 random(TestSeed());
  CertifiedSlack slack;
  slack.fault = GetParam().fault;
  HeadCheck::Losses spoilt;
  HeadCheck::Losses sound;
  for (int round = 0; round < 40 && spoilt.all() == 0; ++round) {
    for (const std::string& kind : GetParam().kinds) {
      for (const Metric metric : kMetrics) {
        for (const int64_t d : {2, 3, 8, 17, 64}) {
          const CertifiedTestData data =
              MakeCertifiedTestData(kind, metric, 70, 6, d, random);
          const std::vector<float> directions = DrawDirections(data, random);
          HeadCheck(data, metric, directions, slack)
              .Run(CodeKernel::kScalar, spoilt);
          HeadCheck(data, metric, directions, CertifiedSlack())
              .Run(CodeKernel::kScalar, sound);
        }
      }
    }
  }
  EXPECT_GT(spoilt.all(), 0)
      << "of " << spoilt.pairs << "; SEED=" << TestSeed();
  EXPECT_EQ(sound.all(), 0) << sound.first << "; SEED=" << TestSeed();
  RecordProperty("apart", static_cast<int>(spoilt.apart));
  RecordProperty("upper", static_cast<int>(spoilt.upper));
}

INSTANTIATE_TEST_SUITE_P(
    All, CertifiedHeadMutation,
    testing::Values(
        Mutation{"NoError",
                 CertifiedFault::kNoHeadError,
                 {"one_ulp", "identical", "clusters"}},
        Mutation{"NoFactor",
                 CertifiedFault::kNoHeadFactor,
                 {"gaussian", "clusters"}},
        Mutation{"NoRest", CertifiedFault::kNoHeadRest, {"gaussian", "norms"}},
        Mutation{"RestInFloat",
                 CertifiedFault::kHeadRestInFloat,
                 {"gaussian", "identical", "outlier"}}),
    [](const testing::TestParamInfo<Mutation>& test) {
      return test.param.name;
    });

// Rows that differ by `spread` in few directions and by 1 in all.
std::vector<float> FlatRows(int64_t n, int64_t d, int64_t few, float spread,
                            std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> axes(static_cast<size_t>(few * d));
  for (float& v : axes) {
    v = spread * normal(random) / std::sqrt(static_cast<float>(d));
  }
  std::vector<float> rows(static_cast<size_t>(n * d));
  for (float& v : rows) v = normal(random);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t a = 0; a < few; ++a) {
      const float by = normal(random);
      for (int64_t j = 0; j < d; ++j) {
        rows[static_cast<size_t>(i * d + j)] +=
            by * axes[static_cast<size_t>(a * d + j)];
      }
    }
  }
  return rows;
}

TEST(CertifiedHeadChoice, TakesAHeadWhereRowsLieInFewDirections) {
  constexpr int64_t kRows = 17000;
  constexpr int64_t kD = 128;
  constexpr double kPlaneBytes = kD / 2 + 8;
  std::mt19937_64 random(TestSeed());
  std::vector<float> flat = FlatRows(kRows, kD, 6, 200, random);
  const RowsView rows = {flat.data(), kRows, kD, kD};
  const auto head =
      CertifiedHead::MakeIfPays(Metric::kSquaredL2, rows, kPlaneBytes, 0.6);
  ASSERT_NE(head, nullptr) << "SEED=" << TestSeed();
  EXPECT_LT(head->directions(), 32);
  EXPECT_EQ(head->directions() % 4, 3);
  const auto again =
      CertifiedHead::MakeIfPays(Metric::kSquaredL2, rows, kPlaneBytes, 0.6);
  EXPECT_EQ(again->codes().parts().codes, head->codes().parts().codes);
  EXPECT_EQ(
      CertifiedHead::MakeIfPays(Metric::kInnerProduct, rows, kPlaneBytes, 0.6),
      nullptr);
  EXPECT_EQ(CertifiedHead::MakeIfPays(Metric::kSquaredL2, rows, 8, 0.6),
            nullptr)
      << "nothing is cheaper than that";
  flat[77] = 1e30f;
  EXPECT_EQ(
      CertifiedHead::MakeIfPays(Metric::kSquaredL2, rows, kPlaneBytes, 0.6),
      nullptr)
      << "out of range";
}

TEST(CertifiedHeadChoice, TakesNoneWhereAllDirectionsMatter) {
  constexpr int64_t kRows = 17000;
  constexpr int64_t kD = 64;
  std::mt19937_64 random(TestSeed());
  const std::vector<float> round = FlatRows(kRows, kD, 0, 0, random);
  for (const Metric metric : kMetrics) {
    EXPECT_EQ(CertifiedHead::MakeIfPays(metric, {round.data(), kRows, kD, kD},
                                        kD / 2 + 8, 0.6),
              nullptr);
  }
}

TEST(PrincipalDirections, AreThoseInWhichRowsDifferMost) {
  constexpr int64_t kD = 20;
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  std::vector<float> rows(500 * kD);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto axis = i % kD;
    const float spread = axis == 7 ? 100.0f : axis == 3 ? 20.0f : 1.0f;
    rows[i] = spread * normal(random);
  }
  const std::vector<float> found =
      PrincipalDirections({rows.data(), 500, kD, kD}, 2, 8);
  EXPECT_NEAR(std::fabs(found[7]), 1, 1e-2) << "SEED=" << TestSeed();
  EXPECT_NEAR(std::fabs(found[kD + 3]), 1, 1e-2) << "SEED=" << TestSeed();
}

TEST(PrincipalDirections, AreOrthonormalAndZeroBeyondTheRank) {
  constexpr int64_t kD = 12;
  std::mt19937_64 random(TestSeed());
  std::normal_distribution<float> normal;
  std::vector<float> rows(60 * kD);
  for (int64_t i = 0; i < 60; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      rows[static_cast<size_t>(i * kD + j)] = normal(random);
    }
  }
  const std::vector<float> found =
      PrincipalDirections({rows.data(), 60, kD, kD}, 8, 5);
  const RowsView views = {found.data(), 8, kD, kD};
  for (int64_t i = 0; i < 8; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_NEAR(CanonicalDot(views.row(i), views.row(j)),
                  i == j && i < 5 ? 1 : 0, 1e-6);
    }
  }
}

}  // namespace
}  // namespace coterie
