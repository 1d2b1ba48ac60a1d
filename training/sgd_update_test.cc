// What updates compute, against the obvious.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/draw.h"
#include "training/sgd_compress.h"
#include "training/sgd_draw.h"
#include "training/sgd_job.h"
#include "training/sgd_simulation.h"
#include "training/sgd_testing.h"

namespace coterie {
namespace {

TEST(SgdJob, SynchronousIsOneProcess) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(300, 17, 6, TestSeed());
  const SgdModel model = Logistic(17, 1e-2);
  SgdOptions options = TestOptions(SgdMethod::kGradientDescent, model, 6);
  options.schedule = SgdSchedule::kConstant;
  options.step = 1.5;
  std::vector<double> x(17), gradient;
  for (int t = 0; t < 30; ++t) {
    Objective(data, model, x, &gradient);
    for (size_t j = 0; j < x.size(); ++j) x[j] -= 1.5 * gradient[j];
  }
  for (int32_t shards : {1, 2, 5}) {
    EXPECT_LT(
        Difference(Trained(data, options, shards, Dealt(data, shards)), x),
        1e-12);
  }
}

TEST(SgdJob, EveryLinearMethodIsTheSameOnAnyShards) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(240, 13, 5, TestSeed());
  const SgdModel model = Logistic(13, 1e-2);
  for (SgdMethod method :
       {SgdMethod::kSgd, SgdMethod::kIbcd, SgdMethod::kIbgd, SgdMethod::kIsgd,
        SgdMethod::kIsaga, SgdMethod::kIsagaShared, SgdMethod::kIsega,
        SgdMethod::kAccelerated}) {
    const bool batch =
        method == SgdMethod::kSgd || method == SgdMethod::kIsgd ||
        method == SgdMethod::kIsaga || method == SgdMethod::kIsagaShared;
    const SgdOptions options = TestOptions(method, model, 5, batch ? 4 : 0);
    const std::vector<double> one = Trained(data, options, 1, Dealt(data, 1));
    EXPECT_LT(Difference(one, Trained(data, options, 3, Dealt(data, 3))), 1e-12)
        << static_cast<int>(method);
    EXPECT_LT(Difference(one, Trained(data, options, 5, ByWorker(data, 5, 5))),
              1e-12)
        << static_cast<int>(method);
  }
}

TEST(SgdJob, RepeatsBitForBitWhateverTheOrderOfArrivalAndThreads) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(3000, 20, 2, TestSeed());
  for (SgdMethod method : {SgdMethod::kIsega, SgdMethod::kSgd}) {
    SgdOptions options = TestOptions(method, Logistic(20, 1e-3), 2,
                                     method == SgdMethod::kSgd ? 64 : 0);
    options.float64 = false;
    options.max_updates = 10;
    const std::vector<double> first = Trained(data, options, 4, Dealt(data, 4));
    absl::StatusOr<SgdJob> job = SgdJob::Create(options, 4);
    SgdSimulation simulation(data, 4, Dealt(data, 4));
    simulation.seconds = [](int32_t shard, int64_t number) {
      return 1 + static_cast<double>((shard * 7 + number * 5) % 11);
    };
    simulation.threads.count = 2;
    simulation.threads.run = [](int64_t tasks, StepThreads::Body body) {
      std::thread other([&] {
        for (int64_t i = 0; i < tasks; i += 2) body(0, i);
      });
      for (int64_t i = 1; i < tasks; i += 2) body(1, i);
      other.join();
    };
    ASSERT_TRUE(simulation.Run(*job).ok());
    EXPECT_EQ(job->Parameters(), first);
  }
}

// --- Methods against the obvious ---------------------------------------------

// Each worker's gradient sum with l2, at x.
std::vector<std::vector<double>> WorkerSums(const SgdSimulationData& data,
                                            const SgdModel& model,
                                            int32_t workers,
                                            const std::vector<double>& x) {
  std::vector<std::vector<double>> sums(static_cast<size_t>(workers),
                                        std::vector<double>(x.size()));
  for (int64_t i = 0; i < data.size(); ++i) {
    const auto w = static_cast<size_t>(
        SgdWorkerOf(data.ids[static_cast<size_t>(i)], workers));
    double loss = 0;
    const float* row = data.values.data() + i * data.dimension;
    const double factor =
        SgdRowFactor(model, x, row, data.labels[static_cast<size_t>(i)], loss);
    for (size_t j = 0; j < x.size(); ++j) {
      sums[w][j] += factor * row[j] + model.l2 * x[j];
    }
  }
  return sums;
}

// x after `steps` of plain masks, or of ISEGA as the paper writes it.
std::vector<double> SlowBlocks(const SgdSimulationData& data,
                               const SgdOptions& options, double step,
                               int steps) {
  const SgdTask task = SgdTaskOf(options);
  const double scale = SgdCompressionOf(task).scale;
  std::vector<double> x(static_cast<size_t>(data.dimension));
  std::vector<std::vector<double>> h(static_cast<size_t>(options.workers),
                                     std::vector<double>(x.size()));
  for (int t = 0; t < steps; ++t) {
    std::vector<double> sum(x.size());
    const auto gradients = WorkerSums(data, options.model, options.workers, x);
    for (int32_t w = 0; w < options.workers; ++w) {
      std::vector<double> masked(x.size());
      for (const auto& run : SgdMask(task, t, w)) {
        for (auto j = static_cast<size_t>(run.first);
             j < static_cast<size_t>(run.second); ++j) {
          masked[j] = 1;
        }
      }
      const auto& g = gradients[static_cast<size_t>(w)];
      auto& shift = h[static_cast<size_t>(w)];
      for (size_t j = 0; j < x.size(); ++j) {
        if (options.feedback == SgdFeedback::kPlain) {
          sum[j] += masked[j] * g[j];
        } else {
          sum[j] += shift[j] + scale * masked[j] * (g[j] - shift[j]);
          if (masked[j] != 0) shift[j] = g[j];
        }
      }
    }
    for (size_t j = 0; j < x.size(); ++j) {
      x[j] -= step * sum[j] / static_cast<double>(data.size());
    }
  }
  return x;
}

TEST(SgdJob, BlockMethodsAreWhatThePaperWrites) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(120, 11, 4, TestSeed());
  for (SgdMethod method :
       {SgdMethod::kIbcd, SgdMethod::kIbgd, SgdMethod::kIsega}) {
    for (SgdCompressor compressor :
         {SgdCompressor::kRandomBlock, SgdCompressor::kPermBlock}) {
      SgdOptions options = TestOptions(method, Logistic(11, 1e-2), 4);
      if (method != SgdMethod::kIbgd) options.compressor = compressor;
      options.schedule = SgdSchedule::kConstant;
      options.step = 0.7;
      const std::vector<double> x = Trained(data, options, 2, Dealt(data, 2));
      EXPECT_LT(Difference(x, SlowBlocks(data, options, 0.7, 30)), 1e-11);
    }
  }
}

// SAGA with whole vectors and a table of every row's factor.
TEST(SgdJob, SagaIsWhatThePaperWrites) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(60, 7, 3, TestSeed());
  for (SgdMethod method : {SgdMethod::kIsaga, SgdMethod::kIsagaShared}) {
    SgdOptions options = TestOptions(method, Logistic(7, 1e-2), 3, 2);
    options.schedule = SgdSchedule::kConstant;
    options.step = 0.3;
    const bool shared = method == SgdMethod::kIsagaShared;
    const SgdTask task = SgdTaskOf(options);
    const std::vector<double> got = Trained(data, options, 2, Dealt(data, 2));
    std::vector<double> x(7);
    std::vector<std::vector<double>> table(60, std::vector<double>(7));
    for (int t = 0; t < 30; ++t) {
      std::vector<std::vector<double>> now(60, std::vector<double>(7));
      std::vector<double> sum(7);
      std::vector<std::vector<double>> mean(3, std::vector<double>(7));
      const auto owner = [&](size_t i) {
        return static_cast<size_t>(SgdWorkerOf(data.ids[i], 3));
      };
      for (size_t i = 0; i < 60; ++i) {
        double loss = 0;
        const float* row = data.values.data() + i * 7;
        const double factor =
            SgdRowFactor(options.model, x, row, data.labels[i], loss);
        for (size_t j = 0; j < 7; ++j) {
          now[i][j] = factor * row[j];
          if (t == 0) table[i][j] = now[i][j];
          if (shared) {
            for (auto& m : mean) m[j] += table[i][j] / 60;
          } else {
            mean[owner(i)][j] += table[i][j] / 20;
          }
        }
      }
      for (int32_t w = 0; w < 3; ++w) {
        std::vector<std::pair<int64_t, int64_t>> mask = {{0, 7}};
        if (t > 0) mask = SgdMask(task, t, w);
        for (const auto& run : mask) {
          for (auto j = static_cast<size_t>(run.first);
               j < static_cast<size_t>(run.second); ++j) {
            sum[j] += mean[static_cast<size_t>(w)][j] + 1e-2 * x[j];
          }
        }
      }
      for (size_t i = 0; i < 60 && t > 0; ++i) {
        const uint64_t round = static_cast<uint64_t>(t);
        if (UniformOf(SgdHash(SgdDraw::kBatch,
                              {options.seed, round, data.ids[i]})) >= 0.1) {
          continue;
        }
        const size_t w = shared ? SgdHash(SgdDraw::kSharedWorker,
                                          {options.seed, round, data.ids[i]}) %
                                      3
                                : owner(i);
        for (const auto& run : SgdMask(task, t, static_cast<int32_t>(w))) {
          for (auto j = static_cast<size_t>(run.first);
               j < static_cast<size_t>(run.second); ++j) {
            sum[j] += (now[i][j] - table[i][j]) / 2;
            table[i][j] = now[i][j];
          }
        }
      }
      for (size_t j = 0; j < 7; ++j) x[j] -= 0.3 * sum[j] / 3;
    }
    EXPECT_LT(Difference(got, x), 1e-11) << static_cast<int>(method);
  }
}

TEST(SgdJob, EveryConvergentMethodFindsTheOptimum) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  const SgdSimulationData data = MakeData(200, 12, 4, TestSeed());
  const SgdModel model = Logistic(12, 1e-2);
  SgdOptions best = TestOptions(SgdMethod::kGradientDescent, model, 4);
  best.max_updates = 2000;
  const std::vector<double> x = Trained(data, best, 1, Dealt(data, 1));
  const double optimum = Objective(data, model, x, nullptr);
  const double start = std::log(2.0);
  const auto gap = [&](SgdOptions options) {
    options.max_updates = 2500;
    options.top_k = 2;
    options.levels = 4;
    const auto at = Trained(data, options, 2, ByWorker(data, 4, 2));
    return (Objective(data, model, at, nullptr) - optimum) / (start - optimum);
  };
  SgdOptions options = TestOptions(SgdMethod::kIsega, model, 4);
  for (SgdCompressor c :
       {SgdCompressor::kRandomBlock, SgdCompressor::kPermBlock,
        SgdCompressor::kWholeOrNothing, SgdCompressor::kQsgd}) {
    options.compressor = c;
    EXPECT_LT(gap(options), 1e-8) << "shift " << static_cast<int>(c);
  }
  options = TestOptions(SgdMethod::kEf21, model, 4);
  for (SgdCompressor c :
       {SgdCompressor::kNone, SgdCompressor::kRandomBlock, SgdCompressor::kTopK,
        SgdCompressor::kFp16, SgdCompressor::kBf16}) {
    options.compressor = c;
    EXPECT_LT(gap(options), 1e-8) << "EF21 " << static_cast<int>(c);
  }
  EXPECT_LT(gap(TestOptions(SgdMethod::kIsagaShared, model, 4, 4)), 1e-6);
  options = TestOptions(SgdMethod::kAccelerated, model, 4);
  options.compressor = SgdCompressor::kNone;
  EXPECT_LT(gap(options), 1e-8);
  // The workers disagree, and plain blocks stall.
  EXPECT_GT(gap(TestOptions(SgdMethod::kIbcd, model, 4)), 1e-5);
}

TEST(SgdJob, ProximalStepsZeroWeights) {
  const SgdSimulationData data = MakeData(200, 12, 4, TestSeed());
  SgdModel model = Logistic(12, 1e-2);
  model.l1 = 2e-2;
  SgdOptions options = TestOptions(SgdMethod::kIsega, model, 4);
  options.max_updates = 1500;
  const std::vector<double> blocks = Trained(data, options, 2, Dealt(data, 2));
  options = TestOptions(SgdMethod::kGradientDescent, model, 4);
  options.max_updates = 1500;
  const std::vector<double> whole = Trained(data, options, 1, Dealt(data, 1));
  EXPECT_LT(Difference(whole, blocks), 1e-6);
  EXPECT_GE(std::count(whole.begin(), whole.end(), 0.0), 3);
  EXPECT_EQ(std::count(whole.begin(), whole.end(), 0.0),
            std::count(blocks.begin(), blocks.end(), 0.0));
}

}  // namespace
}  // namespace coterie
