// The paper's experiments on real data at full size.

#include <cmath>
#include <cstdint>
#include <string>

#include "bench/sgd/experiments.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

constexpr auto kTheorem = SgdSchedule::kTheorem;
constexpr auto kTight = SgdSchedule::kTight;
constexpr double kGap = 1e-5;

SgdRun RunOf(const SgdProblem& problem, SgdMethod method, int32_t n, double u,
             SgdSchedule schedule) {
  const absl::StatusOr<SgdRun> run = RunToGap(
      problem, ExperimentOptions(problem, method, n, u, schedule), kGap);
  EXPECT_TRUE(run.ok()) << run.status();
  return *run;
}

void CheckIsega(SgdProblem& problem) {
  LayOut(SgdLayout::kDealt, 20, problem);
  constexpr auto kGd = SgdMethod::kGradientDescent;
  const double half =
      static_cast<double>(RunOf(problem, kGd, 20, 20, kTheorem).updates);
  const double whole =
      static_cast<double>(RunOf(problem, kGd, 20, 20, kTight).updates);
  EXPECT_NEAR(half / whole, 2, 0.02);
  for (int32_t n : {5, 20, 50, 100}) {
    LayOut(SgdLayout::kDealt, n, problem);
    for (double u : {0.5, 1.0, 2.0, 4.0}) {
      const SgdRun run = RunOf(problem, SgdMethod::kIsega, n, u, kTight);
      ASSERT_GE(run.updates, 0);
      const double updates = static_cast<double>(run.updates);
      // Fewer parameters than 2 n cannot be cut into as many blocks.
      const double law = whole * (1 + 1 / (n * run.share));
      const double slack = n == 100 && u < 1 ? 0.09 : 0.06;
      EXPECT_NEAR(updates / law, 1, slack) << n << " " << u;
      if (u != 1) continue;
      EXPECT_GE(updates / half, 0.95) << n;
      EXPECT_LE(updates / half, n == 100 ? 1.1 : 1.08) << n;
    }
  }
}

TEST(SgdExperimentsLong, IsegaIsFreeOnA1a) {
  absl::StatusOr<SgdProblem> problem = LogisticProblem("data/a1a.libsvm", 123);
  ASSERT_TRUE(problem.ok()) << problem.status();
  CheckIsega(*problem);
}

TEST(SgdExperimentsLong, IsegaIsFreeOnMushrooms) {
  absl::StatusOr<SgdProblem> problem =
      LogisticProblem("data/mushrooms.libsvm", 116);
  ASSERT_TRUE(problem.ok()) << problem.status();
  CheckIsega(*problem);
}

TEST(SgdExperimentsLong, PlainBlocksStallWhereIsegaDoesNot) {
  absl::StatusOr<SgdProblem> problem = LogisticProblem("data/a1a.libsvm", 123);
  ASSERT_TRUE(problem.ok()) << problem.status();
  for (SgdLayout layout : {SgdLayout::kDealt, SgdLayout::kSorted}) {
    for (int32_t n : {5, 20, 50}) {
      LayOut(layout, n, *problem);
      SgdOptions plain =
          ExperimentOptions(*problem, SgdMethod::kIbcd, n, 1, kTight);
      plain.max_updates = 6000;
      const absl::StatusOr<SgdRun> run = RunToGap(*problem, plain, kGap);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(run->updates, -1);
      EXPECT_GT(run->gap, 3e-4) << n;
      const SgdRun isega = RunOf(*problem, SgdMethod::kIsega, n, 1, kTight);
      EXPECT_GE(isega.updates, 0);
      EXPECT_LT(isega.updates, 6000);
    }
  }
}

TEST(SgdExperimentsLong, UplinkBytesShrinkAsClaimed) {
  absl::StatusOr<SgdProblem> problem = LogisticProblem("data/a1a.libsvm", 123);
  ASSERT_TRUE(problem.ok()) << problem.status();
  LayOut(SgdLayout::kDealt, 20, *problem);
  const auto bytes = [&](SgdMethod method, double u, SgdSchedule schedule) {
    const SgdRun run = RunOf(*problem, method, 20, u, schedule);
    EXPECT_GE(run.updates, 0);
    return static_cast<double>(run.bytes_up);
  };
  const double descent = bytes(SgdMethod::kGradientDescent, 20, kTheorem);
  EXPECT_LE(bytes(SgdMethod::kIsega, 1, kTight), 0.07 * descent);
  EXPECT_LE(bytes(SgdMethod::kEf21, 1, kTight), 0.02 * descent);
}

}  // namespace
}  // namespace coterie
