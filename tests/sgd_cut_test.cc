// A model in two parts, trained through coordinator and shards: the parameters
// of one process, whatever happens on the way.

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "tests/local_cluster.h"
#include "tests/sgd_following.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 120;

class SgdCut : public testing::Test {
 protected:
  SgdCut() : data_(MakeData(kRows, 9, 1, TestSeed())) {
    for (size_t i = 0; i < data_.labels.size(); ++i) {
      data_.labels[i] = static_cast<double>(i * i / 3 % 3);
    }
  }

  // All points on the first shard, or dealt out.
  static LocalClusterOptions Shards(int32_t shards, bool on_first) {
    LocalClusterOptions options;
    options.shards = shards;
    options.threads = 1;
    if (on_first) {
      options.coordinator.placement = [](int32_t slots, int32_t) {
        return std::vector<int32_t>(static_cast<size_t>(slots), 0);
      };
    }
    return options;
  }

  void Load(LocalCluster& cluster) const {
    ASSERT_TRUE(cluster.Create("c", 9, Metric::kSquaredL2).ok());
    std::vector<Point> points;
    for (size_t i = 0; i < data_.labels.size(); ++i) {
      const float* row = data_.values.data() + i * 9;
      points.push_back(
          {data_.ids[i], {row, row + 9}, {{"y", data_.labels[i]}}});
    }
    const auto written = cluster.Upsert("c", std::move(points));
    ASSERT_TRUE(written.ok()) << written.status();
  }

  static SgdOptions Options(int64_t batch) {
    SgdModel model;
    model.kind = SgdModelKind::kMlp;
    model.dimension = 9;
    model.hidden = 6;
    model.classes = 3;
    model.l2 = 1e-3;
    SgdOptions options =
        TestOptions(batch > 0 ? SgdMethod::kSgd : SgdMethod::kGradientDescent,
                    model, 1, batch);
    options.schedule = SgdSchedule::kConstant;
    options.step = 0.4;
    options.max_updates = 100;
    options.micro_batches = 4;
    options.gather_every = 10;
    return options;
  }

  std::vector<double> Alone(SgdOptions options) const {
    options.micro_batches = 0;
    return Trained(data_, options, 1, std::vector<int32_t>(kRows, 0));
  }

  SgdSimulationData data_;
  testing::ScopedTrace trace_{__FILE__, __LINE__,
                              absl::StrCat("SEED=", TestSeed())};
};

TEST_F(SgdCut, TwoShardsHaveTheBitsOfOneProcess) {
  LocalCluster cluster(Shards(2, true));
  Load(cluster);
  for (int64_t batch : {0, 16}) {
    const SgdOptions options = Options(batch);
    const Followed run = Follow(
        cluster.coordinator().jobs().Train(RequestOf(options), {}).get());
    ASSERT_TRUE(run.model.ok()) << run.model.status();
    EXPECT_EQ(run.model->parameters, Alone(options));
    ASSERT_EQ(run.reports.size(), 100U);
    EXPECT_EQ(run.reports[41].progress.update, 42);
    EXPECT_LT(run.reports.back().progress.loss,
              run.reports.front().progress.loss);
  }
}

TEST_F(SgdCut, ReplicasAreOneProcessWithinRounding) {
  LocalCluster cluster(Shards(3, false));
  Load(cluster);
  SgdOptions options = Options(0);
  for (int32_t copies : {1, 3}) {
    options.back_copies = copies;
    const Followed run = Follow(
        cluster.coordinator().jobs().Train(RequestOf(options), {}).get());
    ASSERT_TRUE(run.model.ok()) << run.model.status();
    EXPECT_LE(Difference(run.model->parameters, Alone(options)), 1e-12);
  }
}

TEST_F(SgdCut, GoesOnWhenShardsForgetTheirParts) {
  LocalCluster cluster(Shards(2, true));
  Load(cluster);
  const SgdOptions options = Options(16);
  int64_t forgotten = 0, last = 0;
  const Followed run = Follow(
      cluster.coordinator().jobs().Train(RequestOf(options), {}).get(),
      [&](const SgdReport& report) {
        // Updates that come again are not reported again.
        EXPECT_EQ(report.progress.update, last + 1);
        last = report.progress.update;
        if (last % 25 != 13) return;
        const auto ended = Await<bool>([&](Done<bool> done) {
          cluster.shard(static_cast<int32_t>(last / 25 % 2))
              .EndJob({"c", 0, "model", std::numeric_limits<int64_t>::max()},
                      {}, std::move(done));
        });
        forgotten += ended.value_or(false) ? 1 : 0;
      });
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_GT(forgotten, 0);
  EXPECT_EQ(run.model->parameters, Alone(options));
}

TEST_F(SgdCut, ResumesWithTheSameBitsAtAnotherCoordinator) {
  LocalCluster cluster(Shards(2, true));
  Load(cluster);
  SgdOptions options = Options(16);
  options.max_updates = 400;
  SgdRequest request = RequestOf(options);
  request.checkpoint_every = 10;
  CancelAfter(cluster.coordinator(), request, 17);
  cluster.Restart();
  const auto other = cluster.AnotherCoordinator();
  const Followed run = Follow(other->jobs().Resume("c", "model", {}).get());
  ASSERT_TRUE(run.model.ok()) << run.model.status();
  EXPECT_EQ(run.model->parameters, Alone(options));
  EXPECT_GT(run.reports.front().progress.update, 10);
}

TEST_F(SgdCut, OneShardAndTooLargePiecesAreRefused) {
  LocalCluster one(Shards(1, false));
  Load(one);
  const absl::Status alone =
      Follow(one.coordinator().jobs().Train(RequestOf(Options(0)), {}).get())
          .model.status();
  EXPECT_TRUE(absl::IsInvalidArgument(alone)) << alone;
  EXPECT_THAT(std::string(alone.message()), HasSubstr("at least 2"));

  LocalCluster cluster(Shards(2, true));
  Load(cluster);
  SgdOptions options = Options(0);
  options.model.hidden = 50'000;
  options.micro_batches = 1;
  const absl::Status large =
      Follow(cluster.coordinator().jobs().Train(RequestOf(options), {}).get())
          .model.status();
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  EXPECT_THAT(std::string(large.message()), HasSubstr("120 rows of 50000"));
  EXPECT_THAT(std::string(large.message()), HasSubstr("2 would do"));
}

}  // namespace
}  // namespace coterie
