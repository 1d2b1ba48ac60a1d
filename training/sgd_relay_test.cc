// Model parallelism through SgdJob and SgdShard: messages are encoded, shards
// restart, and the parameters are those of one process.

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/sgd_checkpoint.h"
#include "training/sgd_job.h"
#include "training/sgd_simulation.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 60;
constexpr int64_t kHidden = 6;

SgdModel Mlp() {
  SgdModel model;
  model.kind = SgdModelKind::kMlp;
  model.dimension = 9;
  model.hidden = kHidden;
  model.classes = 3;
  model.l2 = 1e-3;
  model.l1 = 1e-4;
  return model;
}

// 100 updates of all rows, or of batches.
SgdOptions Whole(int64_t batch) {
  SgdOptions options =
      TestOptions(batch > 0 ? SgdMethod::kSgd : SgdMethod::kGradientDescent,
                  Mlp(), 1, batch);
  options.schedule = SgdSchedule::kConstant;
  options.step = 0.4;
  options.max_updates = 100;
  return options;
}

SgdOptions Cut(int64_t batch, int64_t micro_batches) {
  SgdOptions options = Whole(batch);
  options.micro_batches = micro_batches;
  return options;
}

class SgdModelParallel : public testing::Test {
 protected:
  SgdModelParallel() : data_(MakeData(kRows, 9, 1, TestSeed())) {
    for (size_t i = 0; i < data_.labels.size(); ++i) {
      data_.labels[i] = static_cast<double>((i * i / 3) % 3);
    }
  }

  SgdJob Run(const SgdOptions& options, int32_t shards,
             const std::vector<int32_t>& shard_of,
             const std::function<void(SgdSimulation&)>& prepare = {}) {
    absl::StatusOr<SgdJob> job = SgdJob::Create(options, shards);
    EXPECT_TRUE(job.ok()) << job.status();
    SgdSimulation simulation(data_, shards, shard_of);
    if (prepare) prepare(simulation);
    const absl::Status status = simulation.Run(*job);
    EXPECT_TRUE(status.ok()) << status;
    now_ = simulation.now();
    return *std::move(job);
  }

  const std::vector<int32_t> first_ = std::vector<int32_t>(kRows, 0);
  SgdSimulationData data_;
  double now_ = 0;  // of the last run
  testing::ScopedTrace trace_{__FILE__, __LINE__,
                              testing::Message() << "SEED=" << TestSeed()};
};

TEST_F(SgdModelParallel, TwoShardsHaveTheBitsOfOneProcess) {
  for (int64_t batch : {0, 16}) {
    const SgdJob whole = Run(Whole(batch), 1, first_);
    for (int64_t pieces : {1, 3, 8, 64}) {
      if (batch > 0 && pieces > batch) continue;
      const SgdJob cut = Run(Cut(batch, pieces), 2, first_);
      EXPECT_EQ(cut.Parameters(), whole.Parameters()) << batch << pieces;
      EXPECT_EQ(cut.stop(), SgdStop::kMaxUpdates);
      EXPECT_NEAR(cut.progress().loss, whole.progress().loss, 1e-12);
      EXPECT_NEAR(cut.progress().squared_gradient,
                  whole.progress().squared_gradient, 1e-12);
      EXPECT_EQ(cut.progress().rows, whole.progress().rows);
    }
  }
}

TEST_F(SgdModelParallel, ReplicasAreOneProcessWithinRounding) {
  for (int64_t batch : {0, 16}) {
    const SgdJob whole = Run(Whole(batch), 1, first_);
    for (int32_t shards : {2, 3}) {
      for (int32_t copies : {0, 2, 3}) {
        SgdOptions options = Cut(batch, 4);
        options.back_copies = copies;
        const SgdJob cut = Run(options, shards, Dealt(data_, shards));
        EXPECT_LE(Difference(cut.Parameters(), whole.Parameters()), 1e-12)
            << shards << copies;
        EXPECT_NEAR(cut.progress().loss, whole.progress().loss, 1e-12);
        EXPECT_NEAR(cut.progress().squared_gradient,
                    whole.progress().squared_gradient, 1e-12);
      }
    }
  }
}

TEST_F(SgdModelParallel, OrderOfArrivalLeavesNoTrace) {
  const SgdJob even = Run(Cut(0, 8), 3, Dealt(data_, 3));
  const SgdJob uneven =
      Run(Cut(0, 8), 3, Dealt(data_, 3), [](SgdSimulation& simulation) {
        simulation.seconds = [](int32_t shard, int64_t number) {
          return 1 + static_cast<double>((7 * shard + number) % 5);
        };
      });
  EXPECT_EQ(even.Parameters(), uneven.Parameters());
  EXPECT_EQ(even.progress().squared_gradient,
            uneven.progress().squared_gradient);
}

TEST_F(SgdModelParallel, FrontAndBackWorkAtTheSameTime) {
  SgdOptions options = Cut(0, 16);
  options.max_updates = 10;
  Run(options, 2, first_);
  // A second a step: 16 micro-batches forward, through the back, and backward
  // would take 3 x 16 one after the other, and 2 for the end of the update.
  EXPECT_LT(now_, 10 * 0.6 * (3 * 16 + 2));
}

TEST_F(SgdModelParallel, TheCutIsCrossedByRowsTimesHiddenTimesFour) {
  const SgdJob cut = Run(Cut(0, 4), 2, first_);
  const SgdShardAccount& front = cut.account(0);
  const SgdShardAccount& back = cut.account(1);
  constexpr int64_t kValues = 100 * kRows * kHidden * 4;
  EXPECT_EQ(front.bytes_forward, kValues);
  EXPECT_EQ(front.bytes_backward, 0);
  EXPECT_EQ(back.bytes_forward, 0);
  EXPECT_EQ(back.bytes_backward, kValues);
  // Around the values: a label a row, headers of 4 micro-batches and of what
  // begins and ends updates, and the model when it is brought together.
  const int64_t parameters = SgdParameters(Mlp()) * 8;
  const int64_t messages = 100 * 6 + 8;
  for (const int64_t bytes : {front.bytes_up, back.bytes_up}) {
    EXPECT_GT(bytes, kValues);
    EXPECT_LT(bytes, kValues + 100 * kRows + 80 * messages + 3 * parameters);
  }
  EXPECT_EQ(front.bytes_whole, 100 * parameters);
  EXPECT_EQ(front.rows, 100 * kRows);
}

TEST_F(SgdModelParallel, OneBackForAllFrontsIsNotSentForSums) {
  // Many classes: nearly all parameters are the back's.
  SgdOptions options = Cut(0, 4);
  options.model.classes = 500;
  options.gather_every = 1000;
  const auto bytes = [&](const SgdOptions& o) {
    const SgdJob job = Run(o, 2, Dealt(data_, 2));
    return job.account(0).bytes_up + job.account(1).bytes_up;
  };
  const int64_t one = bytes(options);
  options.back_copies = 2;
  const int64_t two = bytes(options);
  constexpr int64_t kBack = 500 * 7 * 8;
  EXPECT_GE(two - one, 100 * 2 * kBack);
  // Once, at the end.
  EXPECT_LE(one, 100 * (kRows * (kHidden * 8 + 2) + 2 * 60 * 8 + 24 * 80) +
                     2 * kBack);
}

TEST_F(SgdModelParallel, ShardsThatLoseTheirPartGoBackTogether) {
  SgdOptions options = Cut(16, 4);
  options.gather_every = 8;
  options.held_out = 0.2;
  options.evaluate_every = 20;
  for (const auto& shard_of : {first_, Dealt(data_, 2)}) {
    const SgdJob whole = Run(options, 2, shard_of);
    int64_t restarts = 0, back = 0, last = 0;
    const SgdJob cut =
        Run(options, 2, shard_of, [&](SgdSimulation& simulation) {
          simulation.on_update = [&](const SgdJob& job, double) {
            back += job.version() <= last ? 1 : 0;
            last = job.version();
            if (last % 7 == 3 && restarts < 6) {
              simulation.RestartShard(static_cast<int32_t>(restarts++ % 2));
            }
            return true;
          };
        });
    EXPECT_EQ(restarts, 6);
    EXPECT_GT(back, 0);
    EXPECT_EQ(cut.Parameters(), whole.Parameters());
    EXPECT_EQ(cut.progress().held_out_loss, whole.progress().held_out_loss);
  }
}

TEST_F(SgdModelParallel, ResumesWithTheSameBits) {
  SgdOptions options = Cut(16, 4);
  options.gather_every = 10;
  const SgdJob whole = Run(options, 2, first_);
  std::string saved;
  Run(options, 2, first_, [&](SgdSimulation& simulation) {
    simulation.on_update = [&](const SgdJob& job, double) {
      saved = EncodeSgdCheckpoint(job.Checkpoint());
      return job.version() < 57;
    };
  });
  absl::StatusOr<SgdCheckpoint> checkpoint = DecodeSgdCheckpoint(saved);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->version, 50);
  absl::StatusOr<SgdJob> job = SgdJob::Resume(*std::move(checkpoint), 2);
  ASSERT_TRUE(job.ok()) << job.status();
  SgdSimulation simulation(data_, 2, first_);
  ASSERT_TRUE(simulation.Run(*job).ok());
  EXPECT_EQ(job->Parameters(), whole.Parameters());
}

TEST_F(SgdModelParallel, StopsAndMeasuresAsOneProcess) {
  SgdOptions options = Cut(0, 4);
  options.held_out = 0.25;
  options.target_loss = 1.05;
  SgdOptions one = options;
  one.micro_batches = 0;
  const SgdJob whole = Run(one, 1, first_);
  const SgdJob cut = Run(options, 2, first_);
  EXPECT_EQ(cut.stop(), SgdStop::kTargetLoss);
  EXPECT_EQ(cut.version(), whole.version());
  EXPECT_LT(cut.version(), 100);
  EXPECT_EQ(cut.progress().held_out_loss, whole.progress().held_out_loss);
  EXPECT_EQ(cut.Parameters(), whole.Parameters());
}

TEST_F(SgdModelParallel, WhatDoesNotFitIsRefusedWithTheReason) {
  const auto refusal = [](const std::function<void(SgdOptions&)>& edit,
                          int32_t shards) {
    SgdOptions options = Cut(0, 4);
    edit(options);
    const absl::Status status = SgdJob::Create(options, shards).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](SgdOptions&) {}, 1), HasSubstr("at least 2"));
  EXPECT_THAT(refusal(
                  [](SgdOptions& o) {
                    o.model.kind = SgdModelKind::kSoftmax;
                    o.model.hidden = 0;
                  },
                  2),
              HasSubstr("no layer"));
  EXPECT_THAT(refusal([](SgdOptions& o) { o.workers = 2; }, 2),
              HasSubstr("no workers"));
  EXPECT_THAT(
      refusal([](SgdOptions& o) { o.mode = SgdMode::kBoundedStaleness; }, 2),
      HasSubstr("synchronous"));
  EXPECT_THAT(refusal(
                  [](SgdOptions& o) {
                    o.compressor = SgdCompressor::kTopK;
                    o.feedback = SgdFeedback::kEf21;
                  },
                  2),
              HasSubstr("without compressor"));
  EXPECT_THAT(refusal([](SgdOptions& o) { o = Cut(3, 4); }, 2),
              HasSubstr("at most batch = 3"));
  EXPECT_THAT(refusal([](SgdOptions& o) { o.micro_batches = 1 << 20; }, 2),
              HasSubstr("at most 65536"));
  EXPECT_THAT(refusal([](SgdOptions& o) { o.micro_batches = -1; }, 2),
              HasSubstr("micro batches"));
}

TEST_F(SgdModelParallel, AGradientThatIsNotFiniteNamesTheUpdate) {
  SgdOptions options = Cut(0, 4);
  options.step = 1e80;
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 2);
  ASSERT_TRUE(job.ok());
  SgdSimulation simulation(data_, 2, first_);
  const absl::Status status = simulation.Run(*job);
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("step "));
}

}  // namespace
}  // namespace coterie
