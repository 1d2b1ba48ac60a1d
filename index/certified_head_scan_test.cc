// A scan that asks a head first gives the canonical answers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_head.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/certified_test_world.h"
#include "index/code_simd.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/principal_directions.h"
#include "index/shared_threshold.h"
#include "index/test_vectors.h"
#include "index/top_k.h"

namespace coterie {
namespace {

using World = CertifiedTestWorld;

bool Never() { return false; }

class HeadScan {
 public:
  HeadScan(const World& world, int64_t directions)
      : world_(world),
        head_(world.scan_queries().metric(), world.rows().rows,
              PrincipalDirections(world.rows().rows, directions, 2)) {}

  // Rows [0, n) of the world, up to `cut` after the others.
  Answers Search(int64_t k, int64_t cut, CodeKernel kernel, int64_t* evaluated,
                 SharedThreshold* shared = nullptr) const {
    const CertifiedQueries queries(world_.scan_queries(), world_.codes(),
                                   kernel, CertifiedQueries::Depth::kFine);
    const CertifiedHeadQuery query(world_.scan_queries(), 0, head_, kernel);
    std::vector<TopK> tops(1, TopK(k));
    std::vector<ScanAccount> accounts(1);
    CertifiedScanner scanner(queries, world_.rows(), absl::MakeSpan(tops),
                             absl::MakeSpan(shared, shared == nullptr ? 0 : 1),
                             nullptr, &query);
    EXPECT_TRUE(scanner.Scan(cut, world_.n(), Never));
    EXPECT_TRUE(scanner.Scan(0, cut, Never));
    EXPECT_TRUE(scanner.Finish(absl::MakeSpan(accounts), Never));
    EXPECT_EQ(accounts[0].evaluated + accounts[0].ruled_out,
              world_.LiveRows(0, world_.n()));
    *evaluated = accounts[0].evaluated;
    return {tops[0].TakeSorted()};
  }

 private:
  const World& world_;
  const CertifiedHead head_;
};

TEST(CertifiedHeadScan, AnswersAreCanonical) {
  std::mt19937_64 random(TestSeed());
  const std::vector<std::string> kinds = {"gaussian", "clusters",   "grid",
                                          "outlier",  "log_normal", "far_query",
                                          "one_ulp",  "among"};
  for (size_t round = 0; round < 40; ++round) {
    const std::string& kind = kinds[round % kinds.size()];
    const Metric metric =
        random() % 2 == 0 ? Metric::kSquaredL2 : Metric::kCosine;
    const int64_t d = 2 + static_cast<int64_t>(random() % 30);
    const World world(kind, metric, 5000, 1, d, random() % 2 == 0, random);
    const HeadScan scan(world, std::min<int64_t>(d, round % 3 == 0 ? 1 : 5));
    for (const int64_t k : {1, 9, 50, 1200}) {
      for (const CodeKernel kernel : SupportedCodeKernels()) {
        int64_t evaluated = 0;
        ASSERT_EQ(scan.Search(k, static_cast<int64_t>(random() % 5001), kernel,
                              &evaluated),
                  world.Canonical(0, 5000, k))
            << kind << ", k " << k << "; SEED=" << TestSeed();
      }
    }
  }
}

TEST(CertifiedHeadScan, RulesOutMostRowsOfClusters) {
  std::mt19937_64 random(TestSeed());
  const World world("clusters", Metric::kSquaredL2, 5000, 1, 40, false, random);
  const HeadScan scan(world, 20);
  int64_t evaluated = 0;
  EXPECT_EQ(scan.Search(10, 0, ActiveCodeKernel(), &evaluated),
            world.Canonical(0, 5000, 10));
  EXPECT_LT(evaluated, 3000) << "SEED=" << TestSeed();
}

TEST(CertifiedHeadScan, ObeysAThresholdFoundElsewhere) {
  std::mt19937_64 random(TestSeed());
  const World world("gaussian", Metric::kCosine, 3000, 1, 16, false, random);
  const HeadScan scan(world, 12);
  const Answers expected = world.Canonical(0, 3000, 10);
  SharedThreshold shared;
  shared.Lower(expected[0].back().distance);
  int64_t evaluated = 0;
  int64_t alone = 0;
  EXPECT_EQ(scan.Search(10, 0, ActiveCodeKernel(), &evaluated, &shared),
            expected);
  EXPECT_EQ(scan.Search(10, 0, ActiveCodeKernel(), &alone), expected);
  EXPECT_LE(evaluated, alone) << "SEED=" << TestSeed();
}

}  // namespace
}  // namespace coterie
