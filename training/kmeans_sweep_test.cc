// Hartigan and Wong's algorithm over shards, against optima from the
// literature and against the sequential algorithm as published.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/kmeans_job.h"
#include "training/kmeans_local.h"
#include "training/kmeans_testing.h"

namespace coterie {
namespace {

// Shard s holds a consecutive part of the ids.
std::vector<int32_t> Consecutive(int64_t n, int32_t shards) {
  std::vector<int32_t> place;
  for (int64_t i = 0; i < n; ++i) {
    place.push_back(static_cast<int32_t>(i * shards / n));
  }
  return place;
}

// AS 136 in plain double, means kept up to date as published, from given
// labels. Second choices start as KMeansShard's do.
class SequentialHartiganWong {
 public:
  SequentialHartiganWong(const KMeansData& data, std::vector<int32_t> labels,
                         int32_t k)
      : data_(data), k_(k), m_(data.n()), first_(std::move(labels)) {
    means_.assign(static_cast<size_t>(k * data.d), 0);
    sizes_.assign(static_cast<size_t>(k), 0);
    for (int64_t i = 0; i < m_; ++i) {
      const int32_t l = first_[static_cast<size_t>(i)];
      second_.push_back((l + 1) % k);
      sizes_[static_cast<size_t>(l)] += 1;
      for (int64_t j = 0; j < data.d; ++j) mean(l, j) += data.row(i)[j];
    }
    for (int32_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < data.d; ++j) mean(l, j) /= sizes_[l];
    }
    live_.assign(static_cast<size_t>(k), m_);
    ncp_.assign(static_cast<size_t>(k), -1);
    itran_.assign(static_cast<size_t>(k), 0);
  }

  std::vector<int32_t> Run() {
    while (true) {
      if (OptimalTransfer()) return first_;
      QuickTransfer();
      if (k_ == 2) return first_;
      for (int32_t l = 0; l < k_; ++l) {
        ncp_[l] = 0;
        if (itran_[l] != 0) live_[l] = m_;
      }
    }
  }

 private:
  double& mean(int32_t l, int64_t j) {
    return means_[static_cast<size_t>(l * data_.d + j)];
  }
  double Distance(int64_t i, int32_t l) {
    double sum = 0;
    for (int64_t j = 0; j < data_.d; ++j) {
      const double t = data_.row(i)[j] - mean(l, j);
      sum += t * t;
    }
    return sum;
  }
  double Saved(int64_t i, int32_t l) {
    return Distance(i, l) * sizes_[l] / (sizes_[l] - 1);
  }
  double Cost(int64_t i, int32_t l) {
    return Distance(i, l) * sizes_[l] / (sizes_[l] + 1);
  }
  void Move(int64_t i, int32_t from, int32_t to) {
    for (int64_t j = 0; j < data_.d; ++j) {
      const double x = data_.row(i)[j];
      mean(from, j) = (mean(from, j) * sizes_[from] - x) / (sizes_[from] - 1);
      mean(to, j) = (mean(to, j) * sizes_[to] + x) / (sizes_[to] + 1);
    }
    sizes_[from] -= 1;
    sizes_[to] += 1;
    first_[static_cast<size_t>(i)] = to;
    second_[static_cast<size_t>(i)] = from;
  }
  bool OptimalTransfer() {
    for (int64_t i = 0; i < m_; ++i) {
      ++index_;
      const int32_t l1 = first_[static_cast<size_t>(i)];
      if (sizes_[l1] > 1) {
        int32_t l2 = second_[static_cast<size_t>(i)];
        const int32_t ll = l2;
        double r2 = Cost(i, l2);
        for (int32_t l = 0; l < k_; ++l) {
          if ((i >= live_[l1] && i >= live_[l]) || l == l1 || l == ll) continue;
          if (Cost(i, l) < r2) {
            r2 = Cost(i, l);
            l2 = l;
          }
        }
        second_[static_cast<size_t>(i)] = l2;
        if (r2 < Saved(i, l1) * (1 - 1e-12)) {
          index_ = 0;
          live_[l1] = live_[l2] = m_ + i;
          ncp_[l1] = ncp_[l2] = i + 1;
          Move(i, l1, l2);
        }
      }
      if (index_ == m_) return true;
    }
    for (int32_t l = 0; l < k_; ++l) {
      itran_[l] = 0;
      live_[l] -= m_;
    }
    return false;
  }
  void QuickTransfer() {
    int64_t count = 0;
    int64_t step = 0;
    while (true) {
      for (int64_t i = 0; i < m_; ++i) {
        ++count;
        ++step;
        const int32_t l1 = first_[static_cast<size_t>(i)];
        const int32_t l2 = second_[static_cast<size_t>(i)];
        if (sizes_[l1] > 1 && (step < ncp_[l1] || step < ncp_[l2]) &&
            Cost(i, l2) < Saved(i, l1) * (1 - 1e-12)) {
          count = 0;
          index_ = 0;
          itran_[l1] = itran_[l2] = 1;
          ncp_[l1] = ncp_[l2] = step + m_;
          Move(i, l1, l2);
        }
        if (count == m_) return;
      }
    }
  }

  const KMeansData& data_;
  const int32_t k_;
  const int64_t m_;
  int64_t index_ = 0;
  std::vector<int32_t> first_;
  std::vector<int32_t> second_;
  std::vector<double> means_;
  std::vector<double> sizes_;
  std::vector<int64_t> live_;
  std::vector<int64_t> ncp_;
  std::vector<int32_t> itran_;
};

double ObjectiveOf(const KMeansData& data, const std::vector<int32_t>& labels,
                   int32_t k) {
  std::vector<double> means(static_cast<size_t>(k * data.d), 0);
  std::vector<double> sizes(static_cast<size_t>(k), 0);
  for (int64_t i = 0; i < data.n(); ++i) {
    const int32_t l = labels[static_cast<size_t>(i)];
    sizes[static_cast<size_t>(l)] += 1;
    for (int64_t j = 0; j < data.d; ++j) {
      means[static_cast<size_t>(l * data.d + j)] += data.row(i)[j];
    }
  }
  double sum = 0;
  for (int64_t i = 0; i < data.n(); ++i) {
    const int32_t l = labels[static_cast<size_t>(i)];
    for (int64_t j = 0; j < data.d; ++j) {
      const double t =
          data.row(i)[j] - means[static_cast<size_t>(l * data.d + j)] /
                               sizes[static_cast<size_t>(l)];
      sum += t * t;
    }
  }
  return sum;
}

std::vector<int32_t> LabelsInOrder(const KMeansData& data,
                                   const KMeansCluster& cluster) {
  std::vector<int32_t> labels;
  const auto by_id = cluster.Labels();
  for (int64_t i = 0; i < data.n(); ++i) labels.push_back(by_id.at(data.id(i)));
  return labels;
}

TEST(HartiganWong, EqualsTheSequentialAlgorithmOnAnyConsecutiveShards) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  int better = 0;
  for (int round = 0; round < 12; ++round) {
    KMeansData data = Blobs(300, 1 + round % 4, 12, 5, random);
    data.ids.clear();  // in the order of rows
    const int32_t k = 2 + round * 2;
    KMeansOptions options = OptionsFor(data, k, true);
    options.empty = KMeansEmptyPolicy::kError;
    KMeansCluster lloyd(data, 1);
    const absl::StatusOr<KMeansResult> before = lloyd.Run(options);
    ASSERT_TRUE(before.ok());
    SequentialHartiganWong sequential(data, LabelsInOrder(data, lloyd), k);
    const std::vector<int32_t> expected = sequential.Run();
    options.polish = KMeansPolish::kHartiganWong;
    for (int32_t shards : {1, 2, 3, 7}) {
      SCOPED_TRACE(testing::Message() << "k=" << k << " shards=" << shards);
      KMeansCluster cluster(data, Consecutive(300, shards), shards);
      const absl::StatusOr<KMeansResult> after = cluster.Run(options);
      ASSERT_TRUE(after.ok());
      EXPECT_EQ(LabelsInOrder(data, cluster), expected);
      EXPECT_LE(after->objective, before->objective);
      if (after->objective < before->objective) ++better;
      EXPECT_NEAR(after->objective, ObjectiveOf(data, expected, k),
                  1e-9 * after->objective);
    }
  }
  EXPECT_GT(better, 0);
}

class Polish : public testing::TestWithParam<KMeansPolish> {};

INSTANTIATE_TEST_SUITE_P(All, Polish,
                         testing::Values(KMeansPolish::kHartiganWong,
                                         KMeansPolish::kHartigan));

// No single move improves it.
TEST_P(Polish, EndsAtAHartiganOptimum) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(150, 2, 6, 6, random);
  const int32_t k = 8;
  KMeansOptions options = OptionsFor(data, k, false);
  options.polish = GetParam();
  KMeansCluster cluster(data, 3);
  ASSERT_TRUE(cluster.Run(options).ok());
  std::vector<int32_t> labels = LabelsInOrder(data, cluster);
  const double least = ObjectiveOf(data, labels, k);
  for (size_t i = 0; i < labels.size(); ++i) {
    const int32_t own = labels[i];
    if (std::count(labels.begin(), labels.end(), own) == 1) continue;
    for (int32_t l = 0; l < k; ++l) {
      labels[i] = l;
      EXPECT_GE(ObjectiveOf(data, labels, k), least * (1 - 1e-9));
    }
    labels[i] = own;
  }
}

// {0, 3} and {5} is stable for Lloyd (4.5), not for Hartigan (2).
TEST_P(Polish, LeavesWhatLloydCannot) {
  KMeansData data;
  data.rows = {0, 3, 5};
  KMeansOptions options = OptionsFor(data, 2, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {1.5, 5};
  KMeansCluster lloyd(data, 1);
  EXPECT_EQ(lloyd.Run(options)->objective, 4.5);
  options.polish = GetParam();
  for (int32_t shards : {1, 2, 3}) {
    KMeansCluster cluster(data, shards);
    const absl::StatusOr<KMeansResult> result = cluster.Run(options);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->objective, 2);
    EXPECT_EQ(result->centres, std::vector<float>({0, 4}));
  }
}

TEST_P(Polish, WeightsCountAsCopies) {
  KMeansData weighted;
  weighted.rows = {0, 3, 5, 9, 10};
  weighted.weights = {2, 2, 1, 1, 3};
  KMeansData copied;
  copied.rows = {0, 0, 3, 3, 5, 9, 10, 10, 10};
  KMeansOptions options = OptionsFor(weighted, 2, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {0, 10};
  options.polish = GetParam();
  KMeansCluster one(weighted, 2);
  KMeansCluster other(copied, 2);
  EXPECT_EQ(one.Run(options)->objective, other.Run(options)->objective);
}

TEST_P(Polish, ResumesWithTheSameBits) {
  std::mt19937_64 random(TestSeed());
  KMeansData data = Blobs(200, 2, 8, 6, random);
  data.ids.clear();
  KMeansOptions options = OptionsFor(data, 8, false);
  options.polish = GetParam();
  options.runs = 2;
  KMeansCluster cluster(data, Consecutive(200, 2), 2);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 2);
  ASSERT_TRUE(job.ok());
  std::vector<KMeansCheckpoint> checkpoints;
  while (!job->Done()) {
    if (job->Checkpoint().phase == KMeansPhase::kPolish) {
      checkpoints.push_back(job->Checkpoint());
    }
    const KMeansStep step = job->NextStep();
    for (int32_t s = 0; s < 2; ++s) {
      if (step.shard >= 0 && step.shard != s) continue;
      const auto partial = cluster.shards()[static_cast<size_t>(s)]->Run(
          step, KMeansWorkers(), [] { return false; });
      ASSERT_TRUE(partial.ok());
      ASSERT_TRUE(job->Accept(s, *partial).ok());
    }
  }
  ASSERT_GT(checkpoints.size(), 2u);
  for (const KMeansCheckpoint& checkpoint : checkpoints) {
    KMeansCluster fresh(data, Consecutive(200, 5), 5);
    absl::StatusOr<KMeansJob> resumed = KMeansJob::Resume(checkpoint, 5);
    ASSERT_TRUE(resumed.ok());
    ASSERT_TRUE(PumpKMeans(*resumed, fresh.shards(), {}).ok());
    EXPECT_EQ(resumed->Result().centres, job->Result().centres);
    EXPECT_EQ(resumed->Result().objective, job->Result().objective);
  }
}

TEST_P(Polish, IsRefusedUnderCosineAndWithFloatSums) {
  KMeansOptions options;
  options.dimension = 2;
  options.k = 2;
  options.polish = GetParam();
  EXPECT_TRUE(ValidateKMeansOptions(options).ok());
  options.form = KMeansSumForm::kFloat32;
  EXPECT_FALSE(ValidateKMeansOptions(options).ok());
  options.form = KMeansSumForm::kInt64;
  options.metric = Metric::kCosine;
  EXPECT_FALSE(ValidateKMeansOptions(options).ok());
}

// Any placement, any number of threads; J falls below Lloyd's.
TEST(Hartigan, HasTheSameBitsForAnyPlacement) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(1500, 5, 20, 8, random);
  KMeansOptions options = OptionsFor(data, 30, false);
  KMeansCluster lloyd(data, 1);
  const absl::StatusOr<KMeansResult> before = lloyd.Run(options);
  options.polish = KMeansPolish::kHartigan;
  KMeansCluster one(data, 1);
  const absl::StatusOr<KMeansResult> expected = one.Run(options);
  ASSERT_TRUE(before.ok() && expected.ok());
  EXPECT_LT(expected->objective, before->objective);
  for (int32_t shards : {2, 3, 7, 16}) {
    KMeansCluster cluster(data, shards, random());
    const absl::StatusOr<KMeansResult> result =
        cluster.Run(options, ThreadedWorkers(shards % 2 == 0 ? 4 : 1));
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->centres, expected->centres);
    EXPECT_EQ(result->objective, expected->objective);
    EXPECT_TRUE(cluster.Labels() == one.Labels());
  }
}

// Values proved optimal by du Merle, Hansen, Jaumard and Mladenovic (SIAM
// Journal on Scientific Computing 21, 1999), to their printed digits.
void ReachesOptima(const KMeansData& data, int32_t runs,
                   const std::vector<double>& optima) {
  for (size_t i = 0; i < optima.size(); ++i) {
    const int64_t k = static_cast<int64_t>(i) + 2;
    KMeansOptions options = OptionsFor(data, k, false);
    options.seeding = KMeansSeeding::kPlusPlus;
    options.polish = KMeansPolish::kHartiganWong;
    options.runs = runs;
    KMeansCluster cluster(data, 3);
    const absl::StatusOr<KMeansResult> result = cluster.Run(options);
    ASSERT_TRUE(result.ok());
    EXPECT_NEAR(result->objective, optima[i], 2e-6 * optima[i]) << "k=" << k;
  }
}

TEST(HartiganWong, ReachesTheOptimaOfIris) {
  const KMeansData data = ReadCsv("data/iris.csv");
  ASSERT_EQ(data.n(), 150);
  ReachesOptima(data, 200,
                {152.347952, 78.851441, 57.228473, 46.446182, 39.039987,
                 34.298230, 29.988944, 27.786092, 25.834055});
}

TEST(HartiganWong, ReachesTheOptimaOfRuspini) {
  const KMeansData data = ReadCsv("data/ruspini.csv");
  ASSERT_EQ(data.n(), 75);
  ReachesOptima(data, 60,
                {89337.8321, 51063.4750, 12881.0512, 10126.7198, 8575.4069,
                 7126.1985, 6149.6390, 5181.6518, 4446.2821});
}

TEST(HartiganWong, IrisInThreeHasThePublishedSizes) {
  const KMeansData data = ReadCsv("data/iris.csv");
  KMeansOptions options = OptionsFor(data, 3, false);
  options.runs = 10;
  KMeansCluster cluster(data, 2);
  const absl::StatusOr<KMeansResult> result = cluster.Run(options);
  ASSERT_TRUE(result.ok());
  std::vector<double> sizes = result->weights;
  std::sort(sizes.begin(), sizes.end());
  EXPECT_EQ(sizes, std::vector<double>({38, 50, 62}));
}

}  // namespace
}  // namespace coterie
