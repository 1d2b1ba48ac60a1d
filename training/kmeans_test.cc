// Whole k-means jobs over shards in the process: against a slow model, against
// known answers, and against themselves under other placements.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "index/vectors.h"
#include "training/kmeans_job.h"
#include "training/kmeans_local.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_testing.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

// Centres, weights, labels and objective, bit by bit.
struct Outcome {
  std::vector<float> centres;
  std::vector<double> weights;
  std::vector<uint8_t> active;
  std::map<PointId, int32_t> labels;
  double objective = 0;
  int64_t iterations = 0;
  KMeansStop stop = KMeansStop::kNone;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome RunOn(KMeansCluster& cluster, const KMeansOptions& options,
              const KMeansWorkers& workers = {}) {
  const absl::StatusOr<KMeansResult> result = cluster.Run(options, workers);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  return {result->centres,  result->weights,   result->active,
          cluster.Labels(), result->objective, result->iterations,
          result->stop};
}

Outcome RunOn(const KMeansData& data, const KMeansOptions& options,
              int32_t shards = 1) {
  KMeansCluster cluster(data, shards);
  return RunOn(cluster, options);
}

KMeansData Line(std::vector<float> values) {
  KMeansData data;
  data.rows = std::move(values);
  return data;
}

TEST(KMeans, FollowsTheModelStepByStep) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  for (int64_t d : {1, 2, 8, 33}) {
    for (int64_t k : {1, 2, 7, 40}) {
      const KMeansData data = Blobs(600, d, 12, 2, random);
      KMeansOptions options = OptionsFor(data, k, true);
      options.empty = KMeansEmptyPolicy::kKeep;
      const KMeansModel model =
          RunKMeansModel(data, options.given, options.max_iterations);
      const Outcome outcome = RunOn(data, options, 3);
      SCOPED_TRACE(testing::Message() << "d=" << d << " k=" << k);
      if (outcome.stop == KMeansStop::kStalled) continue;
      EXPECT_EQ(outcome.iterations, model.iterations);
      EXPECT_EQ(outcome.centres, model.centres);
      EXPECT_NEAR(outcome.objective, model.objective, 1e-12 * model.objective);
      for (int64_t i = 0; i < data.n(); ++i) {
        ASSERT_EQ(outcome.labels.at(data.id(i)),
                  model.labels[static_cast<size_t>(i)]);
      }
    }
  }
}

TEST(KMeans, HasTheSameBitsForAnyShardsThreadsAndPlacement) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  std::vector<KMeansData> sets = {Blobs(2100, 9, 20, 3, random),
                                  HeavyTailed(1600, 5, random)};
  sets.push_back(sets[0]);
  sets.back().metric = Metric::kCosine;
  sets.push_back(HeavyTailed(1600, 4, random));
  for (int64_t i = 0; i < sets.back().n(); ++i) {
    sets.back().weights.push_back(
        std::ldexp(1.0, static_cast<int>(random() % 30) - 15) / 3);
  }
  for (size_t s = 0; s < sets.size(); ++s) {
    for (KMeansSeeding seeding :
         {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus,
          KMeansSeeding::kRandom}) {
      // Enough centres for codes to be used, or few.
      KMeansOptions options =
          OptionsFor(sets[s], s == 0 || s == 2 ? 40 : 9, false);
      options.seeding = seeding;
      options.seed = seed + s;
      options.runs = 2;
      options.max_iterations = 5;
      const Outcome one = RunOn(sets[s], options, 1);
      for (int32_t shards : {2, 3, 7, 16}) {
        SCOPED_TRACE(testing::Message()
                     << "set " << s << " seeding " << static_cast<int>(seeding)
                     << " shards " << shards);
        KMeansCluster cluster(sets[s], shards, random());
        const Outcome many =
            RunOn(cluster, options,
                  shards % 2 == 0 ? ThreadedWorkers(4) : KMeansWorkers());
        ASSERT_TRUE(one == many);
      }
    }
  }
}

TEST(KMeans, HasTheSameBitsOnEverySimdTarget) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(2000, 37, 15, 4, random);
  const KMeansOptions options = OptionsFor(data, 40, false);
  const SimdTarget before = ActiveSimdTarget();
  std::vector<Outcome> outcomes;
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    outcomes.push_back(RunOn(data, options, 2));
  }
  SetActiveSimdTargetForTest(before);
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome == outcomes[0]);
  }
}

TEST(KMeans, HasTheSameBitsForEveryAlgorithmAndExactForm) {
  std::mt19937_64 random(TestSeed());
  std::vector<KMeansData> sets = {Blobs(3000, 10, 30, 4, random),
                                  HeavyTailed(2000, 8, random)};
  sets.push_back(sets[0]);
  sets.back().metric = Metric::kCosine;
  KMeansData grid;  // exact ties at every step
  grid.d = 8;
  for (int i = 0; i < 8000; ++i) {
    grid.rows.push_back(static_cast<float>(random() % 3));
  }
  sets.push_back(grid);
  for (size_t s = 0; s < sets.size(); ++s) {
    KMeansOptions options = OptionsFor(sets[s], 40, false);
    options.algorithm = KMeansAlgorithm::kLloyd;
    options.max_iterations = 40;
    const Outcome lloyd = RunOn(sets[s], options, 1);
    const int32_t shard_counts[] = {2, 3, 7, 16};
    size_t turn = s;
    for (KMeansAlgorithm algorithm :
         {KMeansAlgorithm::kLloyd, KMeansAlgorithm::kHamerly,
          KMeansAlgorithm::kElkan}) {
      for (KMeansSumForm form :
           {KMeansSumForm::kInt64, KMeansSumForm::kChanged}) {
        const int32_t shards = shard_counts[turn++ % 4];
        SCOPED_TRACE(testing::Message()
                     << "set " << s << " algorithm "
                     << static_cast<int>(algorithm) << " form "
                     << static_cast<int>(form) << " shards " << shards);
        options.algorithm = algorithm;
        options.form = form;
        ASSERT_TRUE(RunOn(sets[s], options, shards) == lloyd);
      }
    }
  }
}

// Bounds of an earlier step are of no use, but must do no harm.
TEST(KMeans, ElkanOverBudgetIsHamerly) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(1000, 4, 10, 2, random);
  KMeansOptions options = OptionsFor(data, 10, true);
  const Outcome lloyd = RunOn(data, options);
  options.algorithm = KMeansAlgorithm::kElkan;
  KMeansCluster cluster(data, std::vector<int32_t>(1000, 0), 1,
                        {.bound_bytes = 1000});
  EXPECT_TRUE(RunOn(cluster, options) == lloyd);
}

TEST(KMeans, BoundsSkipMostDistancesOfSeparatedBlobs) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(4000, 8, 20, 1, random);
  for (KMeansAlgorithm algorithm :
       {KMeansAlgorithm::kHamerly, KMeansAlgorithm::kElkan}) {
    KMeansOptions options = OptionsFor(data, 20, false);
    options.algorithm = algorithm;
    options.seeding = KMeansSeeding::kRandom;
    absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
    ASSERT_TRUE(job.ok());
    KMeansCluster cluster(data, 1);
    ASSERT_TRUE(PumpKMeans(*job, cluster.shards(), {}).ok());
    ASSERT_GT(job->progress().size(), 3u);
    const KMeansProgress& last = job->progress().back();
    EXPECT_GT(last.skipped, 9 * last.evaluated);
  }
}

TEST(KMeans, NeverRaisesTheObjective) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 20; ++round) {
    const KMeansData data = round % 2 == 0 ? Blobs(800, 3, 15, 4, random)
                                           : HeavyTailed(500, 2, random);
    KMeansOptions options = OptionsFor(data, 12, false);
    options.seeding = KMeansSeeding::kRandom;
    options.seed = random();
    absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 2);
    ASSERT_TRUE(job.ok());
    KMeansCluster cluster(data, 2);
    ASSERT_TRUE(PumpKMeans(*job, cluster.shards(), {}).ok());
    double previous = std::numeric_limits<double>::infinity();
    for (const KMeansProgress& progress : job->progress()) {
      EXPECT_LE(progress.objective, previous * (1 + 1e-12));
      previous = progress.objective;
    }
    EXPECT_GT(job->progress().back().bytes_up, 0);
  }
}

TEST(KMeans, WeightsCountAsCopies) {
  KMeansData weighted = Line({0, 10});
  weighted.weights = {3, 1};
  const Outcome by_weight = RunOn(weighted, OptionsFor(weighted, 1, true));
  const KMeansData copied = Line({0, 0, 0, 10});
  const Outcome by_copies = RunOn(copied, OptionsFor(copied, 1, true));
  EXPECT_EQ(by_weight.centres, std::vector<float>({2.5}));
  EXPECT_EQ(by_copies.centres, by_weight.centres);
  EXPECT_EQ(by_weight.objective, 75);
  EXPECT_EQ(by_copies.objective, 75);

  KMeansData with_zero = Line({0, 10, 1000});
  with_zero.weights = {3, 1, 0};
  const Outcome zero = RunOn(with_zero, OptionsFor(with_zero, 1, true));
  EXPECT_EQ(zero.centres, by_weight.centres);
  EXPECT_EQ(zero.objective, 75);
}

TEST(KMeans, WeightedFourPoints) {
  KMeansData data;
  data.d = 2;
  data.rows = {0, 0, .5, 0, .5, 1, 1, 1};
  data.weights = {3, 1, 1, 3};
  KMeansOptions options = OptionsFor(data, 2, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {0, 0, 1, 1};
  const Outcome outcome = RunOn(data, options);
  EXPECT_EQ(outcome.centres, std::vector<float>({.125, 0, .875, 1}));
  EXPECT_EQ(outcome.objective, .375);
  EXPECT_EQ(outcome.iterations, 2);
}

TEST(KMeans, RelocatesAnEmptyClusterToTheFarthestRow) {
  KMeansData data;
  data.d = 2;
  data.rows = {0, 0, .5, 0, .5, 1, 1, 1};
  KMeansOptions options = OptionsFor(data, 2, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {.5, .5, 3, 3};
  const Outcome outcome = RunOn(data, options, 2);
  // Both ends are as far; the lower id moves.
  EXPECT_EQ(outcome.centres, std::vector<float>({.75, 1, .25, 0}));
  EXPECT_EQ(outcome.objective, .25);
  EXPECT_EQ(outcome.iterations, 3);
}

TEST(KMeans, RelocationSettlesWithDuplicates) {
  const KMeansData data = Line({8, 9, 15, 9});
  KMeansOptions options = OptionsFor(data, 4, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {22, 25, 29, 13};
  for (int32_t shards : {1, 2, 3}) {
    const Outcome outcome = RunOn(data, options, shards);
    EXPECT_EQ(outcome.objective, 0);
    EXPECT_EQ(outcome.stop, KMeansStop::kConverged);
    EXPECT_LE(outcome.iterations, 5);
    EXPECT_EQ(std::count(outcome.weights.begin(), outcome.weights.end(), 0), 1);
    for (float v : {8, 9, 15}) {
      EXPECT_GE(std::count(outcome.centres.begin(), outcome.centres.end(), v),
                1);
    }
  }
}

TEST(KMeans, FewerDistinctRowsThanClustersAreFlagged) {
  const KMeansData data = Line({0, 0, 0, 10, 10});
  for (KMeansSeeding seeding :
       {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus,
        KMeansSeeding::kRandom}) {
    for (int32_t shards : {1, 2, 3}) {
      KMeansOptions options = OptionsFor(data, 3, false);
      options.seeding = seeding;
      KMeansCluster cluster(data, shards);
      const absl::StatusOr<KMeansResult> result = cluster.Run(options);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_EQ(result->objective, 0);
      EXPECT_EQ(result->non_empty, 2);
      EXPECT_EQ(std::count(result->weights.begin(), result->weights.end(), 0),
                1);
      for (float v : result->centres) EXPECT_TRUE(v == 0 || v == 10) << v;
    }
  }
}

TEST(KMeans, ObjectiveComesFromDifferences) {
  const KMeansData data = Line({99.99f, 100.01f, -100.01f, -99.99f});
  KMeansOptions options = OptionsFor(data, 2, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {100, -100};
  const Outcome outcome = RunOn(data, options);
  EXPECT_NEAR(outcome.objective, 0.00040017, 4e-6);
}

TEST(KMeans, AnEmptyClusterMakesNoNan) {
  KMeansData data = Line({0, 1, 10, 11});
  for (KMeansEmptyPolicy policy :
       {KMeansEmptyPolicy::kRelocate, KMeansEmptyPolicy::kKeep,
        KMeansEmptyPolicy::kDrop}) {
    KMeansOptions options = OptionsFor(data, 3, false);
    options.seeding = KMeansSeeding::kGiven;
    options.given = {.5, 100, 10.5};
    options.empty = policy;
    KMeansCluster cluster(data, {0, 0, 1, 1}, 2);
    const absl::StatusOr<KMeansResult> result = cluster.Run(options);
    ASSERT_TRUE(result.ok());
    for (float v : result->centres) EXPECT_TRUE(std::isfinite(v));
    EXPECT_EQ(result->non_empty,
              policy == KMeansEmptyPolicy::kRelocate ? 3 : 2);
    EXPECT_EQ(result->active[1], policy == KMeansEmptyPolicy::kDrop ? 0 : 1);
  }
  KMeansOptions options = OptionsFor(data, 3, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {.5, 100, 10.5};
  options.empty = KMeansEmptyPolicy::kError;
  KMeansCluster cluster(data, 2);
  EXPECT_EQ(cluster.Run(options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(KMeans, EmptyShardsChangeNothing) {
  const KMeansData data = Line({1, 2, 3, 4, 5, 21, 22, 23, 24, 25});
  const KMeansOptions options = OptionsFor(data, 2, false);
  const Outcome one = RunOn(data, options);
  KMeansCluster some(data, {1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, 3);
  EXPECT_TRUE(RunOn(some, options) == one);
  KMeansCluster last(data, std::vector<int32_t>(10, 2), 3);
  EXPECT_TRUE(RunOn(last, options) == one);

  KMeansCluster none(Line({}), 3);
  EXPECT_EQ(none.Run(options).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(KMeans, AllWeightsZeroIsRefused) {
  KMeansData data = Line({1, 2});
  data.weights = {0, 0};
  KMeansCluster cluster(data, 2);
  EXPECT_EQ(cluster.Run(OptionsFor(data, 1, true)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(KMeans, MoreClustersThanRowsAreRefused) {
  const KMeansData data = Line({1, 2});
  KMeansCluster cluster(data, 1);
  EXPECT_EQ(cluster.Run(OptionsFor(data, 3, false)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(KMeans, CosineAveragesDirections) {
  KMeansData data;
  data.metric = Metric::kCosine;
  data.d = 2;
  data.rows = {100, 0, 0, 1};
  const Outcome outcome = RunOn(data, OptionsFor(data, 1, true), 2);
  EXPECT_NEAR(outcome.centres[0], 0.70710678, 1e-7);
  EXPECT_NEAR(outcome.centres[1], 0.70710678, 1e-7);

  data.rows = {1, 0, -1, 0};  // their mean has no direction
  const Outcome opposite = RunOn(data, OptionsFor(data, 1, true), 2);
  EXPECT_EQ(opposite.centres, std::vector<float>({1, 0}));
  EXPECT_EQ(opposite.objective, 2);
}

TEST(KMeans, SeedsNeighbouringFloats) {
  std::vector<float> values;
  for (int i = 0; i < 8; ++i) values.push_back(36000.0f + 0.00390625f * i);
  const KMeansData data = Line(values);
  const KMeansData equal = Line(std::vector<float>(8, 36000.0f));
  for (KMeansSeeding seeding :
       {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus}) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
      KMeansOptions options = OptionsFor(data, 5, false);
      options.seeding = seeding;
      options.seed = seed;
      KMeansCluster cluster(data, 2);
      const absl::StatusOr<KMeansResult> result = cluster.Run(options);
      ASSERT_TRUE(result.ok());
      std::vector<float> centres = result->centres;
      std::sort(centres.begin(), centres.end());
      EXPECT_EQ(std::unique(centres.begin(), centres.end()), centres.end());
      EXPECT_EQ(result->non_empty, 5);

      KMeansCluster same(equal, 2);
      const absl::StatusOr<KMeansResult> flagged = same.Run(options);
      ASSERT_TRUE(flagged.ok());
      EXPECT_EQ(flagged->non_empty, 1);
      EXPECT_EQ(flagged->objective, 0);
    }
  }
}

TEST(KMeans, OneClusterIsTheMeanAndAllDistinctRowsFitExactly) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(40, 3, 4, 2, random);
  double total = 0;
  for (int64_t j = 0; j < 3; ++j) {
    long double mean = 0;
    for (int64_t i = 0; i < 40; ++i) mean += data.row(i)[j];
    mean /= 40;
    for (int64_t i = 0; i < 40; ++i) {
      total += static_cast<double>((data.row(i)[j] - mean) *
                                   (data.row(i)[j] - mean));
    }
  }
  EXPECT_NEAR(RunOn(data, OptionsFor(data, 1, true)).objective, total,
              1e-12 * total);
  for (KMeansSeeding seeding :
       {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus,
        KMeansSeeding::kRandom}) {
    KMeansOptions options = OptionsFor(data, 40, false);
    options.seeding = seeding;
    EXPECT_EQ(RunOn(data, options).objective, 0);
  }
}

TEST(KMeans, PowersOfTwoScaleEverything) {
  std::mt19937_64 random(TestSeed());
  KMeansData data = Blobs(500, 4, 8, 3, random);
  const KMeansOptions options = OptionsFor(data, 8, false);
  const Outcome outcome = RunOn(data, options);
  for (float& v : data.rows) v *= 64;
  const Outcome scaled = RunOn(data, options);
  EXPECT_EQ(scaled.labels, outcome.labels);
  EXPECT_EQ(scaled.objective, 4096 * outcome.objective);
}

// Seeding by potential beats seeding at random on separated blobs.
TEST(KMeans, SeedingFindsSeparatedBlobs) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(3000, 6, 30, 0.05, random);
  double least = 1e300;
  for (KMeansSeeding seeding :
       {KMeansSeeding::kPlusPlus, KMeansSeeding::kParallel}) {
    KMeansOptions options = OptionsFor(data, 30, false);
    options.seeding = seeding;
    const double objective = RunOn(data, options, 3).objective;
    // 3,000 rows, 6 dimensions, variance 0.0025 each.
    EXPECT_LT(objective, 1.1 * 3000 * 6 * 0.0025);
    least = std::min(least, objective);
  }
  EXPECT_GT(least, 0.8 * 3000 * 6 * 0.0025);
}

TEST(KMeans, LossyFloatSumsComeClose) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(2000, 8, 10, 2, random);
  KMeansOptions options = OptionsFor(data, 10, false);
  options.max_iterations = 30;
  const Outcome exact = RunOn(data, options, 4);
  options.form = KMeansSumForm::kFloat32;
  const Outcome lossy = RunOn(data, options, 4);
  EXPECT_NEAR(lossy.objective, exact.objective, 0.01 * exact.objective);
}

}  // namespace
}  // namespace coterie
