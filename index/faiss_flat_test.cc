#include "index/faiss_flat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr int64_t kDimension = 64;
constexpr int64_t kRows = 3000;
constexpr int64_t kK = 10;
// Of distances, relative to 1 + |distance|: float32 against double.
constexpr double kTolerance = 1e-4;

class FaissFlatTest : public testing::TestWithParam<Metric> {};

// Both lists agree but for rows that lie within the tolerance of the k-th.
void ExpectSameNeighbors(const std::vector<Neighbor>& exact,
                         const std::vector<Neighbor>& faiss) {
  ASSERT_EQ(exact.size(), faiss.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(exact[i].distance, faiss[i].distance,
                kTolerance * (1 + std::fabs(exact[i].distance)));
  }
  std::set<PointId> in_faiss;
  for (const Neighbor& n : faiss) in_faiss.insert(n.id);
  const double last = exact.back().distance;
  for (const Neighbor& n : exact) {
    EXPECT_TRUE(in_faiss.count(n.id) == 1 ||
                last - n.distance <= kTolerance * (1 + std::fabs(last)))
        << "FAISS has no " << n.id << " at " << n.distance;
  }
}

TEST_P(FaissFlatTest, AgreesWithTheExactScan) {
  const Metric metric = GetParam();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const TestVectors made =
      MakeTestVectors("gaussian", kRows, 50, kDimension, true, random);
  std::vector<PointId> ids;
  std::vector<double> norms;
  for (int64_t i = 0; i < kRows; ++i) {
    ids.push_back(static_cast<PointId>(1000 + 7 * i));
    norms.push_back(CanonicalSquaredNorm(made.rows_view().row(i)));
  }

  const absl::StatusOr<FaissFlat> index =
      FaissFlat::Create(metric, made.rows_view(), ids);
  ASSERT_TRUE(index.ok()) << index.status();
  for (int64_t batch : {1, 50}) {  // FAISS has another path from 20 queries on
    RowsView queries = made.queries_view();
    queries.n = batch;
    const auto faiss = index->Search(queries, kK);
    ASSERT_TRUE(faiss.ok()) << faiss.status();

    std::vector<TopK> tops(static_cast<size_t>(batch), TopK(kK));
    std::vector<ScanAccount> accounts(tops.size());
    ASSERT_TRUE(ExactScan(ScanQueries(metric, queries),
                          {made.rows_view(), ids.data(), norms.data()}, 0,
                          kRows, absl::MakeSpan(tops), absl::MakeSpan(accounts),
                          [] { return false; }));
    for (size_t q = 0; q < tops.size(); ++q) {
      ExpectSameNeighbors(tops[q].TakeSorted(), (*faiss)[q]);
    }
  }
}

TEST_P(FaissFlatTest, ReturnsWhatThereIsWhenKIsLarger) {
  const std::vector<float> data = {1, 0, 0, 1};
  const RowsView rows = {data.data(), 2, 2, 2};
  const absl::StatusOr<FaissFlat> index =
      FaissFlat::Create(GetParam(), rows, {5, 6});
  ASSERT_TRUE(index.ok());
  const auto found = index->Search({data.data(), 1, 2, 2}, 10);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ((*found)[0].size(), 2u);
  EXPECT_EQ((*found)[0][0].id, 5u);
  EXPECT_EQ((*found)[0][1].id, 6u);
}

INSTANTIATE_TEST_SUITE_P(
    Metrics, FaissFlatTest,
    testing::Values(Metric::kSquaredL2, Metric::kInnerProduct, Metric::kCosine),
    [](const auto& metric) { return std::string(MetricName(metric.param)); });

TEST(FaissFlat, RefusesWhatDoesNotFit) {
  const std::vector<float> data = {1, 2, 3};
  EXPECT_EQ(FaissFlat::Create(Metric::kSquaredL2, {data.data(), 1, 3, 3}, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<FaissFlat> index =
      FaissFlat::Create(Metric::kSquaredL2, {data.data(), 1, 3, 3}, {1});
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->Search({data.data(), 1, 3, 3}, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(index->Search({data.data(), 1, 2, 2}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FaissFlat, OfNoRowsFindsNothing) {
  const std::vector<float> data = {1, 2, 3};
  const absl::StatusOr<FaissFlat> index =
      FaissFlat::Create(Metric::kSquaredL2, {nullptr, 0, 3, 3}, {});
  ASSERT_TRUE(index.ok());
  const auto found = index->Search({data.data(), 1, 3, 3}, 4);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE((*found)[0].empty());
}

}  // namespace
}  // namespace coterie
