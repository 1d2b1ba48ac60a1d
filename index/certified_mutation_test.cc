// Shows that the other tests of the certified scan can fail: each slack or step
// of the proofs is taken away, and a row that belongs to an answer is lost.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/certified_slack.h"
#include "index/certified_test_check.h"
#include "index/certified_test_data.h"
#include "index/code_simd.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr CertifiedQueries::Depth kDepths[] = {CertifiedQueries::Depth::kCoarse,
                                               CertifiedQueries::Depth::kFine};

CertifiedSlack Spoilt(const std::function<void(CertifiedSlack&)>& change) {
  CertifiedSlack slack;
  change(slack);
  return slack;
}

CertifiedSlack Fault(CertifiedFault fault) {
  return Spoilt([fault](CertifiedSlack& s) { s.fault = fault; });
}

struct Mutation {
  std::string name;
  CertifiedSlack slack;
  std::vector<std::string> kinds;
  std::vector<Metric> metrics;
};

void PrintTo(const Mutation& m, std::ostream* os) { *os << m.name; }

const std::vector<Metric>& AllMetrics() {
  static const auto& all = *new std::vector<Metric>{
      Metric::kSquaredL2, Metric::kInnerProduct, Metric::kCosine};
  return all;
}

std::vector<Mutation> Mutations() {
  const std::vector<Metric> all = AllMetrics();
  return {
      {"NoRowError",
       Spoilt([](auto& s) { s.row_error = 0; }),
       {"gaussian", "heavy_tail", "clusters"},
       all},
      {"NoQueryError",
       Spoilt([](auto& s) { s.query_error = 0; }),
       {"gaussian", "heavy_tail", "clusters"},
       all},
      {"ErrorsTenthShort",
       Spoilt([](auto& s) {
         s.row_error = 0.9;
         s.query_error = 0.9;
       }),
       {"heavy_tail", "aligned", "norms"},
       all},
      {"NoSigma",
       Spoilt([](auto& s) { s.sigma = 0; }),
       {"far_query", "outlier", "among", "clusters"},
       all},
      {"NoDelta",
       Spoilt([](auto& s) { s.delta = 0; }),
       {"tiny", "identical"},
       {Metric::kSquaredL2}},
      {"NoEtaCosine",
       Spoilt([](auto& s) { s.eta = 0; }),
       {"one_ulp"},
       {Metric::kCosine}},
      {"NoEtaInnerProduct",
       Spoilt([](auto& s) { s.eta = 0; }),
       {"cancelling"},
       {Metric::kInnerProduct}},
      {"FloatCentre",
       Fault(CertifiedFault::kFloatCentre),
       {"identical", "near_centre"},
       {Metric::kCosine}},
      {"UnclampedError",
       Fault(CertifiedFault::kUnclampedError),
       {"clipped"},
       {Metric::kSquaredL2, Metric::kInnerProduct}},
      {"PanelMinimum",
       Fault(CertifiedFault::kPanelMinimum),
       {"log_normal", "heavy_tail", "norms"},
       all},
      {"PanelMean",
       Fault(CertifiedFault::kPanelMean),
       {"log_normal", "heavy_tail", "norms"},
       all},
      {"UnfittedRows",
       Fault(CertifiedFault::kUnfittedRows),
       {"norms", "aligned", "log_normal"},
       {Metric::kSquaredL2}},
      {"UnfittedQueries",
       Fault(CertifiedFault::kUnfittedQueries),
       {"norms", "aligned", "zeros"},
       {Metric::kSquaredL2}},
      {"PlaneErrorOfCodes",
       Fault(CertifiedFault::kPlaneErrorOfCodes),
       {"gaussian", "heavy_tail", "clusters"},
       all},
      {"NoCentreProduct",
       Fault(CertifiedFault::kNoCentreProduct),
       {"gaussian", "offset"},
       {Metric::kInnerProduct}},
  };
}

class CertifiedMutationTest : public testing::TestWithParam<Mutation> {};

TEST_P(CertifiedMutationTest, LosesRowsThatTheSpecifiedSlackKeeps) {
  const Mutation& mutation = GetParam();
  std::mt19937_64 random(TestSeed());
  CertifiedLosses spoilt;
  CertifiedLosses sound;
  for (int round = 0; round < 40 && spoilt.rows() == 0; ++round) {
    for (const std::string& kind : mutation.kinds) {
      for (Metric metric : mutation.metrics) {
        for (int64_t d : {1, 2, 3, 8, 17, 64}) {
          const CertifiedTestData data =
              MakeCertifiedTestData(kind, metric, 70, 12, d, random);
          const CertifiedCheck check(data, metric);
          for (CertifiedQueries::Depth depth : kDepths) {
            check.Run(mutation.slack, CodeKernel::kScalar, depth, spoilt);
            check.Run(CertifiedSlack(), CodeKernel::kScalar, depth, sound);
          }
        }
      }
    }
  }
  EXPECT_GT(spoilt.rows(), 0)
      << "of " << spoilt.pairs << "; SEED=" << TestSeed();
  EXPECT_EQ(sound.all(), 0) << sound.first << "; SEED=" << TestSeed();
  RecordProperty("lost", static_cast<int>(spoilt.rows()));
}

INSTANTIATE_TEST_SUITE_P(All, CertifiedMutationTest,
                         testing::ValuesIn(Mutations()),
                         [](const testing::TestParamInfo<Mutation>& test) {
                           return test.param.name;
                         });

// Searches of a grid with many duplicates, ties and dead rows: how many answers
// differ from the canonical ones.
int64_t WrongGridAnswers(const CertifiedSlack& slack, int searches) {
  std::mt19937_64 random(TestSeed());
  int64_t wrong = 0;
  for (int search = 0; search < searches; ++search) {
    // Enough for rows to be re-scored before the end.
    const int64_t n = 20 + static_cast<int64_t>(random() % 3000);
    const int64_t d = 1 + static_cast<int64_t>(random() % 4);
    const int64_t k = 1 + static_cast<int64_t>(random() % 30);
    const CertifiedTestData data =
        MakeCertifiedTestData("grid", Metric::kSquaredL2, n, 1, d, random);
    std::vector<PointId> ids(static_cast<size_t>(n));
    for (PointId& id : ids) id = random();
    std::vector<uint64_t> live(static_cast<size_t>(n / 64 + 1));
    for (uint64_t& word : live) word = random() & random();

    CertifiedCodes::Options options;
    options.slack = slack;
    const CertifiedCodes codes(Metric::kSquaredL2, data.rows_view(), options);
    const ScanQueries scan(Metric::kSquaredL2, data.queries_view());
    const CertifiedQueries queries(scan, codes);
    const ScanRows rows = {data.rows_view(), ids.data(), nullptr, live.data()};
    std::vector<TopK> top(1, TopK(k));
    std::vector<TopK> model(1, TopK(k));
    std::vector<ScanAccount> account(1);
    CertifiedScan(queries, rows, 0, n, absl::MakeSpan(top),
                  absl::MakeSpan(account), [] { return false; });
    for (int64_t i = 0; i < n; ++i) {
      if ((live[static_cast<size_t>(i / 64)] >> (i % 64) & 1) == 0) continue;
      model[0].Offer({ids[static_cast<size_t>(i)],
                      CanonicalDistance(Metric::kSquaredL2, scan.query(0),
                                        data.rows_view().row(i))});
    }
    if (top[0].TakeSorted() != model[0].TakeSorted()) ++wrong;
  }
  return wrong;
}

TEST(CertifiedThresholdMutation, SoundRulesAnswerEverySearch) {
  EXPECT_EQ(WrongGridAnswers(CertifiedSlack(), 1500), 0)
      << "SEED=" << TestSeed();
}

TEST(CertifiedThresholdMutation, PruningTiesGivesWrongAnswers) {
  EXPECT_GT(WrongGridAnswers(Fault(CertifiedFault::kPruneTies), 1500), 0);
}

TEST(CertifiedThresholdMutation, CountingARowTwiceGivesWrongAnswers) {
  EXPECT_GT(WrongGridAnswers(Fault(CertifiedFault::kCountTwice), 1500), 0);
}

TEST(CertifiedThresholdMutation, DeadRowsAsWitnessesGiveWrongAnswers) {
  EXPECT_GT(WrongGridAnswers(Fault(CertifiedFault::kDeadRowsTestified), 1500),
            0);
}

}  // namespace
}  // namespace coterie
