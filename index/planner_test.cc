#include "index/planner.h"

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/faiss_index.h"
#include "index/test_vectors.h"

namespace coterie {
namespace {

// 10 GB/s, and four times that for each of many queries.
// FAISS compares a component in 1 ns.
constexpr SearchRates kRates = {1e-10, 0.25e-10, 1e-10, 1e-9};

void OneByOne(int64_t count, absl::FunctionRef<void(int64_t)> task) {
  for (int64_t i = 0; i < count; ++i) task(i);
}

// A segment of random rows with both structures, trained.
struct Indexed {
  Indexed(int64_t d, int64_t n) {
    std::mt19937_64 random(TestSeed());
    TestVectors made = MakeTestVectors("gaussian", n, 0, d, false, random);
    std::vector<int64_t> order;
    Tree built =
        Tree::Build(Metric::kSquaredL2, made.rows_view(), OneByOne, &order);
    std::vector<float> laid;
    for (const int64_t row : order) {
      const VectorView v = made.rows_view().row(row);
      laid.insert(laid.end(), v.begin(), v.end());
    }
    const RowsView rows = {laid.data(), n, d, d};
    std::vector<PointId> ids(static_cast<size_t>(n));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
    const CertifiedCodes codes(Metric::kSquaredL2, rows);
    built.Train({rows, ids.data(), nullptr, nullptr}, &codes, OneByOne);
    tree.push_back(std::move(built));
    LshIndex::Options options;
    options.tables = 4;
    lsh.push_back(LshIndex::Build(Metric::kSquaredL2, rows, options, OneByOne));
    lsh[0].Train({rows, ids.data(), nullptr, nullptr}, codes, OneByOne);
    segment = {n, d >= 16, &tree[0], &lsh[0]};
  }

  // As if searches by the rule had been seen to find nine tenths at a third of
  // a scan's cost.
  void LshCosts(float cost) {
    LshIndex::Parts parts = lsh[0].parts();
    const float trained[] = {0.7F,  0.05F, 0.91F, 0.91F,
                             0.91F, cost,  cost,  cost};
    parts.trained = trained;
    lsh[0] = *LshIndex::FromParts(parts);
  }

  std::vector<Tree> tree;
  std::vector<LshIndex> lsh;
  PlanSegment segment;
};

Plan PlanFor(const PlanQuestion& question, std::vector<PlanSegment> segments) {
  return ChoosePlan(question, segments, kRates);
}

TEST(ChoosePlan, ScansWhereThereIsNothingElse) {
  const Plan plan = PlanFor({100, 1, 10, 0.9}, {{100000, true}, {500, false}});
  EXPECT_EQ(plan.kind, Plan::Kind::kScan);
  EXPECT_NEAR(plan.scan_seconds, 100000 * 108 * 1e-10 + 500 * 400 * 1e-10,
              1e-12);
  EXPECT_EQ(plan.Reason(), "predicted a query: scan 1.1 ms");
  EXPECT_EQ(PlanFor({100, 1, 10, 1}, {}).kind, Plan::Kind::kScan);
}

TEST(ChoosePlan, InCompanyAScanCostsLess) {
  const double alone = PlanFor({100, 1, 10, 1}, {{1000, true}}).scan_seconds;
  const double many = PlanFor({100, 1000, 10, 1}, {{1000, true}}).scan_seconds;
  EXPECT_NEAR(many, alone / 4, alone / 100);
}

TEST(ChoosePlan, PredictsAsMuchMoreAsASegmentsSearchesTook) {
  Indexed low(2, 5000);
  const Plan plan = PlanFor({2, 1, 10, 1}, {low.segment});
  low.segment.scales = {0.5, 3, 1, 1};
  const Plan scaled = PlanFor({2, 1, 10, 1}, {low.segment});
  EXPECT_NEAR(scaled.scan_seconds, plan.scan_seconds / 2, 1e-12);
  EXPECT_NEAR(scaled.tree_seconds, plan.tree_seconds * 3, 1e-12);
  // What is left to a scan costs what the scan does.
  Indexed high(24, 8192);
  high.segment.lsh = nullptr;
  const Plan exact = PlanFor({24, 1, 10, 1}, {high.segment});
  const Plan company = PlanFor({24, 1000, 10, 1}, {high.segment});
  high.segment.scales = {0.5, 7, 1, 1};
  EXPECT_NEAR(PlanFor({24, 1, 10, 1}, {high.segment}).tree_seconds,
              exact.tree_seconds / 2, 1e-12);
  // A first look is for a query that is alone.
  EXPECT_NEAR(PlanFor({24, 1000, 10, 1}, {high.segment}).scan_seconds,
              company.scan_seconds, company.scan_seconds / 100);
}

TEST(ChoosePlan, BoxesAreForLowDimensionsEvenIfExact) {
  Indexed low(2, 5000);
  // As if it were larger.
  low.segment.rows = 1000000;
  low.segment.lsh = nullptr;
  const Plan plan = PlanFor({2, 1, 10, 1}, {low.segment});
  EXPECT_EQ(plan.kind, Plan::Kind::kTree);
  EXPECT_LT(plan.tree_seconds * 10, plan.scan_seconds);
  EXPECT_TRUE(absl::StrContains(plan.Reason(), ", tree "));
  // Few rows are scanned at once.
  low.segment.rows = 64;
  EXPECT_EQ(PlanFor({2, 1, 10, 1}, {low.segment}).kind, Plan::Kind::kScan);
}

TEST(ChoosePlan, CellsAreForPartOfTheAnswerOnly) {
  Indexed high(24, 8192);
  high.segment.lsh = nullptr;
  const Plan exact = PlanFor({24, 1, 10, 1}, {high.segment});
  EXPECT_EQ(exact.kind, Plan::Kind::kScan);
  EXPECT_GT(exact.tree_seconds, exact.scan_seconds);
  const Plan part = PlanFor({24, 1, 10, 0.5}, {high.segment});
  EXPECT_EQ(part.kind, Plan::Kind::kTree);
  EXPECT_LT(part.tree_seconds, exact.tree_seconds);
  // What has no tree is scanned in every plan.
  const Plan more = PlanFor({24, 1, 10, 0.5}, {high.segment, {8192, true}});
  EXPECT_NEAR(more.tree_seconds, part.tree_seconds + part.scan_seconds, 1e-12);
}

TEST(ChoosePlan, LshForWhatItWasSeenToFindForLess) {
  Indexed high(24, 4096);
  high.segment.tree = nullptr;
  // As if it were larger.
  high.segment.rows = 1000000;
  high.LshCosts(0.33F);
  EXPECT_EQ(PlanFor({24, 1, 10, 1}, {high.segment}).kind, Plan::Kind::kScan);
  const Plan part = PlanFor({24, 1, 10, 0.9}, {high.segment});
  EXPECT_EQ(part.kind, Plan::Kind::kLsh);
  EXPECT_NEAR(part.lsh_seconds, 0.33 * part.scan_seconds + 4e-6, 1e-6);
  EXPECT_EQ(PlanFor({24, 1, 10, 0.95}, {high.segment}).kind, Plan::Kind::kScan);
  EXPECT_EQ(PlanFor({24, 1000, 10, 0.9}, {high.segment}).kind,
            Plan::Kind::kScan)
      << "in company a scan costs a quarter";
  high.LshCosts(1.1F);
  EXPECT_EQ(PlanFor({24, 1, 10, 0.9}, {high.segment}).kind, Plan::Kind::kScan);
}

TEST(ChoosePlan, FaissForWhatItWasMeasuredToFindForLess) {
  std::mt19937_64 random(TestSeed());
  const TestVectors made =
      MakeTestVectors("gaussian", 4000, 0, 8, false, random);
  const ScanRows rows = {made.rows_view(), nullptr, nullptr, nullptr};
  const auto index =
      FaissIndex::Build(Metric::kSquaredL2, rows, *FaissFactory::Parse("HNSW8"),
                        [] { return false; });
  ASSERT_TRUE(index.ok()) << index.status();
  const PlanSegment segment = {10000000, false, nullptr, nullptr, &*index};
  const Plan part = PlanFor({8, 1, 10, 0.9}, {segment});
  EXPECT_EQ(part.kind, Plan::Kind::kFaiss);
  const auto effort = index->EffortFor(10, 0.9);
  ASSERT_TRUE(effort.has_value());
  EXPECT_NEAR(part.faiss_seconds, index->Work(*effort) * 1e-9, 1e-12);
  EXPECT_TRUE(absl::StrContains(part.Reason(), ", faiss "));
  EXPECT_EQ(PlanFor({8, 1, 10, 1}, {segment}).kind, Plan::Kind::kScan);
  EXPECT_EQ(PlanFor({8, 1, 10, 0.9999}, {segment}).kind, Plan::Kind::kScan);
}

// A filter that leaves little is for a scan of what it leaves; one that leaves
// half makes an index read more than without.
TEST(ChoosePlan, CountsWhatAFilterAdmits) {
  const Indexed indexed(4, 20000);
  PlanQuestion question = {4, 1, 10, 1};
  const Plan all = PlanFor(question, {indexed.segment});
  EXPECT_EQ(all.kind, Plan::Kind::kTree);
  question.admitted = 0.5;
  const Plan half = PlanFor(question, {indexed.segment});
  EXPECT_EQ(half.kind, Plan::Kind::kTree);
  EXPECT_GT(half.tree_seconds, all.tree_seconds);
  question.admitted = 1e-4;
  const Plan few = PlanFor(question, {indexed.segment});
  EXPECT_EQ(few.kind, Plan::Kind::kScan);
  EXPECT_NEAR(few.scan_seconds, 1e-4 * all.scan_seconds,
              1e-9 * all.scan_seconds);
  // Codes of all rows are read while more than one in 24 is admitted.
  const PlanSegment coded = {100000, true};
  const double every = PlanFor({100, 1, 10, 1, 1}, {coded}).scan_seconds;
  EXPECT_EQ(PlanFor({100, 1, 10, 1, 0.1}, {coded}).scan_seconds, every);
  EXPECT_NEAR(PlanFor({100, 1, 10, 1, 0.01}, {coded}).scan_seconds,
              0.24 * every, 1e-6 * every);
}

}  // namespace
}  // namespace coterie
