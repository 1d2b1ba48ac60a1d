#include "client/upsert_pipeline.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

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

UpsertPipeline::Options Lanes(int in_flight,
                              const RetryPolicy& retry = kImpatient) {
  return {.in_flight = in_flight, .retry = retry, .client_id = "c"};
}

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
      Lanes(4),
      [&](const v1::UpsertRequest& batch) { return store.Upsert(batch); },
      Ignore);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(pipeline.Add(Batch(i * 7, 7)).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(store.ids().size(), 700U);
  EXPECT_EQ(pipeline.progress().points_done, 700);
}

TEST(UpsertPipeline, HasAsManyCallsUnderWayAsAllowedAndNoMore) {
  for (const int in_flight : {1, 2, 4, 8}) {
    Store store;
    // Returns only if that many calls do come together.
    store.Gather(in_flight);
    UpsertPipeline pipeline(
        Lanes(in_flight),
        [&](const v1::UpsertRequest& batch) { return store.Upsert(batch); },
        Ignore);
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
      Lanes(3),
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
      });
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(pipeline.Add(Batch(i * 2, 2)).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(store.ids().size(), 400U);
  EXPECT_EQ(pipeline.progress().points_done, 400);
  EXPECT_GT(failures, 0);
  EXPECT_GT(retries, 0);
  EXPECT_LE(retries, failures);
  EXPECT_FALSE(last_error.empty());
}

TEST(UpsertPipeline, SendsEachLanesBatchesInOrderUnderItsOwnClientId) {
  Mutex mu;
  std::map<std::string, std::vector<int64_t>> sent;
  std::mt19937_64 random(TestSeed());
  UpsertPipeline pipeline(
      {.in_flight = 3, .retry = kImpatient, .client_id = "c", .first_batch = 7},
      [&](const v1::UpsertRequest& batch) {
        MutexLock lock(&mu);
        const v1::RequestId& id = batch.request_id();
        sent[id.client_id()].push_back(id.sequence());
        // The number says what is in it, also when it is sent again.
        EXPECT_EQ(batch.points(0).id(), static_cast<uint64_t>(id.sequence()));
        return random() % 3 == 0 ? absl::DeadlineExceededError("late")
                                 : absl::OkStatus();
      },
      Ignore);
  for (uint64_t i = 7; i < 200; ++i) {
    ASSERT_TRUE(pipeline.Add(Batch(i, 1)).ok());
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(pipeline.progress().batches_in_order, 200);
  ASSERT_EQ(sent.size(), 3U);
  for (int lane = 0; lane < 3; ++lane) {
    std::vector<int64_t>& numbers = sent["c-" + std::to_string(lane)];
    EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end()));
    for (const int64_t number : numbers) EXPECT_EQ(number % 3, lane);
  }
}

TEST(UpsertPipeline, CountsInOrderOnlyWhatNothingBeforeItIsMissing) {
  Mutex mu;
  CondVar changed;
  int done = 0;
  bool released = false;
  UpsertPipeline pipeline(
      Lanes(2),
      [&](const v1::UpsertRequest& batch) {
        MutexLock lock(&mu);
        // Batch 2 waits; 1 and 3 go over the other lane.
        while (batch.request_id().sequence() == 2 && !released) {
          changed.Wait(&mu);
        }
        ++done;
        changed.NotifyAll();
        return absl::OkStatus();
      },
      Ignore);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(pipeline.Add(Batch(i, 1)).ok());
  {
    MutexLock lock(&mu);
    while (done < 3) changed.Wait(&mu);
  }
  EXPECT_LE(pipeline.progress().batches_in_order, 2);
  {
    MutexLock lock(&mu);
    released = true;
    changed.NotifyAll();
  }
  ASSERT_TRUE(pipeline.Finish().ok());
  EXPECT_EQ(pipeline.progress().batches_in_order, 4);
}

TEST(UpsertPipeline, StopsAtAnErrorThatRetryingCannotMend) {
  std::atomic<int> calls = 0;
  UpsertPipeline pipeline(
      Lanes(1),
      [&](const v1::UpsertRequest&) {
        ++calls;
        return InvalidField("points[0].vector", "is NaN");
      },
      Ignore);
  absl::Status status;
  for (int i = 0; i < 100 && status.ok(); ++i)
    status = pipeline.Add(Batch(i, 1));
  if (status.ok()) status = pipeline.Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(status), "points[0].vector");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(pipeline.Add(Batch(0, 1)), status);
  EXPECT_EQ(pipeline.progress().points_done, 0);
}

TEST(UpsertPipeline, GivesUpAfterAWhileKeepingTheServersReason) {
  UpsertPipeline pipeline(
      Lanes(2, {.initial_backoff = absl::Milliseconds(1),
                .max_backoff = absl::Milliseconds(1),
                .give_up_after = absl::Milliseconds(20)}),
      [](const v1::UpsertRequest&) {
        return absl::UnavailableError("shard 2: gone");
      },
      Ignore);
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
        Lanes(1, {.initial_backoff = absl::Minutes(1),
                  .max_backoff = absl::Minutes(1),
                  .give_up_after = absl::Hours(1)}),
        [&](const v1::UpsertRequest&) {
          MutexLock lock(&mu);
          ++calls;
          called.NotifyAll();
          return absl::UnavailableError("x");
        },
        Ignore);
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
