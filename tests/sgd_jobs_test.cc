// SGD through coordinator and shards: the parameters of a simulation in one
// process, whatever happens on the way.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/job_info.h"
#include "api/placement.h"
#include "api/training.h"
#include "coordinator/jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "tests/local_cluster.h"
#include "tests/sgd_following.h"
#include "training/sgd_job.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Load(LocalCluster& cluster, const SgdSimulationData& data) {
  const auto d = static_cast<size_t>(data.dimension);
  ASSERT_TRUE(
      cluster
          .Create("c", static_cast<int32_t>(data.dimension), Metric::kSquaredL2)
          .ok());
  std::vector<Point> points;
  for (size_t i = 0; i < data.labels.size(); ++i) {
    const float* row = data.values.data() + i * d;
    Point& point = points.emplace_back();
    point.id = data.ids[i];
    point.vector.assign(row, row + d);
    // Labels of either kind.
    if (i % 2 == 0) {
      point.attributes["y"] = data.labels[i];
    } else {
      point.attributes["y"] = static_cast<int64_t>(data.labels[i]);
    }
  }
  const auto written = cluster.Upsert("c", std::move(points));
  ASSERT_TRUE(written.ok()) << written.status();
}

LocalClusterOptions Shards(int32_t shards) {
  LocalClusterOptions options;
  options.shards = shards;
  options.threads = shards % 2 == 0 ? 1 : 3;
  options.tail_rows = 64;
  return options;
}

// Where the rows lie in a cluster of so many shards.
std::vector<int32_t> Placed(const SgdSimulationData& data, int32_t shards) {
  const std::vector<int32_t> owner = EvenPlacement(kDefaultSlots, shards);
  std::vector<int32_t> shard_of;
  for (PointId id : data.ids) {
    shard_of.push_back(owner[static_cast<size_t>(SlotOf(id, kDefaultSlots))]);
  }
  return shard_of;
}

class SgdJobs : public testing::Test {
 protected:
  SgdJobs() : data_(MakeData(300, 7, 4, TestSeed())) {}

  static SgdOptions OptionsOf(SgdMethod method) {
    const bool batch = method == SgdMethod::kSgd ||
                       method == SgdMethod::kIsaga ||
                       method == SgdMethod::kIsagaShared;
    SgdOptions options =
        TestOptions(method, Logistic(7, 1e-2), 4, batch ? 5 : 0);
    options.float64 = false;
    options.refresh_every = 8;
    return options;
  }

  const SgdSimulationData data_;
  testing::ScopedTrace trace_{__FILE__, __LINE__,
                              absl::StrCat("SEED=", TestSeed())};
};

TEST_F(SgdJobs, TheModelHasTheBitsOfOneProcess) {
  for (const int32_t shards : {1, 3}) {
    LocalCluster cluster(Shards(shards));
    Load(cluster, data_);
    for (SgdMethod method :
         {SgdMethod::kGradientDescent, SgdMethod::kIsega, SgdMethod::kEf21,
          SgdMethod::kSgd, SgdMethod::kIsaga, SgdMethod::kAccelerated}) {
      SCOPED_TRACE(
          absl::StrCat(shards, " shards, method ", static_cast<int>(method)));
      const SgdOptions options = OptionsOf(method);
      const Followed run = Follow(
          cluster.coordinator().jobs().Train(RequestOf(options), {}).get());
      ASSERT_TRUE(run.model.ok()) << run.model.status();
      EXPECT_EQ(run.model->parameters,
                Trained(data_, options, shards, Placed(data_, shards)));
      EXPECT_EQ(run.model->rows, 300);
      EXPECT_EQ(run.model->stop, SgdStop::kMaxUpdates);
      ASSERT_EQ(run.reports.size(), 30U);
      for (size_t i = 0; i < run.reports.size(); ++i) {
        EXPECT_EQ(run.reports[i].progress.update, static_cast<int64_t>(i) + 1);
      }
    }
  }
}

TEST_F(SgdJobs, SynchronousIsOneProcessWithinRounding) {
  SgdOptions options = OptionsOf(SgdMethod::kSgd);
  options.float64 = true;
  const std::vector<double> alone =
      Trained(data_, options, 1, std::vector<int32_t>(300, 0));
  LocalCluster cluster(Shards(4));
  Load(cluster, data_);
  const Followed run =
      Follow(cluster.coordinator().jobs().Train(RequestOf(options), {}).get());
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_LT(Difference(run.model->parameters, alone), 1e-12);
}

TEST_F(SgdJobs, GoOnWhenShardsForgetThem) {
  LocalCluster cluster(Shards(3));
  Load(cluster, data_);
  const SgdOptions options = OptionsOf(SgdMethod::kIsega);
  int64_t forgotten = 0;
  const Followed run = Follow(
      cluster.coordinator().jobs().Train(RequestOf(options), {}).get(),
      [&](const SgdReport& report) {
        if (report.progress.update % 5 != 1) return;
        const auto ended = Await<bool>([&](Done<bool> done) {
          cluster.shard(static_cast<int32_t>(report.progress.update % 3))
              .EndJob({"c", 0, "model", std::numeric_limits<int64_t>::max()},
                      {}, std::move(done));
        });
        forgotten += ended.value_or(false) ? 1 : 0;
      });
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_GT(forgotten, 0);
  EXPECT_EQ(run.model->parameters,
            Trained(data_, options, 3, Placed(data_, 3)));
}

TEST_F(SgdJobs, ResumeWithTheSameBitsAtAnyCoordinatorAfterARestart) {
  for (SgdMethod method :
       {SgdMethod::kIsega, SgdMethod::kSgd, SgdMethod::kIsaga}) {
    SCOPED_TRACE(static_cast<int>(method));
    LocalCluster cluster(Shards(3));
    Load(cluster, data_);
    SgdOptions options = OptionsOf(method);
    options.max_updates = 1000;
    SgdRequest request = RequestOf(options);
    // Tables of ISAGA begin anew every 8.
    request.checkpoint_every = 8;
    CancelAfter(cluster.coordinator(), request, 17);
    cluster.Restart();
    const auto other = cluster.AnotherCoordinator();
    const Followed run = Follow(other->jobs().Resume("c", "model", {}).get());
    ASSERT_TRUE(run.model.ok()) << run.model.status();
    EXPECT_EQ(run.model->parameters,
              Trained(data_, options, 3, Placed(data_, 3)));
    EXPECT_GT(run.reports.front().progress.update, 8);
    EXPECT_EQ(run.model->last.progress.update, 1000);
  }
}

TEST_F(SgdJobs, DoNotSeeWritesAndDoNotResumeOverThem) {
  LocalCluster cluster(Shards(2));
  Load(cluster, data_);
  const SgdOptions options = OptionsOf(SgdMethod::kIsega);
  const auto disturb = [&] {
    Point point;
    point.id = data_.ids[5];
    point.vector = std::vector<float>(7, 0.5F);
    point.attributes["y"] = int64_t{1};
    ASSERT_TRUE(cluster.Upsert("c", {point}).ok());
  };
  const Followed run =
      Follow(cluster.coordinator().jobs().Train(RequestOf(options), {}).get(),
             [&](const SgdReport& report) {
               if (report.progress.update == 1) disturb();
             });
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_EQ(run.model->parameters,
            Trained(data_, options, 2, Placed(data_, 2)));
  SgdOptions longer = options;
  longer.max_updates = 100'000;
  CancelAfter(cluster.coordinator(), RequestOf(longer), 3);
  ASSERT_TRUE(cluster.Delete("c", {data_.ids[6]}).ok());
  const Followed resumed =
      Follow(cluster.coordinator().jobs().Resume("c", "model", {}).get());
  EXPECT_TRUE(absl::IsFailedPrecondition(resumed.model.status()))
      << resumed.model.status();
  EXPECT_THAT(std::string(resumed.model.status().message()), HasSubstr("rows"));
}

TEST_F(SgdJobs, AllModesComeToTheLoss) {
  LocalCluster cluster(Shards(4));
  Load(cluster, data_);
  struct Case {
    SgdMethod method;
    SgdMode mode;
    SgdAsyncRule rule;
  };
  SgdOptions best = OptionsOf(SgdMethod::kGradientDescent);
  best.max_updates = 400;
  const std::vector<double> optimum =
      Trained(data_, best, 1, std::vector<int32_t>(300, 0));
  const double target = Objective(data_, best.model, optimum, nullptr) + 0.02;
  for (const Case& c :
       {Case{SgdMethod::kIsega, SgdMode::kAsynchronous, SgdAsyncRule::kTable},
        Case{SgdMethod::kGradientDescent, SgdMode::kAsynchronous,
             SgdAsyncRule::kDelayAdaptive},
        Case{SgdMethod::kGradientDescent, SgdMode::kBoundedStaleness,
             SgdAsyncRule::kConstant},
        Case{SgdMethod::kGradientDescent, SgdMode::kBuffered,
             SgdAsyncRule::kStalenessScaled},
        Case{SgdMethod::kGradientDescent, SgdMode::kBackup,
             SgdAsyncRule::kConstant}}) {
    SCOPED_TRACE(static_cast<int>(c.mode));
    SgdOptions options = OptionsOf(c.method);
    options.mode = c.mode;
    options.rule = c.rule;
    options.buffer = c.mode == SgdMode::kBuffered ? 2 : 1;
    options.backup = c.mode == SgdMode::kBackup ? 1 : 0;
    options.max_updates = 20'000;
    options.target_loss = target;
    const Followed run = Follow(
        cluster.coordinator().jobs().Train(RequestOf(options), {}).get());
    ASSERT_TRUE(run.model.ok()) << run.model.status();
    EXPECT_EQ(run.model->stop, SgdStop::kTargetLoss);
    int64_t accepted = 0;
    for (const SgdShardAccount& shard : run.model->last.shards) {
      accepted += shard.accepted;
    }
    EXPECT_GE(accepted, run.model->last.progress.update);
    EXPECT_LE(run.model->last.staleness.p50, run.model->last.staleness.max);
  }
}

// --- What is refused ---------------------------------------------------------

TEST_F(SgdJobs, SayWhatIsWrong) {
  LocalCluster cluster(Shards(2));
  Load(cluster, data_);
  ASSERT_TRUE(cluster.Create("empty", 7, Metric::kSquaredL2).ok());
  const auto failure = [&](const std::function<void(SgdRequest*)>& edit) {
    SgdRequest request = RequestOf(OptionsOf(SgdMethod::kGradientDescent));
    edit(&request);
    return Follow(cluster.coordinator().jobs().Train(request, {}).get())
        .model.status();
  };
  EXPECT_TRUE(absl::IsNotFound(
      failure([](SgdRequest* r) { r->collection = "nothing"; })));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      failure([](SgdRequest* r) { r->collection = "empty"; })));
  EXPECT_TRUE(absl::IsInvalidArgument(failure([](SgdRequest* r) {
    r->options.mode = SgdMode::kBackup;
    r->options.backup = 2;
  })));
  const absl::Status large = failure([](SgdRequest* r) {
    r->options.compressor = SgdCompressor::kTopK;
    r->options.feedback = SgdFeedback::kEf21;
    r->options.workers = 1 << 20;
  });
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  EXPECT_THAT(std::string(large.message()), HasSubstr("bytes"));
  const absl::Status unlabelled =
      failure([](SgdRequest* r) { r->label_attribute = "no such"; });
  EXPECT_TRUE(absl::IsFailedPrecondition(unlabelled)) << unlabelled;
  EXPECT_THAT(
      std::string(unlabelled.message()),
      AllOf(HasSubstr("shard "), HasSubstr("no such"), HasSubstr("rows")));
  // Far too large a step.
  const absl::Status diverges = failure([](SgdRequest* r) {
    r->options.model.kind = SgdModelKind::kLinear;
    r->options.schedule = SgdSchedule::kConstant;
    r->options.step = 1e120;
    r->options.float64 = true;
  });
  EXPECT_TRUE(absl::IsOutOfRange(diverges)) << diverges;
  EXPECT_THAT(
      std::string(diverges.message()),
      AllOf(HasSubstr("shard "), HasSubstr("worker "), HasSubstr("update ")));
  Point odd;
  odd.id = 4242;
  odd.vector = std::vector<float>(7, 1);
  odd.attributes["y"] = 0.25;
  ASSERT_TRUE(cluster.Upsert("c", {odd}).ok());
  const absl::Status label = failure([](SgdRequest*) {});
  EXPECT_TRUE(absl::IsInvalidArgument(label)) << label;
  EXPECT_THAT(std::string(label.message()),
              AllOf(HasSubstr("shard "), HasSubstr("4242"), HasSubstr("0.25")));
  odd.attributes.clear();
  ASSERT_TRUE(cluster.Upsert("c", {odd}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(failure([](SgdRequest*) {})));
  EXPECT_TRUE(failure([](SgdRequest* r) { r->skip_missing = true; }).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(failure([](SgdRequest* r) {
    r->skip_missing = true;
    r->replace = false;
  })));
}

TEST(SgdModels, PredictAsTheyWereTrained) {
  const SgdSimulationData data = MakeData(400, 5, 2, TestSeed());
  SCOPED_TRACE(absl::StrCat("SEED=", TestSeed()));
  LocalCluster cluster(Shards(3));
  Load(cluster, data);
  Jobs& jobs = cluster.coordinator().jobs();
  SgdOptions options =
      TestOptions(SgdMethod::kGradientDescent, Logistic(5, 1e-3), 2);
  options.max_updates = 200;
  options.held_out = 0.25;
  const Followed run = Follow(jobs.Train(RequestOf(options), {}).get());
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_GT(run.model->last.progress.held_out_accuracy, 0.6);
  EXPECT_EQ(run.model->last.progress.measured_at, 200);
  EXPECT_LT(run.model->rows, 400);

  PredictRequest asked;
  asked.collection = "c";
  asked.model = "model";
  asked.ids = data.ids;
  asked.ids.push_back(987654321);
  const auto predict = [&] {
    return Await<std::vector<Prediction>>(
        [&](Done<std::vector<Prediction>> done) {
          jobs.Predict(asked, {}, std::move(done));
        });
  };
  const auto by_id = predict();
  ASSERT_TRUE(by_id.ok()) << by_id.status();
  ASSERT_EQ(by_id->size(), 401U);
  EXPECT_TRUE(by_id->back().outputs.empty());
  int64_t right = 0;
  for (size_t i = 0; i < 400; ++i) {
    double z = 0;
    for (size_t j = 0; j < 5; ++j) {
      z += run.model->parameters[j] *
           static_cast<double>(data.values[i * 5 + j]);
    }
    ASSERT_EQ((*by_id)[i].outputs.size(), 1U);
    EXPECT_NEAR((*by_id)[i].outputs[0], 1 / (1 + std::exp(-z)), 1e-12);
    right += (*by_id)[i].label == data.labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 240);
  asked.ids.clear();
  asked.vectors = {{1, 2}};
  EXPECT_TRUE(absl::IsInvalidArgument(predict().status()));

  const auto names =
      Await<std::vector<std::string>>([&](Done<std::vector<std::string>> done) {
        jobs.ListResults(JobKind::kSgd, "c", {}, std::move(done));
      });
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, ElementsAre("model"));
  const auto gone = Await<bool>([&](Done<bool> done) {
    jobs.DeleteResult(JobKind::kSgd, "c", "model", {}, std::move(done));
  });
  EXPECT_TRUE(gone.ok()) << gone.status();
  EXPECT_TRUE(absl::IsNotFound(predict().status()));
}

}  // namespace
}  // namespace coterie
