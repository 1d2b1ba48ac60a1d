#include "coordinator/link_models.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace coterie {
namespace {

LinkUse Bytes(int64_t sent, int64_t received, double shard_seconds = 0) {
  return {sent, received, shard_seconds};
}

TEST(LinkModels, KnowNothingAtFirst) {
  LinkModels models;
  EXPECT_EQ(models.Predict(0, Bytes(10, 20)), 0);
}

TEST(LinkModels, LearnLatencyAndBandwidthOfEachLink) {
  LinkModels models;
  // 1 ms a message and 1 MB/s; 2 ms and 10 MB/s. The shard's work is no part.
  for (int64_t i = 1; i <= 64; ++i) {
    const int64_t bytes = 1000 * i;
    models.Observe(0, Bytes(bytes, bytes, 0.5), 0.5 + 0.002 + 2e-6 * bytes);
    models.Observe(1, Bytes(bytes, bytes, 0.25), 0.25 + 0.004 + 2e-7 * bytes);
  }
  EXPECT_NEAR(models.Predict(0, Bytes(50000, 50000)), 0.102, 1e-6);
  EXPECT_NEAR(models.Predict(1, Bytes(50000, 50000)), 0.014, 1e-6);
  EXPECT_EQ(models.Predict(2, Bytes(50000, 50000)), 0);
}

TEST(LinkModels, FollowALinkThatChanges) {
  LinkModels models;
  for (int i = 0; i < 100; ++i) {
    models.Observe(0, Bytes(1000, 1000), 0.010);
    (void)models.Predict(0, Bytes(1000, 1000));
  }
  EXPECT_NEAR(models.Predict(0, Bytes(1000, 1000)), 0.010, 1e-4);
  for (int i = 0; i < 400; ++i) models.Observe(0, Bytes(1000, 1000), 0.030);
  EXPECT_NEAR(models.Predict(0, Bytes(1000, 1000)), 0.030, 1e-3);
}

TEST(LinkModels, CallsWithinTheProcessTeachNothing) {
  LinkModels models;
  models.Observe(0, LinkUse(), 0.010);
  EXPECT_EQ(models.Predict(0, LinkUse()), 0);
  EXPECT_EQ(models.Predict(0, Bytes(10, 10)), 0);
}

TEST(LinkModels, AShardThatClaimsMoreTimeThanPassedCostsNothing) {
  LinkModels models;
  models.Observe(0, Bytes(10, 10, 99), 0.010);
  EXPECT_EQ(models.Predict(0, Bytes(10, 10)), 0);
}

TEST(LinkModels, MayBeUsedFromManyThreads) {
  LinkModels models;
  std::vector<std::thread> threads;
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&models, t] {
      for (int i = 1; i <= 200; ++i) {
        models.Observe(t % 2, Bytes(i, i), 0.001 * i);
        EXPECT_GE(models.Predict(t % 2, Bytes(i, i)), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace coterie
