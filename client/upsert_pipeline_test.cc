#include "client/upsert_pipeline.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <string>

#include "api/status_details.h"
#include "client/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

const RetryPolicy kImpatient = {.initial_backoff = absl::Microseconds(10),
                                .max_backoff = absl::Microseconds(100),
                                .give_up_after = absl::Minutes(10)};

void Ignore(const UpsertPipeline::Progress&) {}

v1::UpsertRequest Batch(uint64_t first, int points) {
  v1::UpsertRequest batch;
  for (int i = 0; i < points; ++i) batch.add_points()->set_id(first + i);
  return batch;
}

// A server that keeps ids, and counts how many calls it has at once.
class Store {
 public:
  absl::Status Upsert(const v1::UpsertRequest& batch) {
    MutexLock lock(&mu_);
    most_at_once_ = std::max(most_at_once_, ++at_once_);
    arrived_.NotifyAll();
    while (at_once_ < gather_ && !gathered_) arrived_.Wait(&mu_);
    gathered_ = gathered_ || at_once_ >= gather_;
    arrived_.NotifyAll();
    for (const v1::Point& point : batch.points()) ids_.insert(point.id());
    --at_once_;
    return absl::OkStatus();
  }
  // The first calls wait until so many are there.
  void Gather(int calls) {
    MutexLock lock(&mu_);
    gather_ = calls;
  }
  std::set<uint64_t> ids() {
    MutexLock lock(&mu_);
    return ids_;
  }
  int most_at_once() {
    MutexLock lock(&mu_);
    return most_at_once_;
  }

 private:
  Mutex mu_;
  CondVar arrived_;
  std::set<uint64_t> ids_;
  int at_once_ = 0;
  int most_at_once_ = 0;
  int gather_ = 0;
  bool gathered_ = false;
};

TEST(UpsertPipeline, StoresEveryBatch) {
  Store store;
  UpsertPipeline pipeline(
      [&](const v1::UpsertRequest& batch) { return store.Upsert(batch); },
      Ignore, 4, kImpatient);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(pipeline.Add(Batch(i * 7, 7)).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(store.ids().size(), 700U);
  EXPECT_EQ(pipeline.points_done(), 700);
}

TEST(UpsertPipeline, HasAsManyCallsUnderWayAsAllowedAndNoMore) {
  for (const int in_flight : {1, 2, 4, 8}) {
    Store store;
    // Returns only if that many calls do come together.
    store.Gather(in_flight);
    UpsertPipeline pipeline(
        [&](const v1::UpsertRequest& batch) { return store.Upsert(batch); },
        Ignore, in_flight, kImpatient);
    for (uint64_t i = 0; i < 50; ++i) {
      ASSERT_TRUE(pipeline.Add(Batch(i, 1)).ok());
    }
    ASSERT_TRUE(pipeline.Finish().ok());
    EXPECT_EQ(store.most_at_once(), in_flight);
  }
}

TEST(UpsertPipeline, SurvivesAServerThatFailsNowAndThen) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  Store store;
  Mutex mu;
  std::mt19937_64 random(seed);
  std::atomic<int64_t> failures = 0;
  int64_t retries = 0;
  std::string last_error;
  UpsertPipeline pipeline(
      [&](const v1::UpsertRequest& batch) -> absl::Status {
        uint64_t draw = 0;
        {
          MutexLock lock(&mu);
          draw = random() % 4;
        }
        if (draw == 0) {
          ++failures;
          return absl::UnavailableError("restarting");
        }
        // Stored, but the answer got lost.
        absl::Status stored = store.Upsert(batch);
        if (draw == 1) {
          ++failures;
          return absl::ResourceExhaustedError("queue full");
        }
        return stored;
      },
      [&](const UpsertPipeline::Progress& progress) {
        retries = progress.retries;
        last_error = progress.last_error;
      },
      3, kImpatient);
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(pipeline.Add(Batch(i * 2, 2)).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(store.ids().size(), 400U);
  EXPECT_EQ(pipeline.points_done(), 400);
  EXPECT_GT(failures, 0);
  EXPECT_GT(retries, 0);
  EXPECT_LE(retries, failures);
  EXPECT_FALSE(last_error.empty());
}

TEST(UpsertPipeline, StopsAtAnErrorThatRetryingCannotMend) {
  std::atomic<int> calls = 0;
  UpsertPipeline pipeline(
      [&](const v1::UpsertRequest&) {
        ++calls;
        return InvalidField("points[0].vector", "is NaN");
      },
      Ignore, 1, kImpatient);
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i)
    status = pipeline.Add(Batch(i, 1));
  if (status.ok()) status = pipeline.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "points[0].vector");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(pipeline.Add(Batch(0, 1)), status);
  EXPECT_EQ(pipeline.points_done(), 0);
}

TEST(UpsertPipeline, GivesUpAfterAWhileKeepingTheServersReason) {
  UpsertPipeline pipeline(
      [](const v1::UpsertRequest&) {
        return absl::UnavailableError("shard 2: gone");
      },
      Ignore, 2,
      {.initial_backoff = absl::Milliseconds(1),
       .max_backoff = absl::Milliseconds(1),
       .give_up_after = absl::Milliseconds(20)});
  ASSERT_TRUE(pipeline.Add(Batch(0, 1)).ok());
  const absl::Status status = pipeline.Finish();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("shard 2: gone; given up after "));
}

TEST(UpsertPipeline, EndsWhileARetryIsFarAway) {
  std::atomic<int> calls = 0;
  Mutex mu;
  CondVar called;
  {
    UpsertPipeline pipeline(
        [&](const v1::UpsertRequest&) {
          MutexLock lock(&mu);
          ++calls;
          called.NotifyAll();
          return absl::UnavailableError("x");
        },
        Ignore, 1,
        {.initial_backoff = absl::Minutes(1),
         .max_backoff = absl::Minutes(1),
         .give_up_after = absl::Hours(1)});
    ASSERT_TRUE(pipeline.Add(Batch(0, 1)).ok());
    MutexLock lock(&mu);
    while (calls == 0) called.Wait(&mu);
  }
  EXPECT_EQ(calls, 1);
}

TEST(BackoffAfter, DoublesUpToItsMaximum) {
  const RetryPolicy policy = {.initial_backoff = absl::Milliseconds(100),
                              .max_backoff = absl::Seconds(5)};
  const absl::Status error = absl::UnavailableError("x");
  EXPECT_EQ(BackoffAfter(policy, 1, error, 0), absl::Milliseconds(100));
  EXPECT_EQ(BackoffAfter(policy, 2, error, 0), absl::Milliseconds(200));
  EXPECT_EQ(BackoffAfter(policy, 6, error, 0), absl::Milliseconds(3200));
  EXPECT_EQ(BackoffAfter(policy, 7, error, 0), absl::Seconds(5));
  EXPECT_EQ(BackoffAfter(policy, 1'000'000, error, 0), absl::Seconds(5));
  // At most half is taken off.
  EXPECT_GT(BackoffAfter(policy, 1, error, 0.999), absl::Milliseconds(50));
}

TEST(BackoffAfter, ObeysTheServerWithinReason) {
  const RetryPolicy policy;
  EXPECT_EQ(BackoffAfter(policy, 1, Overloaded("x", absl::Seconds(9)), 0),
            absl::Seconds(9));
  EXPECT_EQ(BackoffAfter(policy, 1, Overloaded("x", absl::Microseconds(1)), 0),
            absl::Milliseconds(100));
  EXPECT_EQ(BackoffAfter(policy, 1, Overloaded("x", absl::Hours(9)), 0),
            absl::Minutes(1));
}

}  // namespace
}  // namespace coterie
