#include "index/certified_scan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/certified_test_data.h"
#include "index/certified_test_world.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/shared_threshold.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

using Depth = CertifiedQueries::Depth;
using World = CertifiedTestWorld;

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool Never() { return false; }

struct Result {
  Answers answers;
  std::vector<ScanAccount> accounts;
};

// Scans [begin, end) in pieces cut at `cuts`, with the same tops throughout.
Result Search(const World& world, CodeKernel kernel, Depth depth, int64_t begin,
              int64_t end, int64_t k, const std::vector<int64_t>& cuts = {},
              const std::vector<double>& seeds = {},
              const CertifiedPlane* plane = nullptr) {
  std::vector<SharedThreshold> shared(seeds.size());
  for (size_t q = 0; q < seeds.size(); ++q) shared[q].Lower(seeds[q]);
  const CertifiedQueries queries(world.scan_queries(), world.codes(), kernel,
                                 depth);
  std::vector<TopK> tops(static_cast<size_t>(world.m()), TopK(k));
  Result result;
  result.accounts.resize(tops.size());
  std::vector<int64_t> bounds = cuts;
  bounds.push_back(end);
  for (int64_t bound : bounds) {
    EXPECT_TRUE(CertifiedScan(
        queries, world.rows(), begin, bound, absl::MakeSpan(tops),
        absl::MakeSpan(result.accounts), Never, absl::MakeSpan(shared), plane));
    begin = bound;
  }
  for (TopK& top : tops) result.answers.push_back(top.TakeSorted());
  return result;
}

void ExpectAccounts(const Result& result, int64_t live) {
  for (const ScanAccount& account : result.accounts) {
    EXPECT_EQ(account.evaluated + account.ruled_out, live);
    EXPECT_GE(account.ruled_out, 0);
  }
}

TEST(CertifiedScan, EqualsACanonicalScanOfEveryKindOfData) {
  std::mt19937_64 random(TestSeed());
  for (const std::string& kind : CertifiedTestKinds()) {
    for (Metric metric : kMetrics) {
      const int64_t n = 1 + static_cast<int64_t>(random() % 1500);
      const int64_t m = 1 + static_cast<int64_t>(random() % 14);
      const int64_t d = 1 + static_cast<int64_t>(random() % 40);
      const World world(kind, metric, n, m, d, random() % 2 == 0, random);
      const int64_t ks[] = {1, 10, 100, n + 5};
      const int64_t k = ks[random() % 4];
      const Answers expected = world.Canonical(0, n, k);
      for (CodeKernel kernel : SupportedCodeKernels()) {
        for (Depth depth : {Depth::kCoarse, Depth::kFine}) {
          const Result result = Search(world, kernel, depth, 0, n, k);
          ASSERT_EQ(result.answers, expected)
              << kind << ", " << MetricName(metric) << ", n " << n << ", m "
              << m << ", d " << d << ", k " << k << ", "
              << CodeKernelName(kernel) << "; SEED=" << TestSeed();
          ExpectAccounts(result, world.LiveRows(0, n));
          if (depth == Depth::kCoarse) continue;
          const Result halved =
              Search(world, kernel, depth, 0, n, k, {}, {}, &world.plane());
          ASSERT_EQ(halved.answers, expected)
              << kind << ", " << MetricName(metric) << ", n " << n << ", d "
              << d << ", k " << k << ", plane, " << CodeKernelName(kernel)
              << "; SEED=" << TestSeed();
          ExpectAccounts(halved, world.LiveRows(0, n));
        }
      }
    }
  }
}

TEST(CertifiedScan, EqualsTheExactScan) {
  std::mt19937_64 random(TestSeed());
  for (Metric metric : kMetrics) {
    const World world("gaussian", metric, 5000, 9, 50, true, random);
    std::vector<TopK> tops(9, TopK(20));
    std::vector<ScanAccount> accounts(9);
    ASSERT_TRUE(ExactScan(world.scan_queries(), world.rows(), 0, 5000,
                          absl::MakeSpan(tops), absl::MakeSpan(accounts),
                          Never));
    Answers expected;
    for (TopK& top : tops) expected.push_back(top.TakeSorted());
    EXPECT_EQ(
        Search(world, ActiveCodeKernel(), Depth::kCoarse, 0, 5000, 20).answers,
        expected);
  }
}

TEST(CertifiedScan, AnswersDoNotDependOnTheRangesScanned) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 40; ++round) {
    const std::string kind = round % 2 == 0 ? "grid" : "gaussian";
    const Metric metric = kMetrics[round % 3];
    const World world(kind, metric, 3000, 8, 3, random() % 2 == 0, random);
    int64_t begin = static_cast<int64_t>(random() % 3001);
    int64_t end = static_cast<int64_t>(random() % 3001);
    if (begin > end) std::swap(begin, end);
    std::vector<int64_t> cuts;
    for (int i = 0; i < 3; ++i) {
      cuts.push_back(begin +
                     static_cast<int64_t>(random() % (end - begin + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    const Result result =
        Search(world, ActiveCodeKernel(), Depth::kCoarse, begin, end, 15, cuts);
    ASSERT_EQ(result.answers, world.Canonical(begin, end, 15))
        << kind << ", [" << begin << ", " << end << "); SEED=" << TestSeed();
    ExpectAccounts(result, world.LiveRows(begin, end));
  }
}

TEST(CertifiedScan, MergedPartsEqualTheWhole) {
  // As threads do it: disjoint ranges, tops of their own.
  std::mt19937_64 random(TestSeed());
  const World world("grid", Metric::kSquaredL2, 4000, 5, 4, true, random);
  const Answers whole = world.Canonical(0, 4000, 12);
  std::vector<Result> parts;
  for (int64_t i = 0; i < 4; ++i) {
    parts.push_back(Search(world, ActiveCodeKernel(), Depth::kCoarse, i * 1000,
                           (i + 1) * 1000, 12));
  }
  for (size_t q = 0; q < whole.size(); ++q) {
    std::vector<std::vector<Neighbor>> lists;
    for (const Result& part : parts) lists.push_back(part.answers[q]);
    EXPECT_EQ(MergeTopK(lists, 12).neighbors, whole[q])
        << "SEED=" << TestSeed();
  }
}

TEST(CertifiedScan, SeedsChangeCountsButNeverAnswers) {
  std::mt19937_64 random(TestSeed());
  for (const char* kind : {"gaussian", "grid", "identical"}) {
    for (Metric metric : kMetrics) {
      const World world(kind, metric, 4000, 8, 24, true, random);
      const Answers expected = world.Canonical(0, 4000, 10);
      std::vector<double> exact;
      std::vector<double> loose;
      for (const std::vector<Neighbor>& answer : expected) {
        exact.push_back(answer.back().distance);
        loose.push_back(random() % 2 == 0
                            ? kInfinity
                            : answer.back().distance +
                                  0.1 * std::abs(answer.back().distance));
      }
      for (const std::vector<double>& seeds : {exact, loose}) {
        EXPECT_EQ(Search(world, ActiveCodeKernel(), Depth::kCoarse, 0, 4000, 10,
                         {}, seeds)
                      .answers,
                  expected)
            << kind << "; SEED=" << TestSeed();
      }
    }
  }
}

TEST(CertifiedScan, RadiusIsInclusive) {
  std::mt19937_64 random(TestSeed());
  const World world("grid", Metric::kSquaredL2, 2500, 3, 5, false, random);
  const CertifiedQueries queries(world.scan_queries(), world.codes());
  const Answers all = world.Canonical(0, 2500, 2500);
  for (double radius : {0.0, 1.0, 4.0}) {
    std::vector<TopK> tops(3, TopK(2500, radius));
    std::vector<ScanAccount> accounts(3);
    ASSERT_TRUE(CertifiedScan(queries, world.rows(), 0, 2500,
                              absl::MakeSpan(tops), absl::MakeSpan(accounts),
                              Never));
    for (size_t q = 0; q < tops.size(); ++q) {
      std::vector<Neighbor> expected;
      for (const Neighbor& n : all[q]) {
        if (n.distance <= radius) expected.push_back(n);
      }
      EXPECT_EQ(tops[q].TakeSorted(), expected) << radius;
    }
  }
}

TEST(CertifiedScan, EqualRowsAreAllRescored) {
  std::mt19937_64 random(TestSeed());
  const World world("identical", Metric::kSquaredL2, 1500, 1, 8, false, random);
  const Result result =
      Search(world, ActiveCodeKernel(), Depth::kFine, 0, 1500, 3);
  EXPECT_EQ(result.answers, world.Canonical(0, 1500, 3));
  EXPECT_EQ(result.accounts[0].evaluated, 1500);
}

TEST(CertifiedScan, RulesOutNearlyAllRowsOfEasyData) {
  std::mt19937_64 random(TestSeed());
  for (Metric metric : kMetrics) {
    const World world("gaussian", metric, 20'000, 4, 100, false, random);
    for (CodeKernel kernel : SupportedCodeKernels()) {
      const Result result =
          Search(world, kernel, Depth::kCoarse, 0, 20'000, 10);
      for (const ScanAccount& account : result.accounts) {
        EXPECT_LT(account.evaluated, 200) << CodeKernelName(kernel);
      }
    }
  }
}

TEST(CertifiedScan, FineQueriesRescoreLess) {
  std::mt19937_64 random(TestSeed());
  const World world("gaussian", Metric::kSquaredL2, 20'000, 8, 64, false,
                    random);
  const auto rescored = [&](Depth depth) {
    int64_t sum = 0;
    for (const ScanAccount& a :
         Search(world, CodeKernel::kScalar, depth, 0, 20'000, 10).accounts) {
      sum += a.evaluated;
    }
    return sum;
  };
  EXPECT_LT(rescored(Depth::kFine), rescored(Depth::kCoarse));
}

TEST(CertifiedScan, StopsAtOnceWhenAsked) {
  std::mt19937_64 random(TestSeed());
  const World world("gaussian", Metric::kSquaredL2, 2000, 2, 4, false, random);
  const CertifiedQueries queries(world.scan_queries(), world.codes());
  std::vector<TopK> tops(2, TopK(3));
  std::vector<ScanAccount> accounts(2);
  EXPECT_FALSE(CertifiedScan(queries, world.rows(), 0, 2000,
                             absl::MakeSpan(tops), absl::MakeSpan(accounts),
                             [] { return true; }));
  EXPECT_EQ(tops[0].size(), 0);
}

TEST(CertifiedScan, AsksForEvery256KiB) {
  std::mt19937_64 random(TestSeed());
  // Equal rows: half of what is read is for re-scoring.
  for (const char* kind : {"gaussian", "identical"}) {
    const World world(kind, Metric::kSquaredL2, 20'000, 7, 64, false, random);
    const CertifiedQueries queries(world.scan_queries(), world.codes());
    std::vector<TopK> tops(7, TopK(3));
    std::vector<ScanAccount> accounts(7);
    int64_t asked = 0;
    ASSERT_TRUE(CertifiedScan(queries, world.rows(), 0, 20'000,
                              absl::MakeSpan(tops), absl::MakeSpan(accounts),
                              [&asked] { return ++asked < 0; }));
    int64_t bytes = 2 * 20'000 * 64;  // two tiles of queries
    for (const ScanAccount& a : accounts) bytes += a.evaluated * 64 * 4;
    // A step of at most 192 KiB may go beyond the 256 KiB.
    EXPECT_GE(asked, bytes / (448 << 10)) << kind;
    // And a scan that is stopped at some later time says so.
    int64_t left = asked - 1;
    EXPECT_FALSE(CertifiedScan(queries, world.rows(), 0, 20'000,
                               absl::MakeSpan(tops), absl::MakeSpan(accounts),
                               [&left] { return --left < 0; }))
        << kind;
  }
}

TEST(CertifiedScan, OfNoRowsOrNoQueriesIsEmpty) {
  std::mt19937_64 random(TestSeed());
  const World world("gaussian", Metric::kCosine, 100, 2, 3, false, random);
  const Result result =
      Search(world, ActiveCodeKernel(), Depth::kCoarse, 50, 50, 3);
  EXPECT_EQ(result.answers, Answers(2));
  ExpectAccounts(result, 0);

  const ScanQueries none(Metric::kCosine, {nullptr, 0, 3, 3});
  const CertifiedQueries queries(none, world.codes());
  EXPECT_TRUE(CertifiedScan(queries, world.rows(), 0, 100, {}, {}, Never));

  const CertifiedCodes empty(Metric::kCosine, {nullptr, 0, 3, 3});
  const CertifiedQueries of_empty(world.scan_queries(), empty);
  std::vector<TopK> tops(2, TopK(3));
  std::vector<ScanAccount> accounts(2);
  EXPECT_TRUE(CertifiedScan(of_empty, ScanRows{{nullptr, 0, 3, 3}}, 0, 0,
                            absl::MakeSpan(tops), absl::MakeSpan(accounts),
                            Never));
}

}  // namespace
}  // namespace coterie
