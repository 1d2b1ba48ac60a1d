// What k-means through the service refuses, and what it leaves behind.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kmeans_jobs_testing.h"
#include "tests/local_cluster.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(KMeansJobs, SayWhatIsWrongWithARequest) {
  const KMeansData data = SomeData("blobs");
  LocalClusterOptions options;
  options.shards = 2;
  LocalCluster cluster(options);
  ASSERT_TRUE(cluster.Create("empty", 6, Metric::kSquaredL2).ok());
  Load(cluster, data, Metric::kSquaredL2);
  const KMeansRequest good = RequestFor(data, 5, false);
  const auto failure = [&](const std::function<void(KMeansRequest*)>& edit) {
    KMeansRequest request = good;
    edit(&request);
    return Follow(cluster.coordinator().jobs().Train(request, {}).get())
        .result.status();
  };
  EXPECT_TRUE(absl::IsNotFound(
      failure([](KMeansRequest* r) { r->collection = "nothing"; })));
  EXPECT_TRUE(absl::IsInvalidArgument(
      failure([](KMeansRequest* r) { r->options.k = 0; })));
  EXPECT_TRUE(absl::IsInvalidArgument(
      failure([](KMeansRequest* r) { r->options.k = 601; })));
  EXPECT_TRUE(absl::IsInvalidArgument(
      failure([](KMeansRequest* r) { r->name = "a/b"; })));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      failure([](KMeansRequest* r) { r->collection = "empty"; })));
  const absl::Status large =
      failure([](KMeansRequest* r) { r->options.k = 1000000; });
  EXPECT_TRUE(absl::IsInvalidArgument(large));
  EXPECT_THAT(std::string(large.message()), HasSubstr("message_bytes"));
  const absl::Status weights = failure(
      [](KMeansRequest* r) { r->weight_attribute = "no such attribute"; });
  EXPECT_TRUE(absl::IsFailedPrecondition(weights)) << weights;
  EXPECT_THAT(std::string(weights.message()), HasSubstr("rows"));
  EXPECT_TRUE(failure([](KMeansRequest* r) { r->replace = true; }).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(failure([](KMeansRequest*) {})));
}

TEST(KMeansJobs, EndOnDuplicates) {
  KMeansData data;
  data.d = 2;
  for (int i = 0; i < 17; ++i) {
    data.rows.push_back(static_cast<float>(i % 9));
    data.rows.push_back(0);
  }
  LocalClusterOptions options;
  options.shards = 3;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  const Followed run = Follow(cluster.coordinator()
                                  .jobs()
                                  .Train(RequestFor(data, 10, false), {})
                                  .get());
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  EXPECT_EQ(run.result->result.non_empty, 9);
  EXPECT_EQ(run.result->result.objective, 0);
  EXPECT_THAT(run.result->warnings, SizeIs(1));
}

TEST(Clusterings, AssignPointsAsTrainingDid) {
  const KMeansData data = SomeData("cosine");
  KMeansRequest request = RequestFor(data, 7, false);
  request.label_attribute = "label";
  LocalClusterOptions options;
  options.shards = 3;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kCosine);
  Jobs& jobs = cluster.coordinator().jobs();
  const Followed run = Follow(jobs.Train(request, {}).get());
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  const auto labels = Labels(cluster);
  AssignRequest assign;
  assign.collection = "c";
  assign.clustering = "result";
  assign.top_m = 3;
  for (int64_t i = 0; i < data.n(); ++i) assign.ids.push_back(data.id(i));
  assign.ids.push_back(12345);
  const auto call = [&](const AssignRequest& asked) {
    return Await<std::vector<AssignedPoint>>(
        [&](Done<std::vector<AssignedPoint>> done) {
          jobs.Assign(asked, {}, std::move(done));
        });
  };
  const auto by_id = call(assign);
  ASSERT_TRUE(by_id.ok()) << by_id.status();
  ASSERT_EQ(by_id->size(), assign.ids.size());
  EXPECT_TRUE(by_id->back().nearest.empty());
  AssignRequest by_vector = assign;
  by_vector.ids.clear();
  for (int64_t i = 0; i < data.n(); ++i) {
    const auto& nearest = by_id->at(static_cast<size_t>(i)).nearest;
    ASSERT_EQ(nearest.size(), 3U);
    EXPECT_EQ(nearest[0].cluster, labels.at(data.id(i)));
    EXPECT_LE(nearest[0].distance, nearest[1].distance);
    EXPECT_LE(nearest[1].distance, nearest[2].distance);
    const VectorView row = data.row(i);
    by_vector.vectors.emplace_back(row.begin(), row.end());
  }
  const auto again = call(by_vector);
  ASSERT_TRUE(again.ok()) << again.status();
  for (size_t i = 0; i < again->size(); ++i) {
    EXPECT_EQ(again->at(i).nearest[0].cluster, by_id->at(i).nearest[0].cluster);
  }
  by_vector.vectors = {{1, 2}};
  EXPECT_TRUE(absl::IsInvalidArgument(call(by_vector).status()));
}

TEST(Clusterings, AreKeptListedAndGoneOnWith) {
  const KMeansData data = SomeData("blobs");
  LocalClusterOptions options;
  options.shards = 2;
  LocalCluster cluster(options);
  Load(cluster, data, Metric::kSquaredL2);
  KMeansRequest request = RequestFor(data, 5, false);
  const Followed run =
      Follow(cluster.coordinator().jobs().Train(request, {}).get());
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  cluster.Restart();
  Jobs& jobs = cluster.coordinator().jobs();
  const auto kept = Await<Clustering>([&](Done<Clustering> done) {
    jobs.GetClustering("c", "result", {}, std::move(done));
  });
  ASSERT_TRUE(kept.ok()) << kept.status();
  ExpectSame(kept->result, run.result->result);

  // From there nothing is left to move.
  request.name = "warm";
  request.initial_clustering = "result";
  request.options.k = 0;
  request.options.tolerance = 0;
  const Followed warm = Follow(jobs.Train(request, {}).get());
  ASSERT_TRUE(warm.result.ok()) << warm.result.status();
  EXPECT_LE(warm.result->result.objective, run.result->result.objective);

  const auto list = [&] {
    return Await<std::vector<std::string>>(
        [&](Done<std::vector<std::string>> done) {
          jobs.ListResults(JobKind::kKMeans, "c", {}, std::move(done));
        });
  };
  EXPECT_THAT(*list(), ElementsAre("result", "warm"));
  const auto all =
      Await<std::vector<JobInfo>>([&](Done<std::vector<JobInfo>> done) {
        jobs.List("", {}, std::move(done));
      });
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_THAT(*all, SizeIs(2));
  EXPECT_EQ(all->at(1).name, "warm");
  EXPECT_EQ(all->at(1).state, JobState::kDone);
  const auto drop = [&] {
    return Await<bool>([&](Done<bool> done) {
      jobs.DeleteResult(JobKind::kKMeans, "c", "result", {}, std::move(done));
    });
  };
  EXPECT_TRUE(drop().ok());
  EXPECT_TRUE(absl::IsNotFound(drop().status()));
  EXPECT_THAT(*list(), ElementsAre("warm"));
}

}  // namespace
}  // namespace coterie
