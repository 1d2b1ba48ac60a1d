#include "training/kmeans_quality.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/kmeans_job.h"
#include "training/kmeans_testing.h"

namespace coterie {
namespace {

// Figures of scikit-learn 1.9.1 on the same file in float64:
//   KMeans(3, n_init=20, tol=0), calinski_harabasz_score,
//   davies_bouldin_score, silhouette_score(metric="sqeuclidean").
TEST(KMeansQuality, EqualsScikitLearnOnIris) {
  const KMeansData data = ReadCsv("data/iris.csv");
  ASSERT_EQ(data.n(), 150);
  KMeansOptions options = OptionsFor(data, 3, false);
  options.runs = 20;
  options.measure = true;
  options.silhouette_rows = 150;
  for (int32_t shards : {1, 3}) {
    KMeansCluster cluster(data, shards);
    const absl::StatusOr<KMeansResult> result = cluster.Run(options);
    ASSERT_TRUE(result.ok());
    const KMeansQuality& quality = result->quality;
    EXPECT_NEAR(result->objective, 78.851441426146, 1e-5);
    EXPECT_NEAR(quality.calinski_harabasz, 561.62775662962, 1e-4);
    EXPECT_NEAR(quality.davies_bouldin, 0.6619715465007465, 1e-6);
    EXPECT_NEAR(quality.silhouette, 0.7356596054332232, 1e-6);
    EXPECT_NEAR(quality.imbalance,
                3 * (38. * 38 + 50 * 50 + 62 * 62) / (150 * 150), 1e-12);
    double sum = 0;
    for (double objective : quality.objectives) sum += objective;
    EXPECT_NEAR(sum, result->objective, 1e-9);
  }
}

struct Recorded {
  const char* file;
  std::vector<int64_t> init;
  int64_t iterations;
  double inertia;
  std::vector<double> sizes;
  int64_t label_sum;  // of label times row, from 1
};

// Whole numbers and eighths.
KMeansData MadeRows() {
  KMeansData data;
  data.d = 5;
  for (int64_t i = 0; i < 900; ++i) {
    for (int64_t j = 0; j < data.d; ++j) {
      data.rows.push_back(
          static_cast<float>((i * 7919 + j * 104729 + i * i * (j + 3)) % 1009) /
          8);
    }
  }
  return data;
}

// Every `step`-th of 900 rows.
std::vector<int64_t> Every(int64_t step) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 900; i += step) rows.push_back(i);
  return rows;
}

// scikit-learn 1.9.1 on float64 copies of the same float32 rows, KMeans(k,
// init=X[init], n_init=1, tol=0), "lloyd" and "elkan" alike: the same labels in
// as many iterations.
TEST(KMeansQuality, LloydAndElkanEqualScikitLearnFromTheSameStart) {
  const std::vector<Recorded> records = {
      {"data/iris.csv", {0, 50, 100}, 4, 78.8514396442595, {50, 62, 38}, 14684},
      {"data/iris.csv",
       {0, 30, 60, 90, 120},
       9,
       49.849812013088595,
       {28, 22, 27, 41, 32},
       32544},
      {"data/ruspini.csv",
       {0, 20, 40, 60},
       3,
       12881.051236146628,
       {20, 23, 17, 15},
       5564},
      {"data/ruspini.csv",
       {0, 10, 20, 30, 40, 50, 60},
       3,
       9655.74797979798,
       {4, 16, 9, 11, 4, 16, 15},
       12796},
      {"",
       Every(150),
       40,
       3075576.2703220667,
       {148, 158, 185, 125, 101, 183},
       1001817},
      {"",
       Every(60),
       21,
       1741208.3104864245,
       {53, 33, 59, 15, 117, 62, 71, 74, 98, 25, 67, 41, 35, 89, 61},
       2910339}};
  for (const Recorded& record : records) {
    const KMeansData data =
        record.file[0] == 0 ? MadeRows() : ReadCsv(record.file);
    const int64_t k = static_cast<int64_t>(record.init.size());
    for (KMeansAlgorithm algorithm :
         {KMeansAlgorithm::kLloyd, KMeansAlgorithm::kHamerly,
          KMeansAlgorithm::kElkan}) {
      SCOPED_TRACE(testing::Message() << record.file << " k=" << k);
      KMeansOptions options = OptionsFor(data, k, false);
      options.seeding = KMeansSeeding::kGiven;
      options.algorithm = algorithm;
      for (int64_t row : record.init) {
        const VectorView x = data.row(row);
        options.given.insert(options.given.end(), x.begin(), x.end());
      }
      KMeansCluster cluster(data, 2);
      const absl::StatusOr<KMeansResult> result = cluster.Run(options);
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(result->iterations, record.iterations);
      EXPECT_NEAR(result->objective, record.inertia, 1e-12 * record.inertia);
      EXPECT_EQ(result->weights, record.sizes);
      int64_t sum = 0;
      for (const auto& [id, label] : cluster.Labels()) {
        sum += static_cast<int64_t>(id + 1) * label;
      }
      EXPECT_EQ(sum, record.label_sum);
    }
  }
}

TEST(KMeansQuality, SampledSilhouetteComesCloseAndDoesNotDependOnShards) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(6000, 4, 8, 3, random);
  KMeansOptions options = OptionsFor(data, 8, false);
  options.measure = true;
  options.silhouette_rows = 6000;
  KMeansCluster whole(data, 1);
  const double all = whole.Run(options)->quality.silhouette;
  options.silhouette_rows = 1000;
  KMeansCluster one(data, 1);
  KMeansCluster many(data, 5);
  const KMeansQuality sampled = one.Run(options)->quality;
  EXPECT_NEAR(sampled.silhouette, all, 0.05);
  EXPECT_TRUE(many.Run(options, ThreadedWorkers(3))->quality == sampled);
}

TEST(KMeansQuality, OneClusterAndEqualRowsMeasureNothing) {
  KMeansData data;
  data.rows = {5, 5, 5, 5};
  for (int64_t k : {1, 3}) {
    KMeansOptions options = OptionsFor(data, k, false);
    options.measure = true;
    options.silhouette_rows = 4;
    KMeansCluster cluster(data, 2);
    const absl::StatusOr<KMeansResult> result = cluster.Run(options);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->quality.calinski_harabasz, 0);
    EXPECT_EQ(result->quality.davies_bouldin, 0);
    EXPECT_EQ(result->quality.silhouette, 0);
  }
}

TEST(KMeansQuality, ElbowIsWhereTheCurveBends) {
  const std::vector<ElbowPoint> points = {{1, 100}, {2, 60}, {3, 20},
                                          {4, 17},  {5, 15}, {6, 14}};
  EXPECT_EQ(ElbowOf(points), 3);
  EXPECT_EQ(ElbowOf(absl::MakeConstSpan(points).first(2)), 0);
}

}  // namespace
}  // namespace coterie
