#include "bench/sgd/experiments.h"

#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"

namespace coterie {
namespace {

constexpr auto kTheorem = SgdSchedule::kTheorem;
constexpr auto kTight = SgdSchedule::kTight;

double Updates(const SgdProblem& problem, const SgdOptions& options,
               double gap) {
  const absl::StatusOr<SgdRun> run = RunToGap(problem, options, gap);
  EXPECT_TRUE(run.ok()) << run.status();
  EXPECT_GE(run->updates, 0) << "not reached: " << run->gap;
  return static_cast<double>(run->updates);
}

double Updates(const SgdProblem& problem, SgdMethod method, int32_t n, double u,
               SgdSchedule schedule) {
  return Updates(problem, ExperimentOptions(problem, method, n, u, schedule),
                 1e-8);
}

// Where every worker's gradient vanishes at the optimum, a block from each of n
// workers does what whole gradients at 1/(2L) do; the same block from all does
// not.
TEST(SgdExperiments, IndependentBlocksAreFreeOnTheQuadratic) {
  for (int32_t n : {5, 10, 20, 50}) {
    double ratio = 0, same_ratio = 0;
    // Single runs are within 4 % of the mean.
    constexpr uint64_t kSeeds = 4;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SgdProblem problem = QuadraticProblem(n, 100, 50, seed);
      const double descent =
          Updates(problem, SgdMethod::kGradientDescent, n, n, kTheorem);
      ratio +=
          Updates(problem, SgdMethod::kIbcd, n, 1, kTight) / descent / kSeeds;
      if (n != 50 || seed > 1) continue;
      LayOut(SgdLayout::kDealt, 1, problem);
      SgdOptions same =
          ExperimentOptions(problem, SgdMethod::kIbcd, 1, 1.0 / n, kTight);
      same.blocks = n;
      same_ratio = Updates(problem, same, 1e-8) / descent;
    }
    EXPECT_GE(ratio, 0.9) << n;
    EXPECT_LE(ratio, 1.1) << n;
    if (n == 50) {
      EXPECT_GE(same_ratio, 10);
    }
  }
}

// The printed step of Theorem 1 is a third of it on the expected gradient.
TEST(SgdExperiments, TheoremOnesStepCostsAFactorOfAboutThree) {
  const SgdProblem problem = QuadraticProblem(10, 100, 50, 7600);
  const double descent =
      Updates(problem, SgdMethod::kGradientDescent, 10, 10, kTheorem);
  const double printed = Updates(problem, SgdMethod::kIbcd, 10, 1, kTheorem);
  EXPECT_GT(printed / descent, 2.3);
  EXPECT_LT(printed / descent, 3.4);
}

// n tau below 1 costs, above 1 saves little by little.
TEST(SgdExperiments, MoreBlocksThanOneAWorkerHelpLessAndLess) {
  const SgdProblem problem = QuadraticProblem(20, 100, 50, 7600);
  double last = 1e9;
  for (double u : {0.5, 1.0, 2.0, 4.0}) {
    const double updates = Updates(problem, SgdMethod::kIbcd, 20, u, kTight);
    EXPECT_LT(updates, last);
    if (u > 0.5) {
      EXPECT_GT(updates, 0.55 * last);
    }
    last = updates;
  }
}

TEST(Accelerated, OneGradientAmongAllWorkersIsNotFree) {
  const int32_t n = 10;
  const SgdProblem problem = QuadraticProblem(n, 100, 20, 3);
  const auto updates = [&](double u) {
    SgdOptions options = ExperimentOptions(problem, SgdMethod::kAccelerated, n,
                                           u, SgdSchedule::kTight);
    options.strong_convexity = problem.convexity;
    options.max_updates = 2000;
    double growth = 0;
    const auto run = RunAccelerated(problem, options, 1e-6, {1, 2, 4}, &growth);
    EXPECT_TRUE(run.ok()) << run.status();
    return static_cast<double>(run->updates);
  };
  const double nesterov = updates(n);
  const double one = updates(1);
  EXPECT_GT(one, 2.5 * nesterov);
  EXPECT_LT(one, 8 * nesterov);
  EXPECT_LT(updates(4), 0.6 * one);
}

}  // namespace
}  // namespace coterie
