// k-means through coordinator and shards: the result of one process, whatever
// the number of shards and whatever happens on the way.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/clustering.h"
#include "coordinator/jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kmeans_jobs_testing.h"
#include "tests/local_cluster.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

class ForAnyShards : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Data, ForAnyShards,
                         testing::Values("blobs", "heavy", "cosine",
                                         "weighted"),
                         [](const auto& suite) { return suite.param; });

TEST_P(ForAnyShards, TheResultHasTheBitsOfOneProcess) {
  const KMeansData data = SomeData(GetParam());
  KMeansRequest request = RequestFor(data, 9, false);
  request.options.seed = 3;
  request.options.measure = true;
  request.label_attribute = "label";
  if (!data.weights.empty()) request.weight_attribute = "w";
  std::map<PointId, int32_t> labels;
  const KMeansResult expected = Expected(data, request.options, &labels);
  for (const int32_t shards : {1, 2, 3, 7, 16}) {
    SCOPED_TRACE(absl::StrCat(shards, " shards"));
    LocalClusterOptions options;
    options.shards = shards;
    options.threads = shards % 2 == 0 ? 1 : 4;
    options.tail_rows = 64;
    if (shards == 3) {
      // Nearly all of it on one shard, nothing on another.
      options.coordinator.placement = [](int32_t slots, int32_t) {
        std::vector<int32_t> owner(static_cast<size_t>(slots), 0);
        owner[5] = 2;
        return owner;
      };
    }
    LocalCluster cluster(options);
    Load(cluster, data, data.metric);
    const Followed run =
        Follow(cluster.coordinator().jobs().Train(request, {}).get());
    ASSERT_TRUE(run.result.ok()) << run.result.status();
    ExpectSame(run.result->result, expected);
    EXPECT_EQ(run.result->result.quality, expected.quality);
    EXPECT_EQ(run.result->labelled, data.n());
    EXPECT_EQ(run.result->rows, data.n());
    const auto written = Labels(cluster);
    ASSERT_EQ(written.size(), labels.size());
    for (const auto& [id, label] : labels) EXPECT_EQ(written.at(id), label);
  }
}

TEST(KMeansJobs, StatisticsTakeTheDocumentedBytes) {
  std::mt19937_64 random(5);
  KMeansData data = Blobs(1600, 64, 100, 1, random);
  LocalClusterOptions options;
  options.shards = 16;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  for (const auto& [form, up] : {std::pair(KMeansSumForm::kFloat32, 416000),
                                 std::pair(KMeansSumForm::kInt64, 832000)}) {
    KMeansRequest request = RequestFor(data, 100, true);
    request.options.form = form;
    request.replace = true;
    const Followed run =
        Follow(cluster.coordinator().jobs().Train(request, {}).get());
    ASSERT_TRUE(run.result.ok()) << run.result.status();
    ASSERT_FALSE(run.reports.empty());
    EXPECT_EQ(run.reports[0].statistics_bytes_up, up);
    EXPECT_EQ(run.reports[0].statistics_bytes_down, 16 * 100 * 64 * 4);
    EXPECT_EQ(run.reports[0].cost.bytes_sent, 0) << "no byte left the process";
    EXPECT_GE(run.reports[0].cost.messages, 32);
  }
}

TEST(KMeansJobs, GoOnWhenShardsForgetThem) {
  const KMeansData data = SomeData("long");
  KMeansRequest request = RequestFor(data, 40, true);
  request.options.tolerance = 0;
  request.label_attribute = "label";
  std::map<PointId, int32_t> labels;
  const KMeansResult expected = Expected(data, request.options, &labels);
  LocalClusterOptions options;
  options.shards = 3;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  int64_t forgotten = 0;
  const auto stream = cluster.coordinator().jobs().Train(request, {});
  const auto first = Job(cluster.coordinator());
  const Followed run = Follow(stream.get(), [&](const KMeansReport& report) {
    if (report.progress.iteration % 3 != 1) return;
    const auto ended = Await<bool>([&](Done<bool> done) {
      cluster.shard(static_cast<int32_t>(report.progress.iteration % 3))
          .EndJob({"c", 0, "result", std::numeric_limits<int64_t>::max()}, {},
                  std::move(done));
    });
    forgotten += ended.value_or(false) ? 1 : 0;
  });
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  EXPECT_GT(forgotten, 0);
  ExpectSame(run.result->result, expected);
  // Each iteration once, in order.
  ASSERT_EQ(static_cast<int64_t>(run.reports.size()), expected.iterations);
  for (size_t i = 0; i < run.reports.size(); ++i) {
    EXPECT_EQ(run.reports[i].progress.iteration, static_cast<int64_t>(i) + 1);
  }
  const auto written = Labels(cluster);
  for (const auto& [id, label] : labels) EXPECT_EQ(written.at(id), label);
}

TEST(KMeansJobs, DoNotSeeWritesAfterTheirBeginning) {
  const KMeansData data = SomeData("long");
  KMeansRequest request = RequestFor(data, 30, true);
  request.options.tolerance = 0;
  const KMeansResult expected = Expected(data, request.options);
  LocalClusterOptions options;
  options.shards = 2;
  options.tail_rows = 256;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  PointId next = 1;
  const Followed run = Follow(
      cluster.coordinator().jobs().Train(request, {}).get(),
      [&](const KMeansReport&) {
        std::vector<Point> points;
        for (int i = 0; i < 200; ++i) {
          points.push_back({next++, std::vector<float>(6, 1e6f), {}});
        }
        ASSERT_TRUE(cluster.Upsert("c", std::move(points)).ok());
        ASSERT_TRUE(
            cluster.Delete("c", {data.id(static_cast<int64_t>(next % 600))})
                .ok());
      });
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  ExpectSame(run.result->result, expected);
}

// A job that was cancelled after some iterations.
void CancelAfter(Coordinator& coordinator, const KMeansRequest& request,
                 int64_t iterations) {
  CallContext call;
  const auto cancel = std::make_shared<CancelToken>();
  call.cancel = cancel;
  const Followed run = Follow(coordinator.jobs().Train(request, call).get(),
                              [&](const KMeansReport& report) {
                                if (report.progress.iteration >= iterations) {
                                  cancel->Cancel();
                                }
                              });
  ASSERT_TRUE(absl::IsCancelled(run.result.status())) << run.result.status();
  const auto job = Job(coordinator);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state, JobState::kCancelled);
  EXPECT_GE(job->checkpoint_iteration, iterations);
}

TEST(KMeansJobs, ResumeWithTheSameBitsAtAnyCoordinatorAfterARestart) {
  const KMeansData data = SomeData("long");
  KMeansRequest request = RequestFor(data, 40, true);
  request.options.tolerance = 0;
  const KMeansResult expected = Expected(data, request.options);
  LocalClusterOptions options;
  options.shards = 3;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  CancelAfter(cluster.coordinator(), request, 4);
  cluster.Restart();
  const auto other = cluster.AnotherCoordinator();
  const Followed run = Follow(other->jobs().Resume("c", "result", {}).get());
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  ExpectSame(run.result->result, expected);
  ASSERT_FALSE(run.reports.empty());
  EXPECT_GT(run.reports.front().progress.iteration, 4);
  const auto job = Job(*other);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->state, JobState::kDone);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Follow(other->jobs().Resume("c", "result", {}).get()).result.status()));
  // Any coordinator has the result.
  const auto watched =
      Follow(cluster.coordinator().jobs().Watch("c", "result", {}).get());
  ASSERT_TRUE(watched.result.ok()) << watched.result.status();
  ExpectSame(watched.result->result, expected);
}

TEST(KMeansJobs, DoNotGoOnOverOtherRows) {
  const KMeansData data = SomeData("long");
  KMeansRequest request = RequestFor(data, 40, true);
  request.options.tolerance = 0;
  LocalClusterOptions options;
  options.shards = 2;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  CancelAfter(cluster.coordinator(), request, 2);
  ASSERT_TRUE(cluster.Delete("c", {data.id(17)}).ok());
  const Followed run =
      Follow(cluster.coordinator().jobs().Resume("c", "result", {}).get());
  EXPECT_TRUE(absl::IsFailedPrecondition(run.result.status()))
      << run.result.status();
  EXPECT_THAT(std::string(run.result.status().message()), HasSubstr("rows"));
  const auto job = Job(cluster.coordinator());
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->state, JobState::kFailed);
}

TEST(KMeansJobs, HaveOneOwner) {
  const KMeansData data = SomeData("long");
  KMeansRequest request = RequestFor(data, 60, true);
  request.options.tolerance = 0;
  const KMeansResult expected = Expected(data, request.options);
  LocalClusterOptions options;
  options.shards = 2;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  const auto other = cluster.AnotherCoordinator();
  std::unique_ptr<JobStream> taken;
  const Followed first = Follow(
      cluster.coordinator().jobs().Train(request, {}).get(),
      [&](const KMeansReport& report) {
        if (report.progress.iteration != 2) return;
        // It is refused to whoever begins it, and given to whoever
        // resumes it.
        EXPECT_TRUE(absl::IsFailedPrecondition(
            Follow(other->jobs().Train(request, {}).get()).result.status()));
        taken = other->jobs().Resume("c", "result", {});
      });
  ASSERT_NE(taken, nullptr);
  const Followed second = Follow(taken.get());
  ASSERT_TRUE(second.result.ok()) << second.result.status();
  ExpectSame(second.result->result, expected);
  EXPECT_TRUE(absl::IsAborted(first.result.status())) << first.result.status();
}

TEST(KMeansJobs, EndWhereverTheyRun) {
  const KMeansData data = SomeData("long");
  KMeansRequest request = RequestFor(data, 60, true);
  request.options.tolerance = 0;
  LocalClusterOptions options;
  options.shards = 2;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  const auto other = cluster.AnotherCoordinator();
  for (Coordinator* coordinator : {&cluster.coordinator(), other.get()}) {
    absl::StatusOr<JobInfo> told;
    bool asked = false;
    const Followed run = Follow(
        cluster.coordinator().jobs().Train(request, {}).get(),
        [&](const KMeansReport&) {
          if (asked) return;
          asked = true;
          told = Await<JobInfo>([&](Done<JobInfo> done) {
            coordinator->jobs().Cancel("c", "result", {}, std::move(done));
          });
        });
    ASSERT_TRUE(told.ok()) << told.status();
    EXPECT_EQ(told->state, JobState::kCancelled);
    EXPECT_FALSE(run.result.ok());
    EXPECT_TRUE(absl::IsCancelled(run.result.status()) ||
                absl::IsAborted(run.result.status()))
        << run.result.status();
  }
}

}  // namespace
}  // namespace coterie
