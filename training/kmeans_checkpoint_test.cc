#include "training/kmeans_checkpoint.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "training/kmeans_local.h"
#include "training/kmeans_testing.h"

namespace coterie {
namespace {

// All checkpoints of a job, one after each step.
std::vector<KMeansCheckpoint> CheckpointsOf(const KMeansData& data,
                                            const KMeansOptions& options) {
  KMeansCluster cluster(data, 2);
  auto job = KMeansJob::Create(options, 2);
  EXPECT_TRUE(job.ok()) << job.status();
  std::vector<KMeansCheckpoint> checkpoints = {job->Checkpoint()};
  while (!job->Done()) {
    const KMeansStep step = job->NextStep();
    for (int32_t s = 0; s < 2; ++s) {
      const auto partial = cluster.shards()[static_cast<size_t>(s)]->Run(
          step, {}, [] { return false; });
      EXPECT_TRUE(partial.ok()) << partial.status();
      EXPECT_TRUE(job->Accept(s, *partial).ok());
    }
    checkpoints.push_back(job->Checkpoint());
  }
  EXPECT_TRUE(job->status().ok()) << job->status();
  return checkpoints;
}

std::vector<KMeansCheckpoint> SomeCheckpoints() {
  std::mt19937_64 random(7);
  const KMeansData data = Blobs(60, 3, 4, 1, random);
  KMeansOptions options = OptionsFor(data, 4, false);
  options.measure = true;
  options.silhouette_rows = 20;
  std::vector<KMeansCheckpoint> all = CheckpointsOf(data, options);
  options.batch_rows = 16;
  for (KMeansCheckpoint& c : CheckpointsOf(data, options)) {
    all.push_back(std::move(c));
  }
  return all;
}

TEST(KMeansCheckpointBytes, ReturnUnchangedAfterEveryStep) {
  for (const KMeansCheckpoint& checkpoint : SomeCheckpoints()) {
    const auto again =
        DecodeKMeansCheckpoint(EncodeKMeansCheckpoint(checkpoint));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, checkpoint);
  }
}

TEST(KMeansCheckpointBytes, AreRefusedWhenAnyBitIsOther) {
  const std::string bytes = EncodeKMeansCheckpoint(SomeCheckpoints().at(4));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(DecodeKMeansCheckpoint(damaged).ok()) << "at byte " << i;
    EXPECT_FALSE(DecodeKMeansCheckpoint(bytes.substr(0, i)).ok()) << i;
  }
  EXPECT_FALSE(DecodeKMeansCheckpoint(bytes + "x").ok());
}

}  // namespace
}  // namespace coterie
