// Asynchronous modes under a simulated clock, and cases that were reported
// against other systems (B80 to B85).

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/draw.h"
#include "training/sgd_draw.h"
#include "training/sgd_job.h"
#include "training/sgd_simulation.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kShards = 8;

// 8 workers, each on a shard of its own; rows dealt out or sorted by label.
struct Fleet {
  explicit Fleet(bool sorted) : data(MakeData(400, 12, kShards, TestSeed())) {
    std::vector<size_t> order(400);
    std::iota(order.begin(), order.end(), size_t{0});
    if (sorted) {
      std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
        return data.labels[a] < data.labels[b];
      });
    }
    std::vector<int32_t> owner(400);
    for (size_t i = 0; i < 400; ++i) {
      owner[order[i]] = static_cast<int32_t>(i / 50);
    }
    data.SetWorkers(owner, kShards);
    model = Logistic(12, 1e-2);
    SgdOptions best = TestOptions(SgdMethod::kGradientDescent, model, 1);
    best.max_updates = 3000;
    const auto x = Trained(data, best, 1, std::vector<int32_t>(400));
    optimum = Objective(data, model, x, nullptr);
  }

  // Full gradients with the step 1/(2L).
  SgdOptions Options(SgdMode mode, SgdAsyncRule rule,
                     SgdFeedback feedback) const {
    SgdOptions o = TestOptions(SgdMethod::kGradientDescent, model, kShards);
    o.mode = mode;
    o.rule = rule;
    o.feedback = feedback;
    o.schedule = SgdSchedule::kConstant;
    o.step = 1 / (2 * (0.25 + 1e-2));
    o.max_updates = 100'000;
    return o;
  }

  struct Result {
    double time = -1;  // to the gap; -1: not within `limit`
    double gap = 0;
    SgdStaleness staleness;
    int64_t dropped = 0;
  };

  // Simulated seconds until f is within `gap` of the optimum, relative to the
  // start; shard 0 is `slower` times slower than the others, which take about
  // a second.
  Result Run(const SgdOptions& options, double slower, double gap,
             double limit) const {
    absl::StatusOr<SgdJob> job = SgdJob::Create(options, kShards);
    EXPECT_TRUE(job.ok()) << job.status();
    SgdSimulation simulation(data, kShards, ByWorker(data, kShards, kShards));
    simulation.seconds = [slower](int32_t shard, int64_t number) {
      const double jitter =
          UniformOf(SgdHash(SgdDraw::kStart, {static_cast<uint64_t>(shard),
                                              static_cast<uint64_t>(number)}));
      return (0.9 + 0.2 * jitter) * (shard == 0 ? slower : 1);
    };
    Result result;
    simulation.on_update = [&](const SgdJob& j, double now) {
      if (options.mode != SgdMode::kSynchronous &&
          j.progress().update % kShards != 0) {
        return true;
      }
      result.gap = (Objective(data, model, j.Parameters(), nullptr) - optimum) /
                   (std::log(2.0) - optimum);
      if (result.gap <= gap) result.time = now;
      return result.time < 0 && now < limit;
    };
    EXPECT_TRUE(simulation.Run(*job).ok());
    result.staleness = job->Staleness();
    for (int32_t s = 0; s < kShards; ++s) {
      result.dropped += job->account(s).dropped;
    }
    return result;
  }

  SgdSimulationData data;
  SgdModel model;
  double optimum = 0;
};

constexpr auto kPlain = SgdFeedback::kPlain;
constexpr auto kTable = SgdAsyncRule::kTable;
constexpr auto kAsync = SgdMode::kAsynchronous;

TEST(SgdAsync, TheTableRuleBeatsStragglersAndFindsTheOptimum) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  for (bool sorted : {false, true}) {
    const Fleet fleet(sorted);
    const SgdOptions sync =
        fleet.Options(SgdMode::kSynchronous, kTable, kPlain);
    const SgdOptions table = fleet.Options(kAsync, kTable, SgdFeedback::kEf21);
    for (const auto& [slower, share] : std::vector<std::pair<double, double>>{
             {1, 1.2}, {4, 0.5}, {10, 0.25}}) {
      const auto slow = fleet.Run(sync, slower, 1e-5, 1e5);
      const auto fast = fleet.Run(table, slower, 1e-5, 1e5);
      ASSERT_GT(slow.time, 0);
      ASSERT_GT(fast.time, 0);
      EXPECT_LE(fast.time, share * slow.time) << slower << sorted;
      EXPECT_EQ(fast.dropped, 0);
      EXPECT_EQ(slow.staleness.max, 0);
      EXPECT_NEAR(static_cast<double>(fast.staleness.p50), kShards - 1, 1);
      EXPECT_GE(static_cast<double>(fast.staleness.max),
                slower == 1 ? 7 : 7 * (slower - 1));
    }
  }
}

// The answers of the slow shard are old: what they add up to with the others'
// is not the loss of any parameters.
TEST(SgdAsync, ATargetLossIsThatOfTheParametersAtTheEnd) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(true);
  SgdOptions options = fleet.Options(kAsync, SgdAsyncRule::kConstant, kPlain);
  const auto run = [&](const std::function<bool(const SgdJob&)>& seen) {
    absl::StatusOr<SgdJob> job = SgdJob::Create(options, kShards);
    EXPECT_TRUE(job.ok()) << job.status();
    SgdSimulation simulation(fleet.data, kShards,
                             ByWorker(fleet.data, kShards, kShards));
    simulation.seconds = [](int32_t shard, int64_t) {
      return shard == 0 ? 25.0 : 1.0;
    };
    simulation.on_update = [&](const SgdJob& j, double) { return seen(j); };
    EXPECT_TRUE(simulation.Run(*job).ok());
    return *std::move(job);
  };
  const auto truth = [&](const SgdJob& job) {
    return Objective(fleet.data, fleet.model, job.Parameters(), nullptr);
  };
  // A loss that only seems to be reached.
  double seeming = 0, gap = 0;
  options.max_updates = 300;
  run([&](const SgdJob& job) {
    const double off = truth(job) - job.progress().loss;
    if (off > gap) {
      gap = off;
      seeming = job.progress().loss;
    }
    return true;
  });
  ASSERT_GT(gap, 1e-3);
  options.target_loss = seeming;
  const SgdJob job = run([](const SgdJob&) { return true; });
  if (job.stop() == SgdStop::kTargetLoss) {
    EXPECT_LE(truth(job), seeming);
    EXPECT_NEAR(job.progress().loss, truth(job), 1e-12);
  } else {
    EXPECT_EQ(job.stop(), SgdStop::kMaxUpdates);
  }
  // One that is.
  options.target_loss = truth(job) + 0.05;
  const SgdJob reached = run([](const SgdJob&) { return true; });
  EXPECT_EQ(reached.stop(), SgdStop::kTargetLoss);
  EXPECT_LE(truth(reached), options.target_loss);
}

// Expected, and warned of: rows count by the speed of their shard.
TEST(SgdAsync, PlainUpdatesStallOnSortedShards) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(true);
  for (SgdAsyncRule rule :
       {SgdAsyncRule::kConstant, SgdAsyncRule::kDelayAdaptive,
        SgdAsyncRule::kStalenessScaled}) {
    const auto plain =
        fleet.Run(fleet.Options(kAsync, rule, kPlain), 10, 1e-5, 600);
    EXPECT_EQ(plain.time, -1);
    EXPECT_GT(plain.gap, 1e-4);
    EXPECT_LT(plain.gap, 0.5);
  }
  SgdOptions backup = fleet.Options(SgdMode::kBackup, kTable, kPlain);
  backup.backup = 1;
  const auto dropped = fleet.Run(backup, 10, 1e-5, 600);
  EXPECT_GT(dropped.gap, 1e-4);
  EXPECT_GT(dropped.dropped, 400);
}

TEST(SgdAsync, BackupShardsHideAStragglerOnLikeRows) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(false);
  SgdOptions backup = fleet.Options(SgdMode::kBackup, kTable, kPlain);
  backup.backup = 1;
  const auto with = fleet.Run(backup, 10, 0.05, 1e4);
  const auto without = fleet.Run(
      fleet.Options(SgdMode::kSynchronous, kTable, kPlain), 10, 0.05, 1e4);
  ASSERT_GT(with.time, 0);
  EXPECT_LT(with.time, 0.25 * without.time);
}

TEST(SgdAsync, BoundedStalenessKeepsShardsTogether) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(false);
  SgdOptions o = fleet.Options(SgdMode::kBoundedStaleness, kTable, kPlain);
  o.bound = 3;
  o.max_updates = 400;
  const auto bounded = fleet.Run(o, 10, 0, 1e4);
  // The slow one sets the pace: no other is more than 3 + 1 answers ahead.
  EXPECT_LE(bounded.staleness.max, (kShards - 1) * (o.bound + 2));
  EXPECT_LT(bounded.gap, 0.02);
}

TEST(SgdAsync, BufferedAnswersAreSynchronousWhenAllAreAwaited) {
  const Fleet fleet(false);
  SgdOptions sync = fleet.Options(SgdMode::kSynchronous, kTable, kPlain);
  SgdOptions buffered = fleet.Options(SgdMode::kBuffered, kTable, kPlain);
  buffered.buffer = kShards;
  sync.max_updates = buffered.max_updates = 1;
  const auto shards = ByWorker(fleet.data, kShards, kShards);
  EXPECT_LT(Difference(Trained(fleet.data, sync, kShards, shards),
                       Trained(fleet.data, buffered, kShards, shards)),
            1e-12);
  buffered.buffer = 3;
  buffered.max_updates = 2000;
  const auto run = fleet.Run(buffered, 4, 0.02, 1e4);
  EXPECT_GT(run.time, 0);
}

TEST(SgdAsync, AnswersBeyondTheCapAreDroppedAndCounted) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(false);
  SgdOptions o = fleet.Options(kAsync, SgdAsyncRule::kConstant, kPlain);
  o.max_staleness = 20;
  o.max_updates = 700;
  const auto capped = fleet.Run(o, 10, 0, 1e4);
  EXPECT_LE(capped.staleness.max, 20);
  EXPECT_NEAR(static_cast<double>(capped.dropped), 10, 3);
  o.max_staleness = 1000;
  EXPECT_EQ(fleet.Run(o, 10, 0, 1e4).dropped, 0);
}

TEST(SgdAsync, TheProximalRuleFindsTheOptimumOfBlocks) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(true);
  SgdOptions o =
      TestOptions(SgdMethod::kAsynchronousProximal, fleet.model, kShards);
  o.compressor = SgdCompressor::kNone;
  o.max_updates = 100'000;
  EXPECT_GT(fleet.Run(o, 4, 1e-5, 1e5).time, 0);
  // Blocks of disagreeing workers stall, as they do without delays.
  o.compressor = SgdCompressor::kRandomBlock;
  const auto blocks = fleet.Run(o, 1, 1e-5, 600);
  EXPECT_EQ(blocks.time, -1);
}

TEST(SgdAsync, BlocksOfTheTableFindTheOptimum) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const Fleet fleet(true);
  for (SgdFeedback feedback : {SgdFeedback::kShift, SgdFeedback::kEf21}) {
    SgdOptions o = fleet.Options(kAsync, kTable, feedback);
    o.compressor = SgdCompressor::kRandomBlock;
    o.step /= 2;
    EXPECT_GT(fleet.Run(o, 4, 1e-5, 1e5).time, 0);
  }
}

// Held-out rows are measured at one version by all shards.
TEST(SgdAsync, MeasuresWhileAnswersAreUnderWay) {
  const Fleet fleet(false);
  for (SgdMode mode : {SgdMode::kSynchronous, kAsync}) {
    SgdOptions o = fleet.Options(mode, SgdAsyncRule::kConstant, kPlain);
    o.held_out = 0.25;
    o.evaluate_every = 50;
    o.max_updates = 200;
    absl::StatusOr<SgdJob> job = SgdJob::Create(o, kShards);
    SgdSimulation simulation(fleet.data, kShards,
                             ByWorker(fleet.data, kShards, kShards));
    ASSERT_TRUE(simulation.Run(*job).ok());
    EXPECT_EQ(job->progress().measured_at, 200);
    EXPECT_GT(job->progress().held_out_accuracy, 0.6);
    EXPECT_LT(job->progress().held_out_loss, 0.69);
    EXPECT_EQ(job->stop(), SgdStop::kMaxUpdates);
  }
}

// --- Reported cases ----------------------------------------------------------

// Squared distance to 1 in one dimension: f = (w - 1)^2 / 2 from w = 0.
SgdSimulationData Scalars(const std::vector<double>& labels,
                          const std::vector<int32_t>& owner, int32_t workers) {
  SgdSimulationData data;
  data.dimension = 1;
  data.values.assign(labels.size(), 1.0F);
  data.labels = labels;
  data.SetWorkers(owner, workers);
  return data;
}

SgdOptions ScalarOptions(int32_t workers, double step) {
  SgdModel model;
  model.kind = SgdModelKind::kLinear;
  model.dimension = 1;
  SgdOptions o = TestOptions(SgdMethod::kGradientDescent, model, workers);
  o.schedule = SgdSchedule::kConstant;
  o.step = step;
  return o;
}

// B80: a step fine for one worker must not diverge with eight at one version.
TEST(SgdReported, ManyAsynchronousWorkersDoNotMultiplyTheStep) {
  const std::vector<int32_t> owner = {0, 1, 2, 3, 4, 5, 6, 7};
  const SgdSimulationData data = Scalars(std::vector<double>(8, 1), owner, 8);
  SgdOptions o = ScalarOptions(8, 0.3);
  o.mode = SgdMode::kAsynchronous;
  o.rule = SgdAsyncRule::kConstant;
  o.max_updates = 200;
  absl::StatusOr<SgdJob> job = SgdJob::Create(o, 8);
  SgdSimulation simulation(data, 8, owner);
  double last = 1;
  simulation.on_update = [&last](const SgdJob& j, double) {
    const double off = std::abs(j.Parameters()[0] - 1);
    EXPECT_LE(off, last);
    last = off;
    return true;
  };
  ASSERT_TRUE(simulation.Run(*job).ok());
  EXPECT_LT(last, 0.01);
  EXPECT_EQ(job->Staleness().max, 7);
}

// B80: what does diverge ends with an error that names it.
TEST(SgdReported, DivergenceIsAnErrorNotNan) {
  SgdOptions o = ScalarOptions(1, 1e30);
  o.max_updates = 1000;
  absl::StatusOr<SgdJob> job = SgdJob::Create(o, 1);
  const SgdSimulationData data = Scalars({1}, {0}, 1);
  SgdSimulation simulation(data, 1, {0});
  const absl::Status status = simulation.Run(*job);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("update "));
}

// B81: 3 rows with gradient 1, one with 5, a shard without: the mean is 2.
TEST(SgdReported, UnequalBatchesAreDividedOnceByTheirRows) {
  const SgdSimulationData data = Scalars({-1, -1, -1, -5}, {0, 0, 0, 1}, 3);
  SgdOptions o = ScalarOptions(3, 1);
  o.max_updates = 1;
  EXPECT_EQ(Trained(data, o, 3, {0, 0, 0, 1})[0], -2);
  o = SgdPreset(SgdMethod::kSgd, [o] {
    SgdOptions batch = o;
    batch.batch = 9;
    return batch;
  }());
  EXPECT_EQ(Trained(data, o, 3, {0, 0, 0, 1})[0], -2);
}

// B82: 64 and 70 rows, batch 8: an epoch of 9 steps takes each row once, on
// any shards; also with a worker that has none.
TEST(SgdReported, WorkersWithUnequalRowsEndAnEpochTogether) {
  for (int64_t second : {70, 0}) {
    std::vector<double> labels;
    std::vector<int32_t> owner;
    for (int64_t i = 0; i < 64 + second; ++i) {
      labels.push_back(std::sin(static_cast<double>(i)));
      owner.push_back(i < 64 ? 0 : 1);
    }
    const SgdSimulationData data = Scalars(labels, owner, 2);
    SgdOptions o = ScalarOptions(2, 0.1);
    o.batch = 8;
    o = SgdPreset(SgdMethod::kSgd, o);
    o.max_updates = second == 0 ? 8 : 9;
    absl::StatusOr<SgdJob> job = SgdJob::Create(o, 2);
    SgdSimulation simulation(data, 2, owner);
    ASSERT_TRUE(simulation.Run(*job).ok());
    EXPECT_EQ(job->account(0).rows, 64);
    EXPECT_EQ(job->account(1).rows, second);
    EXPECT_NEAR(job->Parameters()[0],
                Trained(data, o, 1, std::vector<int32_t>(labels.size()))[0],
                1e-12);
  }
}

// B85: 0.2 / (1 + t), saved after two updates: no update twice.
TEST(SgdReported, ResumingRepeatsNoUpdate) {
  const SgdSimulationData data = Scalars({1}, {0}, 1);
  SgdOptions o = ScalarOptions(1, 0.2);
  o.schedule = SgdSchedule::kInverse;
  o.decay = 1;
  o.max_updates = 4;
  absl::StatusOr<SgdJob> job = SgdJob::Create(o, 1);
  SgdSimulation simulation(data, 1, {0});
  simulation.on_update = [](const SgdJob& j, double) {
    return j.progress().update < 2;
  };
  ASSERT_TRUE(simulation.Run(*job).ok());
  absl::StatusOr<SgdJob> resumed = SgdJob::Resume(job->Checkpoint(), 1);
  simulation.on_update = nullptr;
  ASSERT_TRUE(simulation.Run(*resumed).ok());
  EXPECT_NEAR(1 - resumed->Parameters()[0], 0.6384, 1e-12);
  EXPECT_EQ(resumed->Parameters(), Trained(data, o, 1, {0}));
}

}  // namespace
}  // namespace coterie
