#include "training/sgd_options.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "training/sgd_compress.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr SgdCompressor kAllCompressors[] = {
    SgdCompressor::kNone,      SgdCompressor::kRandomBlock,
    SgdCompressor::kPermBlock, SgdCompressor::kWholeOrNothing,
    SgdCompressor::kTopK,      SgdCompressor::kQsgd,
    SgdCompressor::kFp16,      SgdCompressor::kBf16};

SgdOptions Options(SgdMethod method, int32_t workers, int64_t batch = 0) {
  SgdOptions options;
  options.model.kind = SgdModelKind::kLogistic;
  options.model.dimension = 100;
  options.model.l2 = 0.01;
  options.workers = workers;
  options.smoothness = 2;
  options.batch = batch;
  return SgdPreset(method, options);
}

SgdPlan PlanOf(SgdOptions options, SgdSchedule schedule) {
  options.schedule = schedule;
  EXPECT_TRUE(ValidateSgdOptions(options).ok()) << ValidateSgdOptions(options);
  const std::vector<int64_t> rows(static_cast<size_t>(options.workers), 30);
  const auto plan = PlanSgd(options, rows, 1);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(SgdOptions, StepsAreThoseOfTheTheorems) {
  const auto step = [](const SgdOptions& o, SgdSchedule s) {
    return PlanOf(o, s).step;
  };
  constexpr auto kTheorem = SgdSchedule::kTheorem;
  constexpr auto kTight = SgdSchedule::kTight;
  const double L = 2, n = 20, tau = 0.05;
  SgdOptions o = Options(SgdMethod::kGradientDescent, 20);
  EXPECT_DOUBLE_EQ(step(o, kTheorem), 1 / (2 * L));
  EXPECT_DOUBLE_EQ(step(o, kTight), 1 / L);
  o = Options(SgdMethod::kIbcd, 20);
  EXPECT_DOUBLE_EQ(step(o, kTheorem), n / (tau * n + 2 * (1 - tau)) / (2 * L));
  EXPECT_DOUBLE_EQ(step(o, kTight), n / (L * (tau * n + 1 - tau)));
  // On the expected gradient about a third, and the whole, of 1/(2L).
  EXPECT_NEAR(PlanOf(o, kTheorem).step_tau * 6 * L, 1, 0.05);
  EXPECT_NEAR(PlanOf(o, kTight).step_tau * 2 * L, 1, 0.05);
  EXPECT_DOUBLE_EQ(step(Options(SgdMethod::kIbgd, 20), kTheorem),
                   step(o, kTheorem));
  o = Options(SgdMethod::kIsega, 20);
  EXPECT_DOUBLE_EQ(step(o, kTight), 1 / (2 * L));
  EXPECT_DOUBLE_EQ(step(o, kTheorem), 1 / (8 * L));
  o = Options(SgdMethod::kIsaga, 20, 1);
  EXPECT_DOUBLE_EQ(step(o, kTheorem), n / (4 * L));
  o = Options(SgdMethod::kAsynchronousProximal, 20);
  EXPECT_DOUBLE_EQ(step(o, kTheorem), 1 / (2 * L * (tau + 2 / n)));
  o = Options(SgdMethod::kAccelerated, 20);
  o.strong_growth = 4;
  EXPECT_DOUBLE_EQ(step(o, kTight), 1 / (4 * L));
  o = Options(SgdMethod::kIsgd, 20, 3);
  const SgdPlan plan = PlanOf(o, SgdSchedule::kTheoremInverse);
  o.schedule = SgdSchedule::kTheoremInverse;
  const double a = 2 * (tau + 2 * (1 - tau) / n) * L, c = 0.01 * tau / 4;
  EXPECT_DOUBLE_EQ(SgdStepSize(o, plan, 7), 1 / (a + 7 * c));
  o = Options(SgdMethod::kEf21, 20);
  o.top_k = 100;
  EXPECT_NEAR(step(o, kTheorem), 1 / L, 1e-12);
  o.top_k = 1;
  EXPECT_LT(step(o, kTheorem), 0.01 / L);
}

TEST(SgdOptions, BlocksMeetTheFractionAsNearlyAsTheyCan) {
  for (int32_t n : {5, 20, 50, 100}) {
    SgdOptions o = Options(SgdMethod::kIsega, n);
    o.model.dimension = 123;
    EXPECT_DOUBLE_EQ(SgdCompressionOf(SgdTaskOf(o)).share, 1.0 / n) << n;
    for (double u : {2.0, 4.0}) {
      o.block_fraction = u / n;
      EXPECT_DOUBLE_EQ(SgdCompressionOf(SgdTaskOf(o)).share, u / n) << n;
    }
    o.block_fraction = 0.5 / n;
    EXPECT_NEAR(SgdCompressionOf(SgdTaskOf(o)).share * n,
                n == 100 ? 100.0 / 123 : 0.5, 1e-9);
  }
}

TEST(SgdOptions, UnequalWorkersCountAsFewer) {
  SgdOptions o = Options(SgdMethod::kIsega, 4);
  const auto plan = PlanSgd(o, {40, 20, 10, 10}, 1);
  EXPECT_DOUBLE_EQ(plan->workers, 2);
  EXPECT_DOUBLE_EQ(plan->step, 1 / (2.0 * (1 + 1 / (2 * 0.25))));
}

TEST(SgdOptions, AWorkerCountThatChangesTheBatchWarns) {
  SgdOptions o = Options(SgdMethod::kSgd, 8, 64);
  const std::vector<int64_t> rows(8, 1000);
  auto plan = PlanSgd(o, rows, 1);
  EXPECT_EQ(plan->global_batch, 512);
  EXPECT_TRUE(plan->warnings.empty());
  o.expected_global_batch = 256;
  plan = PlanSgd(o, rows, 1);
  ASSERT_EQ(plan->warnings.size(), 1);
  EXPECT_THAT(plan->warnings[0],
              HasSubstr("8 workers x batch 64 = 512 rows an update, not the "
                        "256 stated"));
}

TEST(SgdOptions, PlainBlocksWarn) {
  EXPECT_THAT(
      PlanOf(Options(SgdMethod::kIbcd, 5), SgdSchedule::kTight).warnings,
      testing::ElementsAre(HasSubstr("stall")));
  EXPECT_TRUE(PlanOf(Options(SgdMethod::kIsega, 5), SgdSchedule::kTight)
                  .warnings.empty());
}

TEST(SgdOptions, UnsoundCombinationsAreRefusedWithTheReason) {
  const auto why = [](const SgdOptions& o) {
    return std::string(ValidateSgdOptions(o).message());
  };
  SgdOptions o = Options(SgdMethod::kEf21, 5);
  EXPECT_EQ(why(o), "");
  o.feedback = SgdFeedback::kPlain;
  EXPECT_THAT(why(o), HasSubstr("top-k without feedback"));
  o.feedback = SgdFeedback::kShift;
  EXPECT_THAT(why(o), HasSubstr("biased"));
  o = Options(SgdMethod::kEf21, 5);
  o.compressor = SgdCompressor::kQsgd;
  EXPECT_THAT(why(o), HasSubstr("EF21 with qsgd"));
  o = Options(SgdMethod::kEf21, 5, 3);
  o.estimator = SgdEstimator::kMiniBatch;
  EXPECT_THAT(why(o), HasSubstr("EF21 with mini-batches"));
  o = Options(SgdMethod::kIsaga, 5, 1);
  o.compressor = SgdCompressor::kQsgd;
  EXPECT_THAT(why(o), HasSubstr("SAGA needs"));
  o = Options(SgdMethod::kIsaga, 5, 1);
  o.model.kind = SgdModelKind::kSoftmax;
  o.model.classes = 3;
  EXPECT_THAT(why(o), HasSubstr("SAGA with softmax"));
  o = Options(SgdMethod::kIbcd, 5);
  o.model.l1 = 0.1;
  EXPECT_THAT(why(o), HasSubstr("plain blocks with l1"));
  o = Options(SgdMethod::kIbcd, 5);
  o.mode = SgdMode::kAsynchronous;
  EXPECT_THAT(why(o), HasSubstr("table rule needs"));
  o = Options(SgdMethod::kGradientDescent, 5);
  o.batch = 3;
  EXPECT_THAT(why(o), HasSubstr("batch is 3"));
  o = Options(SgdMethod::kGradientDescent, 5);
  o.schedule = SgdSchedule::kConstant;
  EXPECT_THAT(why(o), HasSubstr("step is 0"));
  o = Options(SgdMethod::kIsega, 5);
  o.block_fraction = 1.5;
  EXPECT_THAT(why(o), HasSubstr("block fraction is 1.5"));
  o = Options(SgdMethod::kIsega, 0);
  EXPECT_THAT(why(o), HasSubstr("num_workers is 0"));
}

// How many of estimator x compressor x feedback x {plain, accelerated} are
// sound: synchronous ones.
TEST(SgdOptions, TheSoundCombinationsAreThese) {
  int sound = 0, refused = 0;
  for (SgdEstimator e : {SgdEstimator::kFull, SgdEstimator::kMiniBatch,
                         SgdEstimator::kSaga, SgdEstimator::kSagaShared}) {
    for (SgdCompressor c : kAllCompressors) {
      for (SgdFeedback f :
           {SgdFeedback::kPlain, SgdFeedback::kShift, SgdFeedback::kEf21}) {
        for (bool accelerated : {false, true}) {
          SgdOptions o = Options(SgdMethod::kGradientDescent, 5);
          o.estimator = e;
          o.batch = e == SgdEstimator::kFull ? 0 : 2;
          o.compressor = c;
          o.feedback = f;
          o.accelerated = accelerated;
          const absl::Status status = ValidateSgdOptions(o);
          if (status.ok()) {
            ++sound;
            EXPECT_GT(PlanOf(o, SgdSchedule::kTight).step, 0);
            EXPECT_LE(PlanOf(o, SgdSchedule::kTheorem).step,
                      PlanOf(o, SgdSchedule::kTight).step * (1 + 1e-12));
          } else {
            ++refused;
            EXPECT_GT(status.message().size(), 20);
          }
        }
      }
    }
  }
  EXPECT_EQ(sound, 41);
  EXPECT_EQ(refused, 192 - 41);
}

// The others: every mode that does not wait for all, rule, compressor and
// feedback, with full gradients and mini-batches.
TEST(SgdOptions, EveryModeTakesWhatItsRuleAllowsAndNamesTheReasonElse) {
  for (SgdMode mode : {SgdMode::kBackup, SgdMode::kBoundedStaleness,
                       SgdMode::kAsynchronous, SgdMode::kBuffered}) {
    for (SgdAsyncRule rule :
         {SgdAsyncRule::kTable, SgdAsyncRule::kDelayAdaptive,
          SgdAsyncRule::kStalenessScaled, SgdAsyncRule::kConstant,
          SgdAsyncRule::kProximal}) {
      int sound = 0;
      for (SgdCompressor c : kAllCompressors) {
        for (SgdFeedback f :
             {SgdFeedback::kPlain, SgdFeedback::kShift, SgdFeedback::kEf21}) {
          for (int64_t batch : {0, 2}) {
            SgdOptions o = Options(SgdMethod::kGradientDescent, 5);
            o.estimator =
                batch == 0 ? SgdEstimator::kFull : SgdEstimator::kMiniBatch;
            o.batch = batch;
            o.compressor = c;
            o.feedback = f;
            o.mode = mode;
            o.rule = rule;
            const absl::Status status = ValidateSgdOptions(o);
            if (!status.ok()) {
              EXPECT_GT(status.message().size(), 20);
              continue;
            }
            ++sound;
            EXPECT_GT(PlanOf(o, SgdSchedule::kTheorem).step, 0);
            // Estimates need every worker's newest answer.
            EXPECT_TRUE(f == SgdFeedback::kPlain || mode == SgdMode::kBackup ||
                        rule == SgdAsyncRule::kTable);
          }
        }
      }
      // Backup: all synchronous ones but SAGA and momentum. Else, without dealt
      // blocks, full and batch: six plain ones each; in the table three shifts
      // each and six of EF21; proximal ones send all or random blocks.
      const bool proximal = rule == SgdAsyncRule::kProximal;
      const int expected = proximal ? (mode == SgdMode::kAsynchronous ? 4 : 0)
                           : mode == SgdMode::kBackup ? 29
                                                      : 12;
      EXPECT_EQ(sound, expected)
          << static_cast<int>(mode) << ", " << static_cast<int>(rule);
    }
  }
}

}  // namespace
}  // namespace coterie
