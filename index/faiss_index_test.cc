#include "index/faiss_index.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/certified_codes.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/faiss_factory.h"
#include "index/faiss_search.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/top_k.h"

namespace coterie {
namespace {

bool Never() { return false; }

FaissFactory Factory(const std::string& text) {
  return *FaissFactory::Parse(text);
}

// Random rows, and their neighbours by comparing with all.
struct Data {
  Data(Metric m, int64_t n, int64_t d, int64_t queries = 20)
      : metric(m), random(TestSeed()) {
    made = MakeTestVectors("gaussian", n, queries, d, true, random);
    const RowsView view = made.rows_view();
    for (int64_t i = 0; i < n; ++i) {
      ids.push_back(static_cast<PointId>(i) * 7 + 1);
      norms.push_back(CanonicalSquaredNorm(view.row(i)));
    }
    codes = std::make_unique<CertifiedCodes>(metric, view);
  }

  ScanRows rows(const uint64_t* live = nullptr) const {
    return {made.rows_view(), ids.data(), norms.data(), live};
  }
  absl::StatusOr<FaissIndex> Build(const std::string& factory) const {
    return FaissIndex::Build(metric, rows(), Factory(factory), Never);
  }
  bool IsLive(const uint64_t* live, int64_t row) const {
    return live == nullptr || ((live[row / 64] >> (row % 64)) & 1) != 0;
  }
  std::vector<Neighbor> Nearest(VectorView query, int64_t k,
                                const uint64_t* live) const {
    TopK top(k);
    for (int64_t i = 0; i < made.rows_view().n; ++i) {
      if (!IsLive(live, i)) continue;
      top.Offer({ids[static_cast<size_t>(i)],
                 CanonicalDistance(metric, query, made.rows_view().row(i))});
    }
    return top.TakeSorted();
  }

  // The mean recall; every hit is live, at its canonical distance, and once.
  double Recall(const FaissIndex& index, int64_t k, const FaissLimits& limits,
                const uint64_t* live = nullptr,
                int64_t* scanned = nullptr) const {
    const ScanQueries queries(metric, made.queries_view());
    std::vector<TopK> tops(static_cast<size_t>(queries.size()), TopK(k));
    std::vector<FaissAccount> accounts(tops.size());
    const FaissSegment segment = {&index, codes.get(), rows(live)};
    const absl::Status status =
        FaissSearch(queries, {&segment, 1}, limits, absl::MakeSpan(tops),
                    absl::MakeSpan(accounts), Never);
    EXPECT_TRUE(status.ok()) << status;
    int64_t alive = 0;
    for (int64_t i = 0; i < index.size(); ++i) alive += IsLive(live, i) ? 1 : 0;
    double sum = 0;
    for (size_t q = 0; q < tops.size(); ++q) {
      const VectorView query = queries.query(static_cast<int64_t>(q));
      const std::vector<Neighbor> found = tops[q].TakeSorted();
      const std::vector<Neighbor> expected = Nearest(query, k, live);
      EXPECT_EQ(found.size(), expected.size());
      std::set<PointId> seen;
      int64_t near = 0;
      for (const Neighbor& n : found) {
        const auto row = static_cast<int64_t>((n.id - 1) / 7);
        EXPECT_TRUE(IsLive(live, row)) << row;
        EXPECT_TRUE(seen.insert(n.id).second) << n.id;
        EXPECT_EQ(n.distance,
                  CanonicalDistance(metric, query, made.rows_view().row(row)));
        if (n.distance <= expected.back().distance) ++near;
      }
      const FaissAccount& account = accounts[q];
      EXPECT_EQ(account.evaluated + account.ruled_out + account.unseen, alive);
      if (account.exact()) {
        EXPECT_EQ(found, expected);
      }
      if (scanned != nullptr && account.scanned) ++*scanned;
      sum += expected.empty() ? 1
                              : static_cast<double>(near) /
                                    static_cast<double>(expected.size());
    }
    return sum / static_cast<double>(tops.size());
  }

  const Metric metric;
  std::mt19937_64 random;
  TestVectors made;
  std::vector<PointId> ids;
  std::vector<double> norms;
  std::unique_ptr<CertifiedCodes> codes;
};

class FaissKinds
    : public ::testing::TestWithParam<std::tuple<const char*, Metric>> {};

TEST_P(FaissKinds, FindsMostOfTheNeighboursAndOnlyLiveRows) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  const auto& [factory, metric] = GetParam();
  const Data data(metric, 900, 16);
  const auto index = data.Build(factory);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->size(), 900);
  EXPECT_EQ(index->dimension(), 16);
  EXPECT_GT(index->MemoryBytes(), 0);
  const FaissLimits wide = {.effort = 100, .rescored = 200};
  int64_t scanned = 0;
  EXPECT_GT(data.Recall(*index, 10, wide, nullptr, &scanned), 0.8);
  // Half of the rows are dead.
  std::vector<uint64_t> live(15, 0x5555555555555555);
  EXPECT_GT(data.Recall(*index, 10, wide, live.data(), &scanned), 0.8);
  EXPECT_EQ(scanned, 0);
  data.Recall(*index, 1, {.effort = 1}, live.data());
  // More than there are.
  EXPECT_EQ(data.Recall(*index, 3000, {.effort = 1}, live.data()), 1);
  EXPECT_EQ(data.Recall(*index, 10, {.target_recall = 1}), 1);
  // Hardly any row is live: a scan.
  std::fill(live.begin(), live.end(), 0);
  live[3] = 6;
  EXPECT_EQ(data.Recall(*index, 10, wide, live.data()), 1);
  live[3] = 0;
  data.Recall(*index, 10, wide, live.data());
}

// Parts with some number changed either do not fit or are searched like others.
void CheckChanged(const Data& data, const FaissIndex::Parts& parts,
                  std::mt19937_64& random) {
  for (int round = 0; round < 40; ++round) {
    FaissIndex::Parts changed = parts;
    int32_t& link = changed.links[random() % changed.links.size()];
    const auto value = static_cast<int32_t>(random());
    link = round % 2 == 0 ? value : value % 600;
    const auto index = FaissIndex::FromParts(changed);
    if (index.ok()) {
      data.Recall(*index, 5, {.effort = 4});
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(index.status())) << index.status();
    }
  }
  const auto refused = [&](auto change) {
    FaissIndex::Parts changed = parts;
    change(changed);
    EXPECT_TRUE(
        absl::IsInvalidArgument(FaissIndex::FromParts(changed).status()));
  };
  refused([](auto& p) { p.data.pop_back(); });
  refused([](auto& p) { p.links.pop_back(); });
  refused([](auto& p) { p.code.push_back(0); });
  refused([](auto& p) { p.means.push_back(0); });
  refused([](auto& p) { p.turn.push_back(0); });
  refused([](auto& p) { p.measured.push_back(0); });
  refused([](auto& p) { p.n += 1000; });
  refused([](auto& p) { p.n = 0; });
  refused([](auto& p) { p.shift = 150; });
  refused([](auto& p) { p.d = 17; });
  refused([](auto& p) { p.d = int64_t{1} << 40; });
  refused([](auto& p) { p.factory = "Flat"; });
  refused([](auto& p) { p.factory = "IVF65536,Flat"; });
}

TEST_P(FaissKinds, PartsGiveTheSameIndexAndOthersNone) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  const auto& [factory, metric] = GetParam();
  Data data(metric, 600, 16);
  const auto index = data.Build(factory);
  ASSERT_TRUE(index.ok()) << index.status();
  const auto parts = index->parts();
  ASSERT_TRUE(parts.ok()) << parts.status();
  const auto again = FaissIndex::FromParts(*parts);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->MemoryBytes(), index->MemoryBytes());
  EXPECT_EQ(again->factory(), index->factory());
  for (int64_t q = 0; q < 10; ++q) {
    const VectorView query = data.made.queries_view().row(q);
    for (const int64_t effort : {1, 6, 100}) {
      EXPECT_EQ(again->Candidates(query, {effort, 20}, nullptr, Never).value(),
                index->Candidates(query, {effort, 20}, nullptr, Never).value());
    }
  }
  CheckChanged(data, *parts, data.random);
}

INSTANTIATE_TEST_SUITE_P(
    Factories, FaissKinds,
    ::testing::Combine(::testing::Values("HNSW16", "HNSW8,SQ8", "IVF12,Flat",
                                         "IVF12,SQ6", "IVF12,PQ4x4",
                                         "RR12,IVF12,SQfp16"),
                       ::testing::Values(Metric::kSquaredL2,
                                         Metric::kInnerProduct,
                                         Metric::kCosine)));
INSTANTIATE_TEST_SUITE_P(
    TurnedFactories, FaissKinds,
    ::testing::Combine(::testing::Values("PCA12,HNSW16", "OPQ4,IVF12,PQ4x4"),
                       ::testing::Values(Metric::kCosine)));

// Queries of the data's own kind that were not there when it was measured.
TEST(FaissIndex, ReachesItsTargetWithoutReadingEverything) {
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  Data data(Metric::kSquaredL2, 6000, 24, 300);
  std::vector<uint64_t> live(94, ~uint64_t{0});
  for (uint64_t& word : live) word &= data.random() | data.random();
  for (const char* factory : {"HNSW16", "IVF60,Flat", "IVF60,PQ12"}) {
    const auto index = data.Build(factory);
    ASSERT_TRUE(index.ok()) << index.status();
    double work = 0;
    for (const double target : {0.5, 0.8, 0.9, 0.95}) {
      const auto effort = index->EffortFor(10, target);
      // Half of the lists may not do, nor so many candidates.
      EXPECT_TRUE(effort.has_value() || target > 0.9 ||
                  index->factory().code == FaissFactory::Code::kProduct)
          << factory << " for " << target;
      if (!effort.has_value()) continue;
      EXPECT_GE(index->Work(*effort), work);
      work = index->Work(*effort);
      // The half width of the mean of 300 queries.
      constexpr double kSlack = 0.03;
      EXPECT_GE(data.Recall(*index, 10, {.target_recall = target}),
                target - kSlack)
          << factory << " effort " << effort->effort;
      EXPECT_GE(data.Recall(*index, 10, {.target_recall = target}, live.data()),
                target - kSlack)
          << factory << ", a quarter dead";
    }
    int64_t scanned = 0;
    EXPECT_LT(
        data.Recall(*index, 10, {.target_recall = 0.5}, nullptr, &scanned),
        0.97)
        << factory;
    EXPECT_EQ(scanned, 0) << factory;
    // Never measured so far.
    EXPECT_FALSE(index->EffortFor(10, 0.9999).has_value());
    EXPECT_EQ(data.Recall(*index, 10, {.target_recall = 0.9999}), 1);
  }
}

TEST(FaissIndex, AnyFiniteRowsAreTrainedOnAndFound) {
  std::mt19937_64 random(TestSeed());
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  for (const std::string& kind : TestVectorKinds()) {
    for (const Metric metric :
         {Metric::kSquaredL2, Metric::kInnerProduct, Metric::kCosine}) {
      Data data(metric, 600, 6);
      data.made = MakeTestVectors(kind, 600, 5, 6, true, random);
      for (int64_t i = 0; i < 600; ++i) {
        data.norms[static_cast<size_t>(i)] =
            CanonicalSquaredNorm(data.made.rows_view().row(i));
      }
      for (const char* factory :
           {"IVF12,Flat", "HNSW8", "IVF4,PQ2x4", "RR6,IVF4,SQ8"}) {
        SCOPED_TRACE(absl::StrCat(kind, " ", MetricName(metric), factory));
        const auto index = data.Build(factory);
        ASSERT_TRUE(index.ok()) << index.status();
        const auto found = index->Candidates(data.made.queries_view().row(0),
                                             {20, 20}, nullptr, Never);
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_FALSE(found->empty());
      }
    }
  }
}

TEST(FaissIndex, WhatDoesNotFitTheRowsIsRefused) {
  const Data data(Metric::kInnerProduct, 100, 6);
  for (const char* factory : {"IVF2,PQ5", "IVF2,PQ3", "PCA4,IVF2,Flat"}) {
    const absl::Status status = data.Build(factory).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << factory << ": " << status;
  }
  EXPECT_EQ(data.Build("IVF4096,Flat")->factory().Text(), "IVF2,Flat");
  const Data none(Metric::kSquaredL2, 0, 6);
  for (const char* factory : {"IVF2,Flat", "HNSW8", "IVF2,PQ3"}) {
    const auto index = none.Build(factory);
    ASSERT_TRUE(index.ok()) << index.status();
    none.Recall(*index, 3, {});
  }
}

TEST(FaissIndex, AStoppedBuildIsCancelled) {
  const Data data(Metric::kSquaredL2, 3000, 16);
  for (const char* factory : {"HNSW16", "IVF16,Flat"}) {
    for (const int64_t after : {0, 1, 30}) {
      int64_t asked = 0;
      const auto index =
          FaissIndex::Build(data.metric, data.rows(), Factory(factory),
                            [&] { return asked++ >= after; });
      EXPECT_TRUE(absl::IsCancelled(index.status())) << index.status();
    }
  }
}

TEST(FaissIndex, AStoppedSearchIsCancelled) {
  const Data data(Metric::kSquaredL2, 100, 6);
  const auto index = data.Build("HNSW8");
  ASSERT_TRUE(index.ok()) << index.status();
  const ScanQueries queries(Metric::kSquaredL2, data.made.queries_view());
  std::vector<TopK> tops(static_cast<size_t>(queries.size()), TopK(3));
  std::vector<FaissAccount> accounts(tops.size());
  const FaissSegment segment = {&*index, data.codes.get(), data.rows()};
  int64_t asked = 0;
  EXPECT_TRUE(absl::IsCancelled(
      FaissSearch(queries, {&segment, 1}, {.effort = 8}, absl::MakeSpan(tops),
                  absl::MakeSpan(accounts), [&] { return ++asked > 5; })));
  EXPECT_EQ(asked, 6);
}

}  // namespace
}  // namespace coterie
