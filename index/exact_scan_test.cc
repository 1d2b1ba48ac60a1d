#include "index/exact_scan.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/top_k.h"
#include "index/vectors.h"

namespace coterie {
namespace {

constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                               Metric::kCosine};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool Never() { return false; }

// Rows in memory as a segment might hold them: any stride, any alignment, some
// dead.
class Rows {
 public:
  Rows(RowsView from, int64_t stride, int64_t offset)
      : n_(from.n), d_(from.d), stride_(stride), offset_(offset) {
    const int64_t floats = n_ == 0 ? 0 : (n_ - 1) * stride_ + d_;
    // Padding is poison, and nothing readable follows the last row.
    data_.assign(static_cast<size_t>(offset_ + floats),
                 std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < n_; ++i) {
      std::copy_n(from.row(i).data(), d_, data_.data() + offset_ + i * stride_);
      ids_.push_back(static_cast<PointId>(i));
      squared_norms_.push_back(CanonicalSquaredNorm(from.row(i)));
    }
  }

  void ShuffleIds(std::mt19937_64& random) {
    std::shuffle(ids_.begin(), ids_.end(), random);
  }

  void SetLive(const std::vector<bool>& live) {
    live_.assign(static_cast<size_t>((n_ + 63) / 64), 0);
    for (int64_t i = 0; i < n_; ++i) {
      if (live[i]) {
        live_[i / 64] |= uint64_t{1} << (i % 64);
      } else {
        std::fill_n(data_.data() + offset_ + i * stride_, d_,
                    std::numeric_limits<float>::quiet_NaN());
      }
    }
  }

  bool IsLive(int64_t i) const {
    return live_.empty() || (live_[i / 64] >> (i % 64) & 1) != 0;
  }

  ScanRows view(Metric metric) const {
    return {{data_.data() + offset_, n_, d_, stride_},
            ids_.data(),
            metric == Metric::kSquaredL2 ? nullptr : squared_norms_.data(),
            live_.empty() ? nullptr : live_.data()};
  }

  // All live rows of [begin, end) compared, sorted, cut.
  std::vector<Neighbor> Model(Metric metric, VectorView q, int64_t begin,
                              int64_t end, int64_t k, double bound) const {
    std::vector<Neighbor> all;
    const ScanRows rows = view(metric);
    for (int64_t i = begin; i < end; ++i) {
      if (!IsLive(i)) continue;
      const double distance = CanonicalDistance(metric, q, rows.rows.row(i));
      if (distance <= bound) all.push_back({ids_[i], distance});
    }
    std::sort(all.begin(), all.end(), NeighborLess);
    all.resize(std::min(all.size(), static_cast<size_t>(k)));
    return all;
  }

  int64_t LiveIn(int64_t begin, int64_t end) const {
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) count += IsLive(i);
    return count;
  }

 private:
  int64_t n_;
  int64_t d_;
  int64_t stride_;
  int64_t offset_;
  std::vector<float> data_;
  std::vector<PointId> ids_;
  std::vector<double> squared_norms_;
  std::vector<uint64_t> live_;
};

struct Found {
  std::vector<std::vector<Neighbor>> neighbors;
  std::vector<ScanAccount> accounts;
};

// Scans [begin, end) cut at `cuts`, one set of tops throughout.
Found Scan(const ScanQueries& queries, const ScanRows& rows,
           std::vector<int64_t> cuts, int64_t k, double bound) {
  std::vector<TopK> tops(static_cast<size_t>(queries.size()), TopK(k, bound));
  Found found;
  found.accounts.resize(tops.size());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    EXPECT_TRUE(ExactScan(queries, rows, cuts[i], cuts[i + 1],
                          absl::MakeSpan(tops), absl::MakeSpan(found.accounts),
                          Never));
  }
  for (TopK& top : tops) found.neighbors.push_back(top.TakeSorted());
  return found;
}

// One random problem, on every target, in one range and in pieces.
void CheckOneProblem(Metric metric, const std::string& kind,
                     std::mt19937_64& random) {
  const int64_t sizes[] = {0, 1, 3, 15, 16, 17, 63, 64, 65, 130, 300};
  const int64_t dimensions[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100};
  const int64_t batches[] = {1, 1, 2, 3, 4, 5, 8, 9, 64};
  const int64_t n = sizes[random() % std::size(sizes)];
  const int64_t d = dimensions[random() % std::size(dimensions)];
  const int64_t m = batches[random() % std::size(batches)];
  const TestVectors made =
      MakeTestVectors(kind, n, m, d, metric == Metric::kCosine, random);
  Rows rows(made.rows_view(), d + static_cast<int64_t>(random() % 5),
            static_cast<int64_t>(random() % 4));
  rows.ShuffleIds(random);
  if (random() % 2 == 0) {
    const uint64_t denominator = 1 + random() % 20;
    std::vector<bool> live;
    for (int64_t i = 0; i < n; ++i) live.push_back(random() % denominator == 0);
    rows.SetLive(live);
  }
  const ScanQueries queries(metric, made.queries_view());
  const int64_t begin = static_cast<int64_t>(random() % (n / 4 + 1));
  const int64_t end = n - static_cast<int64_t>(random() % (n / 4 + 1));
  const int64_t k =
      random() % 3 == 0 ? n + 5 : 1 + static_cast<int64_t>(random() % (n + 5));
  double bound = kInfinity;
  if (random() % 3 == 0 && n > 0) {  // a radius that is some row's distance
    bound = CanonicalDistance(
        metric, queries.query(0),
        made.rows_view().row(static_cast<int64_t>(random() % n)));
  }
  const int64_t middle =
      begin + static_cast<int64_t>(random() % (end - begin + 1));

  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    SCOPED_TRACE(testing::Message()
                 << SimdTargetName(target) << " n " << n << " d " << d << " m "
                 << m << " k " << k << " bound " << bound << " rows " << begin
                 << ".." << middle << ".." << end);
    const Found whole =
        Scan(queries, rows.view(metric), {begin, end}, k, bound);
    const Found parts =
        Scan(queries, rows.view(metric), {begin, middle, end}, k, bound);
    for (int64_t q = 0; q < m; ++q) {
      ASSERT_EQ(whole.neighbors[q],
                rows.Model(metric, queries.query(q), begin, end, k, bound));
      ASSERT_EQ(parts.neighbors[q], whole.neighbors[q]);
      for (const Found* found : {&whole, &parts}) {
        const ScanAccount& account = found->accounts[q];
        ASSERT_EQ(account.evaluated + account.ruled_out,
                  rows.LiveIn(begin, end));
      }
    }
  }
}

class ExactScanProperty : public testing::TestWithParam<Metric> {};

TEST_P(ExactScanProperty, EqualsComparingAllAndSorting) {
  const uint64_t seed = TestSeed();
  for (const std::string& kind : TestVectorKinds()) {
    std::mt19937_64 random(seed);
    for (int round = 0; round < 25; ++round) {
      SCOPED_TRACE(testing::Message()
                   << "SEED=" << seed << ", " << kind << ", round " << round);
      CheckOneProblem(GetParam(), kind, random);
      if (HasFatalFailure()) return;
    }
  }
}

// The sharpest use of the bound: the threshold is the row's own distance.
TEST_P(ExactScanProperty, KeepsEveryRowAtItsOwnDistance) {
  const Metric metric = GetParam();
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  for (const std::string& kind : TestVectorKinds()) {
    for (int64_t d : {1, 2, 3, 5, 8, 17, 33, 64, 100, 784}) {
      SCOPED_TRACE(testing::Message()
                   << "SEED=" << seed << ", " << kind << ", d " << d);
      const int64_t n = 24;
      const TestVectors made =
          MakeTestVectors(kind, n, 5, d, metric == Metric::kCosine, random);
      const Rows rows(made.rows_view(), d, 0);
      const ScanQueries queries(metric, made.queries_view());
      for (SimdTarget target : SupportedSimdTargets()) {
        SetActiveSimdTargetForTest(target);
        for (int64_t i = 0; i < n; ++i) {
          std::vector<TopK> tops;
          for (int64_t q = 0; q < 5; ++q) {
            tops.emplace_back(n, CanonicalDistance(metric, queries.query(q),
                                                   made.rows_view().row(i)));
          }
          std::vector<ScanAccount> accounts(5);
          ASSERT_TRUE(ExactScan(queries, rows.view(metric), i, i + 1,
                                absl::MakeSpan(tops), absl::MakeSpan(accounts),
                                Never));
          for (int64_t q = 0; q < 5; ++q) {
            ASSERT_EQ(tops[q].size(), 1)
                << "row " << i << " query " << q << " lost on "
                << SimdTargetName(target);
          }
        }
      }
    }
  }
}

// Otherwise the bound could be vacuous and all of the above hold.
TEST_P(ExactScanProperty, RulesOutNearlyAllRowsOfOrdinaryData) {
  const Metric metric = GetParam();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const int64_t n = 20000;
  const TestVectors made = MakeTestVectors("gaussian", n, 6, 48, true, random);
  const Rows rows(made.rows_view(), 48, 0);
  const ScanQueries queries(metric, made.queries_view());
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    const Found found = Scan(queries, rows.view(metric), {0, n}, 10, kInfinity);
    for (const ScanAccount& account : found.accounts) {
      EXPECT_LT(account.evaluated, n / 100) << SimdTargetName(target);
      EXPECT_EQ(account.evaluated + account.ruled_out, n);
    }
  }
}

TEST_P(ExactScanProperty, GivesTheSameAnswerToManyThreads) {
  const Metric metric = GetParam();
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const int64_t n = 3000;
  const TestVectors made = MakeTestVectors("grid", n, 5, 6, true, random);
  const Rows rows(made.rows_view(), 6, 0);
  const ScanQueries queries(metric, made.queries_view());
  const Found whole = Scan(queries, rows.view(metric), {0, n}, 50, kInfinity);

  std::vector<Found> parts(4);
  std::vector<std::thread> threads;
  for (int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      parts[t] = Scan(queries, rows.view(metric), {n * t / 4, n * (t + 1) / 4},
                      50, kInfinity);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int64_t q = 0; q < 5; ++q) {
    std::vector<std::vector<Neighbor>> lists;
    for (Found& part : parts) lists.push_back(part.neighbors[q]);
    EXPECT_EQ(MergeTopK(lists, 50).neighbors, whole.neighbors[q]);
  }
}

// The page after the last row cannot be read.
TEST_P(ExactScanProperty, ReadsNothingBehindTheLastRow) {
  const Metric metric = GetParam();
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* guard = static_cast<char*>(memory) + page;
  ASSERT_EQ(mprotect(guard, page, PROT_NONE), 0);
  for (int64_t d = 1; d <= 40; ++d) {
    const int64_t n = 19;
    float* data = reinterpret_cast<float*>(guard) - n * d;
    std::fill_n(data, n * d, 1.0f);
    const std::vector<PointId> ids(n, 3);
    const std::vector<double> norms(n, static_cast<double>(d));
    const ScanRows rows = {{data, n, d, d}, ids.data(), norms.data(), nullptr};
    for (SimdTarget target : SupportedSimdTargets()) {
      SetActiveSimdTargetForTest(target);
      for (int64_t m : {1, 9}) {
        const std::vector<float> ones(static_cast<size_t>(m * d), 1);
        const ScanQueries queries(metric, {ones.data(), m, d, d});
        const Found found = Scan(queries, rows, {0, n}, n, kInfinity);
        EXPECT_EQ(found.neighbors.back().size(), static_cast<size_t>(n));
      }
    }
  }
  munmap(memory, 2 * page);
}

INSTANTIATE_TEST_SUITE_P(Metrics, ExactScanProperty,
                         testing::ValuesIn(kMetrics), [](const auto& metric) {
                           return std::string(MetricName(metric.param));
                         });

TEST(ExactScan, EndsAtOnceWhenToldTo) {
  const std::vector<float> data(100, 1);
  const Rows rows({data.data(), 100, 1, 1}, 1, 0);
  const ScanQueries queries(Metric::kSquaredL2, {data.data(), 1, 1, 1});
  std::vector<TopK> tops(1, TopK(5));
  std::vector<ScanAccount> accounts(1);
  EXPECT_FALSE(ExactScan(queries, rows.view(Metric::kSquaredL2), 0, 100,
                         absl::MakeSpan(tops), absl::MakeSpan(accounts),
                         [] { return true; }));
  EXPECT_EQ(accounts[0].evaluated + accounts[0].ruled_out, 0);
}

TEST(ExactScan, AsksWhetherToStopAboutEvery256KiBWhateverTheBatch) {
  const int64_t n = 4096;
  const int64_t d = 256;
  const std::vector<float> data(static_cast<size_t>(n * d), 1);
  const Rows rows({data.data(), n, d, d}, d, 0);
  for (int64_t m : {1, 4, 64}) {
    const ScanQueries queries(Metric::kSquaredL2, {data.data(), m, d, d});
    std::vector<TopK> tops(static_cast<size_t>(m), TopK(1));
    std::vector<ScanAccount> accounts(static_cast<size_t>(m));
    int64_t asked = 0;
    EXPECT_TRUE(ExactScan(queries, rows.view(Metric::kSquaredL2), 0, n,
                          absl::MakeSpan(tops), absl::MakeSpan(accounts),
                          [&asked] { return ++asked < 0; }));
    const int64_t bytes = n * d * 4 * ((m + 3) / 4);
    EXPECT_GE(asked, bytes / (512 << 10)) << m;
    EXPECT_LE(asked, bytes / (256 << 10) + 1) << m;
  }
}

TEST(ExactScan, CanBeStoppedInTheMiddle) {
  const int64_t n = 4096;
  const int64_t d = 256;
  const std::vector<float> data(static_cast<size_t>(n * d), 1);
  const Rows rows({data.data(), n, d, d}, d, 0);
  const ScanQueries queries(Metric::kSquaredL2, {data.data(), 1, d, d});
  std::vector<TopK> tops(1, TopK(1));
  std::vector<ScanAccount> accounts(1);
  int64_t asked = 0;
  EXPECT_FALSE(ExactScan(queries, rows.view(Metric::kSquaredL2), 0, n,
                         absl::MakeSpan(tops), absl::MakeSpan(accounts),
                         [&asked] { return ++asked == 3; }));
  const int64_t done = accounts[0].evaluated + accounts[0].ruled_out;
  EXPECT_GT(done, 0);
  EXPECT_LT(done, n / 4);
}

TEST(ExactScan, RulesNothingOutByAnOverflow) {
  const std::vector<float> data = {1e30f, 0.5f, 2.0f};
  const Rows rows({data.data(), 3, 1, 1}, 1, 0);
  const float query = 1e30f;
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    const ScanQueries zero(Metric::kSquaredL2, {&data[1], 1, 1, 1});
    const ScanAccount l2 =
        Scan(zero, rows.view(Metric::kSquaredL2), {0, 3}, 3, 1.0).accounts[0];
    EXPECT_EQ(l2.evaluated, 2) << SimdTargetName(target);
    EXPECT_EQ(l2.ruled_out, 1) << SimdTargetName(target);

    const ScanQueries far(Metric::kInnerProduct, {&query, 1, 1, 1});
    const ScanAccount ip =
        Scan(far, rows.view(Metric::kInnerProduct), {0, 3}, 3, -1e31)
            .accounts[0];
    EXPECT_EQ(ip.evaluated, 1) << SimdTargetName(target);
    EXPECT_EQ(ip.ruled_out, 2) << SimdTargetName(target);
  }
}

TEST(ExactScan, AnswersNoQueriesAndNoRows) {
  const ScanQueries none(Metric::kCosine, {nullptr, 0, 4, 4});
  EXPECT_EQ(none.size(), 0);
  const std::vector<float> one = {1, 2, 3, 4};
  const Rows rows({one.data(), 1, 4, 4}, 4, 0);
  EXPECT_TRUE(ExactScan(none, rows.view(Metric::kCosine), 0, 1, {}, {}, Never));

  const ScanQueries queries(Metric::kCosine, {one.data(), 1, 4, 4});
  const Found found =
      Scan(queries, ScanRows{{nullptr, 0, 4, 4}}, {0, 0}, 3, kInfinity);
  EXPECT_TRUE(found.neighbors[0].empty());
}

TEST(ScanQueries, KeepTheirVectorsAndNorms) {
  const std::vector<float> data = {1, 2, 3, 99, 4, 5, 6, 99};
  const ScanQueries queries(Metric::kSquaredL2, {data.data(), 2, 3, 4});
  const ScanQueries copy = queries;
  for (const ScanQueries* q : {&queries, &copy}) {
    EXPECT_EQ(q->size(), 2);
    EXPECT_EQ(q->dimension(), 3);
    EXPECT_EQ(q->query(1), VectorView({4, 5, 6}));
    EXPECT_EQ(q->squared_norm(1), 77);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(q->query(1).data()) % 64, 0u);
    EXPECT_EQ(q->view().data[3], 0);
  }
}

}  // namespace
}  // namespace coterie
