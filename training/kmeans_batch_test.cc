// Mini-batch k-means over shards.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

TEST(MiniBatch, HasTheSameBitsForAnyShardsAndThreads) {
  std::mt19937_64 random(TestSeed());
  KMeansData data = Blobs(3000, 4, 10, 2, random);
  for (bool cosine : {false, true}) {
    data.metric = cosine ? Metric::kCosine : Metric::kSquaredL2;
    KMeansOptions options = OptionsFor(data, 10, false);
    options.batch_rows = 200;
    options.seeding = KMeansSeeding::kRandom;
    KMeansCluster one(data, 1);
    const absl::StatusOr<KMeansResult> expected = one.Run(options);
    ASSERT_TRUE(expected.ok());
    for (int32_t shards : {2, 3, 7, 16}) {
      KMeansCluster cluster(data, shards, random());
      const absl::StatusOr<KMeansResult> result =
          cluster.Run(options, ThreadedWorkers(shards == 7 ? 4 : 1));
      ASSERT_TRUE(result.ok());
      EXPECT_EQ(result->centres, expected->centres);
      EXPECT_EQ(result->weights, expected->weights);
      EXPECT_EQ(result->objective, expected->objective);
      EXPECT_TRUE(cluster.Labels() == one.Labels());
    }
  }
}

TEST(MiniBatch, AnEpochMeetsEveryRowOnce) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(1234, 3, 5, 2, random);
  KMeansOptions options = OptionsFor(data, 5, false);
  options.batch_rows = 100;
  options.max_iterations = 3;
  options.patience = 1'000'000;
  KMeansCluster cluster(data, 3);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 3);
  ASSERT_TRUE(job.ok());
  ASSERT_TRUE(PumpKMeans(*job, cluster.shards(), {}).ok());
  ASSERT_EQ(job->progress().size(), 4u);  // and the last assignment
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(job->progress()[epoch].moved, 1234);
    EXPECT_EQ(job->progress()[epoch].evaluated, 1234 * 5);
  }
  EXPECT_EQ(job->Result().stop, KMeansStop::kMaxIterations);
}

// From counts of 0 the first batch's means are the centres, as near as the
// short numbers of batches say.
TEST(MiniBatch, OneBatchOfAllRowsIsALloydStep) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(500, 3, 5, 3, random);
  KMeansOptions options = OptionsFor(data, 5, true);
  options.max_iterations = 1;
  options.empty = KMeansEmptyPolicy::kKeep;
  KMeansCluster full(data, 2);
  const absl::StatusOr<KMeansResult> lloyd = full.Run(options);
  options.batch_rows = 500;
  KMeansCluster batched(data, 2);
  const absl::StatusOr<KMeansResult> batch = batched.Run(options);
  ASSERT_TRUE(lloyd.ok() && batch.ok());
  for (size_t i = 0; i < lloyd->centres.size(); ++i) {
    EXPECT_NEAR(batch->centres[i], lloyd->centres[i], 0.2);
  }
  EXPECT_NEAR(batch->objective, lloyd->objective, 1e-2 * lloyd->objective);
}

// What batches send is measured from the middle of the centres.
TEST(MiniBatch, IsAsGoodFarFromTheOrigin) {
  std::mt19937_64 random(TestSeed());
  KMeansData data = Blobs(8000, 4, 10, 1, random);
  for (float& v : data.rows) v = std::round(v * 64) / 64;
  KMeansOptions options = OptionsFor(data, 10, true);
  options.batch_rows = 500;
  KMeansCluster near(data, 2);
  const absl::StatusOr<KMeansResult> expected = near.Run(options);
  for (float& v : data.rows) v += 65536;  // exact
  options = OptionsFor(data, 10, true);
  options.batch_rows = 500;
  KMeansCluster far(data, 2);
  const absl::StatusOr<KMeansResult> result = far.Run(options);
  ASSERT_TRUE(expected.ok() && result.ok());
  EXPECT_NEAR(result->objective, expected->objective,
              0.03 * expected->objective);
}

TEST(MiniBatch, ComesCloseToLloydOnBlobs) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(20000, 8, 20, 2, random);
  KMeansOptions options = OptionsFor(data, 20, false);
  KMeansCluster full(data, 1);
  const absl::StatusOr<KMeansResult> lloyd = full.Run(options);
  options.batch_rows = 1024;
  KMeansCluster batched(data, 3);
  const absl::StatusOr<KMeansResult> batch = batched.Run(options);
  ASSERT_TRUE(lloyd.ok() && batch.ok());
  EXPECT_LT(batch->objective, 1.03 * lloyd->objective);
  EXPECT_EQ(batch->stop, KMeansStop::kConverged);  // no better for 10 batches
}

// Two of three centres begin where no row is.
TEST(MiniBatch, ReassignmentRevivesCentresWithoutRows) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(2000, 2, 3, 0.1, random);
  KMeansOptions options = OptionsFor(data, 3, false);
  options.seeding = KMeansSeeding::kGiven;
  options.given = {0, 0, 1e6, 1e6, -1e6, 1e6};
  options.empty = KMeansEmptyPolicy::kKeep;
  options.batch_rows = 100;
  options.patience = 1000;
  options.max_iterations = 4;
  KMeansCluster with(data, 2);
  EXPECT_GE(with.Run(options)->non_empty, 2);
  options.reassignment_ratio = 0;
  KMeansCluster without(data, 2);
  EXPECT_EQ(without.Run(options)->non_empty, 1);
}

TEST(MiniBatch, ResumesWithTheSameBits) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(900, 3, 6, 3, random);
  KMeansOptions options = OptionsFor(data, 12, false);
  options.seeding = KMeansSeeding::kRandom;
  options.batch_rows = 100;
  KMeansCluster cluster(data, 1);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
  ASSERT_TRUE(job.ok());
  std::vector<KMeansCheckpoint> checkpoints;
  while (!job->Done()) {
    if (job->NextStep().number % 3 == 0) {
      checkpoints.push_back(job->Checkpoint());
    }
    const auto partial = cluster.shards()[0]->Run(
        job->NextStep(), KMeansWorkers(), [] { return false; });
    ASSERT_TRUE(partial.ok());
    ASSERT_TRUE(job->Accept(0, *partial).ok());
  }
  ASSERT_GT(checkpoints.size(), 3u);
  for (const KMeansCheckpoint& checkpoint : checkpoints) {
    KMeansCluster fresh(data, 4, random());
    absl::StatusOr<KMeansJob> resumed = KMeansJob::Resume(checkpoint, 4);
    ASSERT_TRUE(resumed.ok());
    ASSERT_TRUE(PumpKMeans(*resumed, fresh.shards(), {}).ok());
    EXPECT_EQ(resumed->Result().centres, job->Result().centres);
    EXPECT_EQ(resumed->Result().objective, job->Result().objective);
  }
}

TEST(MiniBatch, WorksWithMoreBatchesThanRows) {
  KMeansData data;
  data.rows = {1, 2, 3, 21, 22, 23};
  KMeansOptions options = OptionsFor(data, 2, false);
  options.batch_rows = 1;
  KMeansCluster cluster(data, 2);
  const absl::StatusOr<KMeansResult> result = cluster.Run(options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->non_empty, 2);
}

}  // namespace
}  // namespace coterie
