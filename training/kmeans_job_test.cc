#include "training/kmeans_job.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/kmeans_local.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_testing.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

KMeansPartial Answer(KMeansShard& shard, const KMeansStep& step) {
  absl::StatusOr<KMeansPartial> partial =
      shard.Run(step, KMeansWorkers(), [] { return false; });
  EXPECT_TRUE(partial.ok()) << partial.status();
  return partial.ok() ? *std::move(partial) : KMeansPartial();
}

void ExpectSame(const KMeansResult& a, const KMeansResult& b) {
  EXPECT_EQ(a.centres, b.centres);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.active, b.active);
  EXPECT_EQ(a.objective, b.objective);
  EXPECT_EQ(a.iterations, b.iterations);
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.stop, b.stop);
}

// Every answer twice, in a random order, with those of earlier steps between.
TEST(KMeansJob, IgnoresLateAndRepeatedAnswers) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(900, 3, 9, 2, random);
  const KMeansOptions options = OptionsFor(data, 9, false);
  KMeansCluster plain(data, 3);
  const absl::StatusOr<KMeansResult> expected = plain.Run(options);
  ASSERT_TRUE(expected.ok());

  KMeansCluster cluster(data, 3);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 3);
  ASSERT_TRUE(job.ok());
  std::vector<std::pair<int32_t, KMeansPartial>> old;
  while (!job->Done()) {
    const KMeansStep step = job->NextStep();
    std::vector<std::pair<int32_t, KMeansPartial>> answers;
    for (int32_t s = 0; s < 3; ++s) {
      KMeansShard& shard = *cluster.shards()[static_cast<size_t>(s)];
      answers.emplace_back(s, Answer(shard, step));
      // The request came twice.
      EXPECT_TRUE(Answer(shard, step) == answers.back().second);
      answers.push_back(answers.back());
    }
    answers.insert(answers.end(), old.begin(), old.end());
    std::shuffle(answers.begin(), answers.end(), random);
    old.clear();
    for (const auto& [shard, partial] : answers) {
      ASSERT_TRUE(job->Accept(shard, partial).ok());
      if (partial.number == step.number) old.emplace_back(shard, partial);
    }
  }
  ASSERT_TRUE(job->status().ok());
  ExpectSame(job->Result(), *expected);
}

TEST(KMeansJob, AStepWaitsForEveryShard) {
  KMeansData line;
  line.rows = {1, 2, 3, 4};
  KMeansCluster cluster(line, {0, 0, 1, 1}, 2);
  absl::StatusOr<KMeansJob> job =
      KMeansJob::Create(OptionsFor(line, 2, true), 2);
  ASSERT_TRUE(job.ok());
  const KMeansStep step = job->NextStep();
  ASSERT_TRUE(job->Accept(0, Answer(*cluster.shards()[0], step)).ok());
  EXPECT_TRUE(job->NextStep() == step);
  ASSERT_TRUE(job->Accept(1, Answer(*cluster.shards()[1], step)).ok());
  EXPECT_GT(job->NextStep().number, step.number);
}

// Interrupted before every single step, and gone on with on other shards.
TEST(KMeansJob, ResumesWithTheSameBitsFromEveryStep) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(400, 3, 8, 3, random);
  for (KMeansSeeding seeding :
       {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus,
        KMeansSeeding::kRandom}) {
    for (KMeansSumForm form :
         {KMeansSumForm::kInt64, KMeansSumForm::kChanged}) {
      KMeansOptions options = OptionsFor(data, 8, false);
      options.seeding = seeding;
      options.form = form;
      options.runs = 2;
      KMeansCluster plain(data, 2);
      const absl::StatusOr<KMeansResult> expected = plain.Run(options);
      ASSERT_TRUE(expected.ok());

      KMeansCluster cluster(data, 2);
      absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 2);
      ASSERT_TRUE(job.ok());
      while (!job->Done()) {
        const KMeansCheckpoint checkpoint = job->Checkpoint();
        KMeansCluster fresh(data, 5, random());
        absl::StatusOr<KMeansJob> resumed = KMeansJob::Resume(checkpoint, 5);
        ASSERT_TRUE(resumed.ok()) << resumed.status();
        ASSERT_TRUE(PumpKMeans(*resumed, fresh.shards(), {}).ok())
            << resumed->status();
        ExpectSame(resumed->Result(), *expected);
        const KMeansStep step = job->NextStep();
        for (int32_t s = 0; s < 2; ++s) {
          ASSERT_TRUE(
              job->Accept(
                     s, Answer(*cluster.shards()[static_cast<size_t>(s)], step))
                  .ok());
        }
      }
      const absl::StatusOr<KMeansJob> done =
          KMeansJob::Resume(job->Checkpoint(), 1);
      ASSERT_TRUE(done.ok());
      ASSERT_TRUE(done->Done());
      ExpectSame(done->Result(), *expected);
    }
  }
}

TEST(KMeansJob, ResumingOverOtherRowsFails) {
  KMeansData data;
  data.rows = {1, 2, 3, 11, 12, 13};
  const KMeansOptions options = OptionsFor(data, 2, true);
  KMeansCluster cluster(data, 1);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
  ASSERT_TRUE(job.ok());
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(
        job->Accept(0, Answer(*cluster.shards()[0], job->NextStep())).ok());
  }
  KMeansData other_ids = data;
  other_ids.ids = {1, 2, 3, 4, 5, 7};
  KMeansData other_values = data;
  other_values.rows[5] = 12.5;
  for (const KMeansData& other : {other_ids, other_values}) {
    KMeansCluster fresh(other, 1);
    absl::StatusOr<KMeansJob> resumed = KMeansJob::Resume(job->Checkpoint(), 1);
    ASSERT_TRUE(resumed.ok());
    EXPECT_EQ(PumpKMeans(*resumed, fresh.shards(), {}).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(KMeansJob, StopEndsWithLabelsThatFitTheCentres) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(900, 3, 9, 6, random);
  KMeansOptions options = OptionsFor(data, 9, true);
  options.runs = 1;
  KMeansCluster cluster(data, 1);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
  ASSERT_TRUE(job.ok());
  while (!job->Done()) {
    if (job->progress().size() == 2) job->Stop();
    ASSERT_TRUE(
        job->Accept(0, Answer(*cluster.shards()[0], job->NextStep())).ok());
  }
  const KMeansResult result = job->Result();
  EXPECT_EQ(result.stop, KMeansStop::kRequested);
  EXPECT_EQ(result.iterations, 3);
  for (int64_t i = 0; i < data.n(); ++i) {
    double distance = 0;
    EXPECT_EQ(cluster.Labels().at(data.id(i)),
              NearestByAll(data.metric, data.row(i),
                           {result.centres.data(), 9, 3, 3}, &distance));
    if (i > 50) break;
  }
}

TEST(KMeansJob, SaysWhyItStopped) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(2000, 4, 10, 8, random);
  KMeansOptions options = OptionsFor(data, 10, true);
  const auto stop_of = [&](const KMeansOptions& o) {
    KMeansCluster cluster(data, 2);
    const absl::StatusOr<KMeansResult> result = cluster.Run(o);
    EXPECT_TRUE(result.ok());
    return result.ok() ? result->stop : KMeansStop::kNone;
  };
  EXPECT_EQ(stop_of(options), KMeansStop::kConverged);
  options.tolerance = 0.01;
  EXPECT_EQ(stop_of(options), KMeansStop::kTolerance);
  options.tolerance = 0;
  options.relative_tolerance = 0.01;
  EXPECT_EQ(stop_of(options), KMeansStop::kRelative);
  options.relative_tolerance = 0;
  options.max_iterations = 3;
  EXPECT_EQ(stop_of(options), KMeansStop::kMaxIterations);
}

TEST(KMeansJob, RefusesOptionsByName) {
  KMeansOptions good;
  good.dimension = 2;
  good.k = 2;
  ASSERT_TRUE(ValidateKMeansOptions(good).ok());
  const auto refused = [&](auto change, const char* word) {
    KMeansOptions options = good;
    change(options);
    const absl::Status status = ValidateKMeansOptions(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(word), absl::string_view::npos)
        << status.message();
  };
  refused([](KMeansOptions& o) { o.k = 0; }, "k is 0");
  refused([](KMeansOptions& o) { o.dimension = 0; }, "dimension");
  refused([](KMeansOptions& o) { o.dimension = 1 << 20; }, "dimension");
  refused([](KMeansOptions& o) { o.tolerance = -1; }, "tolerance");
  refused([](KMeansOptions& o) { o.max_iterations = 0; }, "max_iterations");
  refused([](KMeansOptions& o) { o.runs = 0; }, "runs");
  refused([](KMeansOptions& o) { o.given = {1, 2, 3, 4}; }, "given");
  refused(
      [](KMeansOptions& o) {
        o.seeding = KMeansSeeding::kGiven;
        o.given = {1, 2, 3};
      },
      "given");
  refused(
      [](KMeansOptions& o) {
        o.seeding = KMeansSeeding::kGiven;
        o.given = {1, 2, 3, std::numeric_limits<float>::quiet_NaN()};
      },
      "given centre 1");
  EXPECT_FALSE(KMeansJob::Create(good, 0).ok());
}

TEST(KMeansJob, RefusesAnswersThatDoNotFitAndGoesOn) {
  KMeansData data;
  data.rows = {1, 2, 3, 11, 12, 13};
  KMeansCluster cluster(data, 1);
  absl::StatusOr<KMeansJob> job =
      KMeansJob::Create(OptionsFor(data, 2, true), 1);
  ASSERT_TRUE(job.ok());
  while (!job->Done()) {
    const KMeansPartial good = Answer(*cluster.shards()[0], job->NextStep());
    KMeansPartial bad = good;
    bad.moved = -1;
    EXPECT_EQ(job->Accept(0, bad).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(job->Accept(1, good).code(), absl::StatusCode::kInvalidArgument);
    if (good.kind == KMeansStepKind::kAssign) {
      bad = good;
      bad.sums.pop_back();
      EXPECT_FALSE(job->Accept(0, bad).ok());
      bad = good;
      bad.weights[0] = -1;
      EXPECT_FALSE(job->Accept(0, bad).ok());
      bad = good;
      bad.form = KMeansSumForm::kFloat32;
      EXPECT_FALSE(job->Accept(0, bad).ok());
    }
    ASSERT_TRUE(job->Accept(0, good).ok());
  }
  EXPECT_TRUE(job->status().ok());
  EXPECT_EQ(job->Result().centres, std::vector<float>({2, 12}));
}

TEST(KMeansShard, RefusesStepsThatBuildOnWhatItDoesNotHave) {
  KMeansData data;
  data.rows = {1, 2, 3, 11, 12, 13};
  KMeansCluster cluster(data, 1);
  absl::StatusOr<KMeansJob> job =
      KMeansJob::Create(OptionsFor(data, 2, true), 1);
  ASSERT_TRUE(job.ok());
  std::vector<KMeansStep> steps;
  while (!job->Done()) {
    steps.push_back(job->NextStep());
    ASSERT_TRUE(
        job->Accept(0, Answer(*cluster.shards()[0], steps.back())).ok());
  }
  KMeansCluster fresh(data, 1);
  for (const KMeansStep& step : steps) {
    if (step.kind != KMeansStepKind::kAssign) continue;
    EXPECT_EQ(fresh.shards()[0]
                  ->Run(step, KMeansWorkers(), [] { return false; })
                  .status()
                  .code(),
              absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(cluster.shards()[0]
                ->Run(steps[0], KMeansWorkers(), [] { return false; })
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

// Also while it makes codes of the rows.
TEST(KMeansShard, AStoppedStepMayBeTriedAgain) {
  std::mt19937_64 random(TestSeed());
  const KMeansData few = Blobs(9000, 3, 9, 4, random);
  const KMeansData many = Blobs(4000, 25, 40, 4, random);
  const std::vector<std::pair<const KMeansData*, KMeansAlgorithm>> cases = {
      {&few, KMeansAlgorithm::kLloyd},
      {&few, KMeansAlgorithm::kHamerly},
      {&few, KMeansAlgorithm::kElkan},
      {&many, KMeansAlgorithm::kHamerly}};
  for (const auto& [data, algorithm] : cases) {
    KMeansOptions options = OptionsFor(*data, data == &few ? 9 : 300, false);
    options.algorithm = algorithm;
    KMeansCluster plain(*data, 1);
    const absl::StatusOr<KMeansResult> expected = plain.Run(options);
    ASSERT_TRUE(expected.ok());
    KMeansCluster cluster(*data, 1);
    absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
    ASSERT_TRUE(job.ok());
    while (!job->Done()) {
      const KMeansStep step = job->NextStep();
      int asked = 0;
      const absl::Status stopped =
          cluster.shards()[0]
              ->Run(step, KMeansWorkers(), [&] { return ++asked > 2; })
              .status();
      EXPECT_TRUE(stopped.ok() ||
                  stopped.code() == absl::StatusCode::kCancelled)
          << stopped;
      ASSERT_TRUE(job->Accept(0, Answer(*cluster.shards()[0], step)).ok());
    }
    ExpectSame(job->Result(), *expected);
  }
}

TEST(KMeansRows, RefuseBadWeightsAndRepeatedIds) {
  const std::vector<float> values = {1, 2};
  const std::vector<PointId> ids = {4, 4};
  const std::vector<PointId> other = {4, 5};
  KMeansBlock block = {.rows = {values.data(), 2, 1, 1}, .ids = ids.data()};
  EXPECT_EQ(KMeansRows::Create(Metric::kSquaredL2, 1, {block}).status().code(),
            absl::StatusCode::kInvalidArgument);
  block.ids = other.data();
  for (double bad : {-1.0, std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::quiet_NaN()}) {
    const std::vector<double> weights = {1, bad};
    block.weights = weights.data();
    const absl::Status status =
        KMeansRows::Create(Metric::kSquaredL2, 1, {block}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("point 5"), absl::string_view::npos);
  }
  block.weights = nullptr;
  const uint64_t live = 2;
  block.live = &live;
  const auto rows = KMeansRows::Create(Metric::kSquaredL2, 1, {block});
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 1);
  EXPECT_EQ(rows->id(0), 5u);
}

}  // namespace
}  // namespace coterie
