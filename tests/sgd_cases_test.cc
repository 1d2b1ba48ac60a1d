// SGD on the service in cases that other systems got wrong.

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/local_cluster.h"
#include "tests/sgd_following.h"
#include "training/sgd_options.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One row (1) a label, at shards of choice: f = mean of (w - y)^2 / 2.
class OneWeight {
 public:
  explicit OneWeight(const std::vector<std::vector<double>>& labels_of_shards) {
    LocalClusterOptions options;
    options.shards = static_cast<int32_t>(labels_of_shards.size());
    // A slot for each shard.
    options.coordinator.placement = [](int32_t slots, int32_t shards) {
      std::vector<int32_t> owner;
      for (int32_t s = 0; s < slots; ++s) owner.push_back(s % shards);
      return owner;
    };
    cluster_ = std::make_unique<LocalCluster>(options);
    EXPECT_TRUE(
        cluster_->Create("c", 1, Metric::kSquaredL2, options.shards).ok());
    std::vector<Point> points;
    PointId id = 0;
    data_.dimension = 1;
    for (int32_t s = 0; s < options.shards; ++s) {
      for (double label : labels_of_shards[static_cast<size_t>(s)]) {
        while (SlotOf(id, options.shards) != s) ++id;
        data_.values.push_back(1);
        data_.labels.push_back(label);
        data_.ids.push_back(id);
        points.push_back({id++, {1.0F}, {{"y", label}}});
      }
    }
    const auto written = cluster_->Upsert("c", points);
    EXPECT_TRUE(written.ok()) << written.status();
  }

  static SgdOptions Options() {
    SgdOptions options;
    options.model.kind = SgdModelKind::kLinear;
    options.model.dimension = 1;
    options.float64 = true;
    options = SgdPreset(SgdMethod::kGradientDescent, options);
    options.schedule = SgdSchedule::kConstant;
    options.step = 1;
    options.max_updates = 1;
    return options;
  }

  Coordinator& coordinator() { return cluster_->coordinator(); }
  // What one process makes of the same rows.
  double Alone(const SgdOptions& options) const {
    return Trained(data_, options, 1,
                   std::vector<int32_t>(data_.labels.size(), 0))[0];
  }
  Followed Train(const SgdOptions& options) {
    return Follow(coordinator().jobs().Train(RequestOf(options), {}).get());
  }

 private:
  SgdSimulationData data_;
  std::unique_ptr<LocalCluster> cluster_;
};

// tensorflow/tensorflow#14494: a step that is fine for one worker diverges with
// many asynchronous ones.
TEST(SgdCases, ManyAsynchronousShardsDoNotMultiplyTheStep) {
  OneWeight problem(std::vector<std::vector<double>>(8, {1.0}));
  SgdOptions options = OneWeight::Options();
  options.mode = SgdMode::kAsynchronous;
  options.rule = SgdAsyncRule::kConstant;
  options.step = 0.3;
  options.max_updates = 400;
  const Followed run = problem.Train(options);
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_NEAR(run.model->parameters[0], 1, 0.05);
  for (const SgdReport& report : run.reports) {
    EXPECT_LE(report.progress.loss, 0.5) << report.progress.update;
  }
}

// pytorch/pytorch#67253: means of workers whose batches differ in size.
TEST(SgdCases, RowsCountAlikeWhateverTheirShard) {
  OneWeight problem({{-1, -1, -1}, {-5}, {}});
  const Followed run = problem.Train(OneWeight::Options());
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_THAT(run.model->parameters, ElementsAre(-2.0));
  OneWeight more({{-1, -1, -1}, {-5, -5, -5}, {-3, -3, -3}});
  const Followed nine = more.Train(OneWeight::Options());
  ASSERT_TRUE(nine.model.ok()) << nine.model.status();
  EXPECT_THAT(nine.model->parameters, ElementsAre(-3.0));
}

// horovod/horovod#832: workers with unequal numbers of steps.
TEST(SgdCases, ShardsWithUnequalRowsEndTogether) {
  for (const size_t second : {70U, 0U}) {
    std::vector<std::vector<double>> labels = {std::vector<double>(64, 1),
                                               std::vector<double>(second, 2)};
    OneWeight problem(labels);
    SgdOptions options = OneWeight::Options();
    options = SgdPreset(SgdMethod::kSgd, options);
    options.workers = 2;
    options.batch = 8;
    options.step = 0.1;
    options.max_updates = 27;
    const Followed run = problem.Train(options);
    ASSERT_TRUE(run.model.ok()) << run.model.status();
    EXPECT_EQ(run.model->last.progress.update, 27);
    EXPECT_NEAR(run.model->parameters[0], problem.Alone(options), 1e-12);
  }
}

TEST(SgdCases, WorkersWithoutRowsTakePart) {
  OneWeight problem({{1, 2, 3}, {4}});
  SgdOptions options = OneWeight::Options();
  options.workers = 64;
  options.step = 0.5;
  options.max_updates = 10;
  const Followed run = problem.Train(options);
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_NEAR(run.model->parameters[0], 2.5 * (1 - std::pow(0.5, 10)), 1e-12);
  EXPECT_NEAR(run.model->parameters[0], problem.Alone(options), 1e-12);
}

TEST(SgdCases, OneClassAloneIsRefused) {
  OneWeight problem({{1, 1}, {1}});
  SgdOptions options = OneWeight::Options();
  options.model.kind = SgdModelKind::kLogistic;
  const Followed run = problem.Train(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(run.model.status()))
      << run.model.status();
  EXPECT_THAT(std::string(run.model.status().message()), HasSubstr("label 1"));
}

// AI-Hypercomputer/maxdiffusion#484: a step done twice after resuming.
TEST(SgdCases, ResumingRepeatsNoStep) {
  OneWeight problem({{1.0}, {1.0}});
  SgdOptions options = OneWeight::Options();
  options.schedule = SgdSchedule::kInverse;
  options.step = 0.2;
  options.decay = 1;
  options.max_updates = 4;
  const Followed whole = problem.Train(options);
  ASSERT_TRUE(whole.model.ok()) << whole.model.status();
  // 1 - w is 0.8 x 0.9 x (1 - 0.2/3) x 0.95.
  EXPECT_NEAR(whole.model->parameters[0], 1 - 0.6384, 1e-12);
  SgdOptions longer = options;
  longer.max_updates = 1500;
  const Followed uninterrupted = problem.Train(longer);
  ASSERT_TRUE(uninterrupted.model.ok()) << uninterrupted.model.status();
  CancelAfter(problem.coordinator(), RequestOf(longer), 2);
  const Followed resumed =
      Follow(problem.coordinator().jobs().Resume("c", "model", {}).get());
  ASSERT_TRUE(resumed.model.ok()) << resumed.model.status();
  EXPECT_EQ(resumed.model->parameters, uninterrupted.model->parameters);
  EXPECT_EQ(resumed.model->last.progress.update, 1500);
}

}  // namespace
}  // namespace coterie
