// Faults that users of other k-means systems reported, through the service.

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kmeans_jobs_testing.h"
#include "tests/local_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

KMeansData Line(std::vector<float> values) {
  KMeansData data;
  data.d = 1;
  data.rows = std::move(values);
  return data;
}

LocalClusterOptions Shards(int32_t shards) {
  LocalClusterOptions options;
  options.shards = shards;
  return options;
}

absl::StatusOr<Clustering> Train(LocalCluster& cluster, KMeansRequest request) {
  request.replace = true;
  return Follow(
             cluster.coordinator().jobs().Train(std::move(request), {}).get())
      .result;
}

// Centres of clusters that have rows.
std::vector<float> NonEmpty(const KMeansResult& result) {
  std::vector<float> centres;
  for (size_t j = 0; j < result.weights.size(); ++j) {
    EXPECT_TRUE(std::isfinite(result.centres[j]));
    if (result.weights[j] > 0) centres.push_back(result.centres[j]);
  }
  return centres;
}

TEST(KMeansFaults, FewerDistinctPointsThanClustersAreSaidToBe) {
  const KMeansData data = Line({0, 0, 0, 10, 10});
  for (const int32_t shards : {1, 2, 3}) {
    LocalCluster cluster(Shards(shards));
    Load(cluster, data, Metric::kSquaredL2);
    const auto result = Train(cluster, RequestFor(data, 3, false));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(NonEmpty(result->result), UnorderedElementsAre(0, 10));
    EXPECT_EQ(result->result.non_empty, 2);
    EXPECT_EQ(result->result.objective, 0);
    EXPECT_THAT(result->warnings, ElementsAre(HasSubstr("1 of 3 clusters")));
  }
}

TEST(KMeansFaults, RelocationOntoLonePointsSettles) {
  const KMeansData data = Line({8, 9, 15, 9});
  LocalCluster cluster(Shards(2));
  Load(cluster, data, Metric::kSquaredL2);
  KMeansRequest request = RequestFor(data, 4, true);
  request.options.given = {22, 25, 29, 13};
  const auto result = Train(cluster, request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(NonEmpty(result->result), UnorderedElementsAre(8, 9, 15));
  EXPECT_LE(result->result.iterations, 5);
  EXPECT_EQ(result->result.objective, 0);
  EXPECT_EQ(result->result.stop, KMeansStop::kConverged);
}

TEST(KMeansFaults, AnEmptyClusterIsNoNaN) {
  const KMeansData data = Line({0, 1, 10, 11});
  LocalCluster cluster(Shards(2));
  Load(cluster, data, Metric::kSquaredL2);
  KMeansRequest request = RequestFor(data, 3, true);
  request.options.given = {0.5F, 100, 10.5F};
  auto result = Train(cluster, request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->result.non_empty, 3);
  request.options.empty = KMeansEmptyPolicy::kKeep;
  result = Train(cluster, request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->result.centres, ElementsAre(0.5F, 100, 10.5F));
  EXPECT_THAT(result->result.weights, ElementsAre(2, 0, 2));
}

TEST(KMeansFaults, InertiaIsOfDifferences) {
  const KMeansData data = Line({99.99F, 100.01F, -100.01F, -99.99F});
  LocalCluster cluster(Shards(2));
  Load(cluster, data, Metric::kSquaredL2);
  KMeansRequest request = RequestFor(data, 2, true);
  request.options.given = {99, -99};
  const auto result = Train(cluster, request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->result.objective, 0.00040017, 0.000004);
}

TEST(KMeansFaults, ShardsWithoutRowsTakePart) {
  std::vector<float> values;
  for (int i = 0; i < 10; ++i) values.push_back(static_cast<float>(i * i));
  const KMeansData data = Line(values);
  const KMeansRequest request = RequestFor(data, 2, false);
  const KMeansResult expected = Expected(data, request.options);
  LocalClusterOptions options = Shards(3);
  options.coordinator.placement = [](int32_t slots, int32_t) {
    return std::vector<int32_t>(static_cast<size_t>(slots), 1);
  };
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  const auto result = Train(cluster, request);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectSame(result->result, expected);
  std::vector<PointId> all;
  for (int64_t i = 0; i < data.n(); ++i) all.push_back(data.id(i));
  ASSERT_TRUE(cluster.Delete("c", all).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Train(cluster, request).status()));
}

TEST(KMeansFaults, AWeightIsThatManyCopies) {
  KMeansData data = Line({0, 10, 77});
  data.weights = {3, 1, 0};
  LocalCluster cluster(Shards(2));
  Load(cluster, data, Metric::kSquaredL2);
  KMeansRequest request = RequestFor(data, 1, false);
  request.weight_attribute = "w";
  const auto result = Train(cluster, request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->result.centres, ElementsAre(2.5F));
  EXPECT_NEAR(result->result.objective, 75, 1e-9);
  for (const double weight : {0.0, -1.0}) {
    data.weights = {weight, weight, weight};
    LocalCluster bad(Shards(2));
    Load(bad, data, Metric::kSquaredL2);
    EXPECT_TRUE(absl::IsInvalidArgument(Train(bad, request).status()))
        << weight;
  }
}

TEST(KMeansFaults, CosineAveragesDirections) {
  KMeansData data;
  data.d = 2;
  data.metric = Metric::kCosine;
  data.rows = {100, 0, 0, 1};
  LocalCluster cluster(Shards(2));
  Load(cluster, data, Metric::kCosine);
  auto result = Train(cluster, RequestFor(data, 1, false));
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<float>& centre = result->result.centres;
  EXPECT_NEAR(centre[0] / std::hypot(centre[0], centre[1]), std::sqrt(0.5),
              1e-6);
  data.rows = {1, 0, -1, 0};
  LocalCluster opposite(Shards(2));
  Load(opposite, data, Metric::kCosine);
  result = Train(opposite, RequestFor(data, 1, false));
  ASSERT_TRUE(result.ok()) << result.status();
  for (const float v : result->result.centres) EXPECT_TRUE(std::isfinite(v));
}

// One unit in the last place apart: potentials of drawing are next to nothing.
TEST(KMeansFaults, NeighbouringFloatsAreSeeded) {
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back(36000.0F + 0.00390625F * i);
  for (const bool equal : {false, true}) {
    const KMeansData data =
        Line(equal ? std::vector<float>(8, 36000.0F) : values);
    LocalCluster cluster(Shards(2));
    Load(cluster, data, Metric::kSquaredL2);
    for (const KMeansSeeding seeding :
         {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus}) {
      for (uint64_t seed = 0; seed < 5; ++seed) {
        KMeansRequest request = RequestFor(data, 5, false);
        request.options.seeding = seeding;
        request.options.seed = seed;
        request.replace = true;
        const auto result = Train(cluster, request);
        ASSERT_TRUE(result.ok()) << result.status();
        const std::vector<float> centres = NonEmpty(result->result);
        EXPECT_EQ(std::set<float>(centres.begin(), centres.end()).size(),
                  equal ? 1U : 5U);
        EXPECT_EQ(result->result.non_empty, equal ? 1 : 5);
      }
    }
  }
}

TEST(KMeansFaults, CancellingStopsTheShards) {
  const KMeansData data = SomeData("long");
  LocalCluster cluster(Shards(2));
  Load(cluster, data, Metric::kSquaredL2);
  KMeansRequest request = RequestFor(data, 200, true);
  request.options.tolerance = 0;
  CallContext call;
  const auto cancel = std::make_shared<CancelToken>();
  call.cancel = cancel;
  const Followed run =
      Follow(cluster.coordinator().jobs().Train(request, call).get(),
             [&](const KMeansReport&) { cancel->Cancel(); });
  EXPECT_TRUE(absl::IsCancelled(run.result.status())) << run.result.status();
  // The stream ends after the shards have let go of the job.
  for (int32_t s = 0; s < 2; ++s) {
    const auto there = Await<bool>([&](Done<bool> done) {
      cluster.shard(s).EndJob(
          {"c", 0, "result", std::numeric_limits<int64_t>::max()}, {},
          std::move(done));
    });
    ASSERT_TRUE(there.ok());
    EXPECT_FALSE(*there) << "shard " << s;
  }
}

}  // namespace
}  // namespace coterie
