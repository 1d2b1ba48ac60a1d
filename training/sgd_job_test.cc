#include "training/sgd_job.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/sgd_checkpoint.h"
#include "training/sgd_simulation.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

TEST(SgdJob, ResumesBitForBit) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(150, 9, 3, TestSeed());
  for (SgdMethod method :
       {SgdMethod::kIsega, SgdMethod::kEf21, SgdMethod::kSgd, SgdMethod::kIsaga,
        SgdMethod::kIsagaShared, SgdMethod::kAccelerated}) {
    const bool batch = method == SgdMethod::kSgd ||
                       method == SgdMethod::kIsaga ||
                       method == SgdMethod::kIsagaShared;
    SgdOptions options =
        TestOptions(method, Logistic(9, 1e-2), 3, batch ? 5 : 0);
    options.float64 = false;
    options.refresh_every = 8;
    options.schedule = SgdSchedule::kInverse;
    options.step = 0.5;
    options.decay = 0.1;
    const std::vector<double> whole = Trained(data, options, 2, Dealt(data, 2));
    absl::StatusOr<SgdJob> job = SgdJob::Create(options, 2);
    SgdSimulation simulation(data, 2, Dealt(data, 2));
    simulation.on_update = [](const SgdJob& j, double) {
      return j.progress().update < 16;
    };
    ASSERT_TRUE(simulation.Run(*job).ok());
    ASSERT_FALSE(job->Done());
    const std::string bytes = EncodeSgdCheckpoint(job->Checkpoint());
    const absl::StatusOr<SgdCheckpoint> kept = DecodeSgdCheckpoint(bytes);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(*kept, job->Checkpoint());
    absl::StatusOr<SgdJob> resumed = SgdJob::Resume(*kept, 2);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    simulation.on_update = nullptr;
    ASSERT_TRUE(simulation.Run(*resumed).ok());
    EXPECT_EQ(resumed->progress().update, 30);
    EXPECT_EQ(resumed->Parameters(), whole) << static_cast<int>(method);
    // On other shards the rest differs by rounding alone.
    if (method != SgdMethod::kIsega) continue;
    resumed = SgdJob::Resume(job->Checkpoint(), 3);
    SgdSimulation other(data, 3, Dealt(data, 3));
    const absl::Status status = other.Run(*resumed);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_LT(Difference(resumed->Parameters(), whole), 1e-5);
  }
}

TEST(SgdJob, DoesNotGoOnOverOtherRows) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  SgdSimulationData data = MakeData(60, 4, 2, TestSeed());
  SgdOptions options = TestOptions(SgdMethod::kIsega, Logistic(4, 1e-2), 2);
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 2);
  SgdSimulation simulation(data, 2, Dealt(data, 2));
  simulation.on_update = [](const SgdJob& j, double) {
    return j.progress().update < 5;
  };
  ASSERT_TRUE(simulation.Run(*job).ok());
  const SgdCheckpoint checkpoint = job->Checkpoint();
  // As many rows of each worker, one of them another.
  for (bool label : {false, true}) {
    SgdSimulationData other = data;
    if (label) {
      other.labels[7] = -other.labels[7];
    } else {
      other.values[30] += 0.25F;
    }
    absl::StatusOr<SgdJob> resumed = SgdJob::Resume(checkpoint, 2);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    SgdSimulation elsewhere(other, 2, Dealt(other, 2));
    const absl::Status ran = elsewhere.Run(*resumed);
    EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition) << ran;
    EXPECT_THAT(std::string(ran.message()), HasSubstr("not those"));
  }
}

TEST(SgdJob, OneClassAloneIsNothingToTellApart) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  SgdSimulationData data = MakeData(60, 4, 2, TestSeed());
  for (double& label : data.labels) label = label > 0 ? 1 : 0;
  // Shards that have one class each are as good as others.
  std::vector<int32_t> shard_of;
  for (double label : data.labels) shard_of.push_back(label > 0 ? 1 : 0);
  const SgdOptions options =
      TestOptions(SgdMethod::kIsega, Logistic(4, 1e-2), 2);
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 2);
  absl::Status ran = SgdSimulation(data, 2, shard_of).Run(*job);
  EXPECT_TRUE(ran.ok()) << ran;
  // 0 and -1 are one class.
  for (size_t i = 0; i < data.labels.size(); ++i) {
    data.labels[i] = i % 2 == 0 ? 0 : -1;
  }
  job = SgdJob::Create(options, 2);
  ran = SgdSimulation(data, 2, shard_of).Run(*job);
  EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition) << ran;
  EXPECT_THAT(std::string(ran.message()), HasSubstr("label -1"));
}

TEST(SgdJob, DamagedCheckpointsAreRefused) {
  const absl::StatusOr<SgdJob> job =
      SgdJob::Create(TestOptions(SgdMethod::kIsega, Logistic(3, 1e-2), 2), 2);
  const std::string bytes = EncodeSgdCheckpoint(job->Checkpoint());
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    EXPECT_TRUE(absl::IsDataLoss(DecodeSgdCheckpoint(damaged).status())) << i;
    EXPECT_FALSE(DecodeSgdCheckpoint(bytes.substr(0, i)).ok()) << i;
  }
}

TEST(SgdJob, SagaResumesOnlyWhereTablesBeginAnew) {
  SgdOptions options = TestOptions(SgdMethod::kIsaga, Logistic(3, 1e-2), 2, 1);
  options.refresh_every = 8;
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 1);
  SgdCheckpoint checkpoint = job->Checkpoint();
  checkpoint.version = 7;
  EXPECT_THAT(std::string(SgdJob::Resume(checkpoint, 1).status().message()),
              HasSubstr("update 7"));
}

TEST(SgdJob, RepeatedAndLateAnswersAreIgnored) {
  const SgdSimulationData data = MakeData(40, 5, 2, TestSeed());
  SgdOptions options = TestOptions(SgdMethod::kIsega, Logistic(5, 1e-2), 2);
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 2);
  const SgdTask task = job->task();
  std::vector<SgdShard> shards;
  for (int32_t s = 0; s < 2; ++s) {
    std::vector<PointId> ids(data.ids.begin() + s * 20,
                             data.ids.begin() + s * 20 + 20);
    shards.emplace_back(
        task, *SgdRows::Create(task.model, {2, task.seed, 0},
                               {{{data.values.data() + s * 100, 20, 5, 5},
                                 data.ids.data() + s * 20,
                                 data.labels.data() + s * 20,
                                 nullptr}}));
  }
  const auto answer = [&](int32_t s) {
    return *shards[static_cast<size_t>(s)].Run(*job->NextStep(s), StepThreads(),
                                               [] { return false; });
  };
  for (int32_t s = 0; s < 2; ++s)
    ASSERT_TRUE(job->Accept(s, answer(s), 0).ok());
  const SgdPartial first = answer(0);
  // The same step again gets the same answer again.
  EXPECT_EQ(answer(0), first);
  ASSERT_TRUE(job->Accept(0, first, 1).ok());
  EXPECT_EQ(job->NextStep(0), nullptr);
  ASSERT_TRUE(job->Accept(0, first, 1).ok());
  EXPECT_EQ(job->account(0).late, 1);
  EXPECT_EQ(job->progress().update, 0);
  ASSERT_TRUE(job->Accept(1, answer(1), 2.5).ok());
  EXPECT_EQ(job->progress().update, 1);
  EXPECT_EQ(job->progress().seconds, 2.5);
  const std::vector<double> x = job->Parameters();
  ASSERT_TRUE(job->Accept(0, first, 3).ok());
  EXPECT_EQ(job->account(0).late, 2);
  EXPECT_EQ(job->Parameters(), x);
  EXPECT_EQ(job->account(0).accepted, 1);
  SgdPartial wrong = answer(0);
  wrong.contributions[0].payload.values.push_back(1);
  EXPECT_EQ(job->Accept(0, wrong, 3).code(),
            absl::StatusCode::kInvalidArgument);
  wrong = answer(0);
  wrong.contributions[0].rows = 21;
  EXPECT_EQ(job->Accept(0, wrong, 3).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_NE(job->NextStep(0), nullptr);
}

// Between two answers and with one open: never states of both lives mixed.
TEST(SgdJob, ARestartedShardChangesNoBit) {
  const SgdSimulationData data = MakeData(150, 9, 3, TestSeed());
  for (SgdMethod method : {SgdMethod::kIsega, SgdMethod::kEf21}) {
    const SgdOptions options = TestOptions(method, Logistic(9, 1e-2), 3);
    const std::vector<double> whole = Trained(data, options, 3, Dealt(data, 3));
    absl::StatusOr<SgdJob> job = SgdJob::Create(options, 3);
    SgdSimulation simulation(data, 3, Dealt(data, 3));
    int restarts = 0;
    simulation.on_update = [&](const SgdJob&, double) {
      simulation.RestartShard(restarts++ % 3);
      return true;
    };
    ASSERT_TRUE(simulation.Run(*job).ok());
    EXPECT_GE(restarts, 30);
    EXPECT_EQ(job->Parameters(), whole);
  }
}

TEST(SgdJob, MeasuringBetweenUpdatesCostsNoRestart) {
  const SgdSimulationData data = MakeData(90, 9, 3, TestSeed());
  SgdOptions options = TestOptions(SgdMethod::kIsega, Logistic(9, 1e-2), 3);
  const std::vector<double> whole = Trained(data, options, 3, Dealt(data, 3));
  options.evaluate_every = 1;
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 3);
  SgdSimulation simulation(data, 3, Dealt(data, 3));
  ASSERT_TRUE(simulation.Run(*job).ok());
  EXPECT_EQ(job->Parameters(), whole);
  // One to start, one gradient and one measurement an update.
  EXPECT_THAT(job->Checkpoint().numbers, testing::Each(1 + 2 * 30));
}

TEST(SgdJob, AShardThatForgotSaysSoAndIsStartedAgain) {
  const SgdSimulationData data = MakeData(20, 4, 1, TestSeed());
  const SgdOptions options =
      TestOptions(SgdMethod::kEf21, Logistic(4, 1e-2), 1);
  const std::vector<double> whole = Trained(data, options, 1, Dealt(data, 1));
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 1);
  const auto make = [&] {
    return SgdShard(job->task(),
                    *SgdRows::Create(options.model, {1, options.seed, 0},
                                     {{{data.values.data(), 20, 4, 4},
                                       data.ids.data(),
                                       data.labels.data(),
                                       nullptr}}));
  };
  std::vector<SgdShard> shard;
  shard.push_back(make());
  for (int i = 0; !job->Done(); ++i) {
    if (i % 7 == 5) {
      shard.clear();
      shard.push_back(make());
    }
    ASSERT_TRUE(job->Accept(0,
                            *shard[0].Run(*job->NextStep(0), StepThreads(),
                                          [] { return false; }),
                            i)
                    .ok());
  }
  EXPECT_TRUE(job->status().ok()) << job->status();
  EXPECT_EQ(job->Parameters(), whole);
}

TEST(SgdJob, OtherRowsAfterARestartFailTheJob) {
  absl::StatusOr<SgdJob> job = SgdJob::Create(
      TestOptions(SgdMethod::kGradientDescent, Logistic(2, 0.1), 1), 1);
  SgdPartial start;
  start.number = job->NextStep(0)->number;
  start.extents = {{0, 5}};
  start.max_squared_norm = 1;
  start.least_label = -1;
  start.most_label = 1;
  ASSERT_TRUE(job->Accept(0, start, 0).ok());
  job->ShardRestarted(0);
  start.number = job->NextStep(0)->number;
  start.extents = {{0, 6}};
  ASSERT_TRUE(job->Accept(0, start, 0).ok());
  EXPECT_TRUE(job->Done());
  EXPECT_THAT(std::string(job->status().message()), HasSubstr("other rows"));
}

TEST(SgdJob, ALostShardFailsTheRoundByName) {
  absl::StatusOr<SgdJob> job = SgdJob::Create(
      TestOptions(SgdMethod::kGradientDescent, Logistic(2, 0.1), 1), 2);
  job->ShardLost(1, "no answer within 5 s");
  EXPECT_TRUE(job->Done());
  EXPECT_EQ(job->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(job->status().message()),
              HasSubstr("update 1: shard 1: no answer"));
}

}  // namespace
}  // namespace coterie
