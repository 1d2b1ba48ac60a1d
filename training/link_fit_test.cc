#include "training/link_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "training/cost_model.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

uint64_t Seed() {
  const char* seed = std::getenv("SEED");
  return seed == nullptr ? 20240607 : std::strtoull(seed, nullptr, 10);
}

struct Noise {
  double relative = 0;  // normal, of the expected time
  double straggler_share = 0;
  double straggler_factor = 1;
};

// Transfers over a link that is known.
class Transfers {
 public:
  Transfers(LinkModel link, Noise noise, uint64_t seed)
      : link_(link), noise_(noise), random_(seed) {}

  LinkModel& link() { return link_; }

  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }

  TransferObservation Of(int64_t messages, int64_t bytes) {
    double seconds = *TransferSeconds(link_, messages, bytes);
    seconds *= std::max(0.0, 1 + noise_.relative * normal_(random_));
    if (Uniform(0, 1) < noise_.straggler_share) {
      seconds *= noise_.straggler_factor;
    }
    return {messages, bytes, seconds};
  }

  // 1 or 2 messages with 1 byte to 4 MB each, uniform in the logarithm.
  TransferObservation Any() {
    const int64_t messages = Uniform(0, 1) < 0.5 ? 1 : 2;
    const double size = std::exp(Uniform(0, std::log(4e6)));
    return Of(messages, messages * static_cast<int64_t>(size));
  }

 private:
  LinkModel link_;
  Noise noise_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

void AddAll(LinkFit& fit, const std::vector<TransferObservation>& all) {
  for (const TransferObservation& one : all) {
    const absl::Status status = fit.Add(one);
    ASSERT_TRUE(status.ok()) << status;
  }
}

LinkEstimate EstimateOf(const std::vector<TransferObservation>& all) {
  LinkFit fit;
  AddAll(fit, all);
  absl::StatusOr<LinkEstimate> estimate = fit.Estimate();
  EXPECT_TRUE(estimate.ok()) << estimate.status();
  return estimate.ok() ? *estimate : LinkEstimate();
}

std::vector<TransferObservation> Many(Transfers& transfers, int n) {
  std::vector<TransferObservation> all;
  all.reserve(n);
  for (int i = 0; i < n; ++i) all.push_back(transfers.Any());
  return all;
}

// The links of the recovery tests: in one rack, between zones, over loopback.
const LinkModel kLinks[] = {{2e-4, 1e9}, {5e-3, 1e8}, {5e-5, 3e9}};

void ExpectRecovers(const LinkEstimate& got, const LinkModel& truth,
                    double tolerance) {
  EXPECT_EQ(got.knowledge, LinkKnowledge::kAlphaAndBeta);
  EXPECT_NEAR(got.model.alpha_seconds / truth.alpha_seconds, 1, tolerance);
  EXPECT_NEAR(got.model.beta_bytes_per_second / truth.beta_bytes_per_second, 1,
              tolerance);
}

TEST(LinkFit, RecoversANoiselessLinkToTwelveDigits) {
  for (const LinkModel& link : kLinks) {
    Transfers transfers(link, {}, Seed());
    ExpectRecovers(EstimateOf(Many(transfers, 300)), link, 1e-12);
  }
}

TEST(LinkFit, TwoExactObservationsAreEnough) {
  const LinkEstimate got =
      EstimateOf({{1, 40'000'000, 0.042}, {40, 40'000'000, 0.12}});
  ExpectRecovers(got, {0.002, 1e9}, 1e-12);
  // But say nothing of their own accuracy.
  EXPECT_EQ(got.alpha_standard_error, kInfinity);
  EXPECT_EQ(got.beta_standard_error, kInfinity);
  EXPECT_EQ(got.relative_noise, kInfinity);
}

// Errors of many runs relative to the truth.
struct Errors {
  double alpha_bias = 0, beta_bias = 0;
  double alpha_rms = 0, beta_rms = 0;
  double outliers = 0, noise = 0;
  double worst = 0;
};

template <typename Check>
Errors RunMany(const LinkModel& link, const Noise& noise, const Check& check) {
  constexpr int kRuns = 60;
  Errors sum;
  for (int run = 0; run < kRuns; ++run) {
    Transfers transfers(link, noise, Seed() * 1000 + run);
    const std::vector<TransferObservation> all = Many(transfers, 500);
    const LinkEstimate got = EstimateOf(all);
    EXPECT_EQ(got.knowledge, LinkKnowledge::kAlphaAndBeta);
    const double a = got.model.alpha_seconds / link.alpha_seconds - 1;
    const double b =
        got.model.beta_bytes_per_second / link.beta_bytes_per_second - 1;
    sum.alpha_bias += a / kRuns, sum.beta_bias += b / kRuns;
    sum.alpha_rms += a * a / kRuns, sum.beta_rms += b * b / kRuns;
    sum.outliers += got.outlier_fraction / kRuns;
    sum.noise += got.relative_noise / kRuns;
    sum.worst = std::max({sum.worst, std::abs(a), std::abs(b)});
    check(all);
  }
  sum.alpha_rms = std::sqrt(sum.alpha_rms);
  sum.beta_rms = std::sqrt(sum.beta_rms);
  return sum;
}

TEST(LinkFit, RecoversWithinThreePercentRmsUnderFivePercentNoise) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  for (const LinkModel& link : kLinks) {
    const Errors errors =
        RunMany(link, {0.05}, [](const std::vector<TransferObservation>&) {});
    EXPECT_LT(errors.alpha_rms, 0.015);
    EXPECT_LT(errors.beta_rms, 0.03);
    EXPECT_LT(errors.worst, 0.1);
    EXPECT_LT(std::abs(errors.alpha_bias), 0.005);
    EXPECT_LT(std::abs(errors.beta_bias), 0.015);
    EXPECT_NEAR(errors.noise, 0.05, 0.005);
    EXPECT_LT(errors.outliers, 0.02);
  }
}

// The same rows by plain least squares on relative errors with the true scale:
// what the robust fit has to beat.
double PlainAlpha(const std::vector<TransferObservation>& all,
                  const LinkModel& truth) {
  double aa = 0, ab = 0, bb = 0, ay = 0, by = 0;
  for (const TransferObservation& one : all) {
    const double s = *TransferSeconds(truth, one.messages, one.bytes);
    const double a = one.messages / s, b = one.bytes / s, y = one.seconds / s;
    aa += a * a, ab += a * b, bb += b * b, ay += a * y, by += b * y;
  }
  return (ay * bb - by * ab) / (aa * bb - ab * ab);
}

TEST(LinkFit, OneStragglerInTenBiasesItByOnePercent) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  for (const LinkModel& link : kLinks) {
    for (double factor : {10.0, 1000.0}) {
      const Errors errors = RunMany(
          link, {0.05, 0.1, factor},
          [&link](const std::vector<TransferObservation>& all) {
            // Without robustness the latency is off by more than a third.
            EXPECT_GT(std::abs(PlainAlpha(all, link) / link.alpha_seconds - 1),
                      0.33);
          });
      EXPECT_NEAR(errors.alpha_bias, 0.01, 0.01);
      EXPECT_NEAR(errors.beta_bias, -0.01, 0.02);
      EXPECT_LT(errors.alpha_rms, 0.025);
      EXPECT_LT(errors.beta_rms, 0.05);
      EXPECT_LT(errors.worst, 0.2);
      EXPECT_NEAR(errors.outliers, 0.1, 0.02);
    }
  }
}

TEST(LinkFit, HowLateAStragglerIsHardlyMatters) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Transfers transfers(kLinks[0], {0.05}, Seed());
  std::vector<TransferObservation> all = Many(transfers, 200);
  std::vector<TransferObservation> later = all;
  for (size_t i = 0; i < all.size(); i += 20) {
    all[i].seconds *= 10;
    later[i].seconds *= 1e6;
  }
  const LinkModel a = EstimateOf(all).model;
  const LinkModel b = EstimateOf(later).model;
  EXPECT_NEAR(a.alpha_seconds / b.alpha_seconds, 1, 1e-3);
  EXPECT_NEAR(a.beta_bytes_per_second / b.beta_bytes_per_second, 1, 1e-3);
}

TEST(LinkFit, StandardErrorsAreTheSpreadOfTheEstimates) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  const LinkModel link = {1e-3, 1e9};
  constexpr int kRuns = 300;
  double alpha = 0, beta = 0, mean = 0;
  for (int run = 0; run < kRuns; ++run) {
    Transfers transfers(link, {0.05}, Seed() + run);
    const LinkEstimate got = EstimateOf(Many(transfers, 150));
    const double za = (got.model.alpha_seconds - link.alpha_seconds) /
                      got.alpha_standard_error;
    const double zb =
        (got.model.beta_bytes_per_second - link.beta_bytes_per_second) /
        got.beta_standard_error;
    const double zm = (got.seconds_per_message - link.alpha_seconds -
                       got.bytes_per_message / link.beta_bytes_per_second) /
                      got.seconds_standard_error;
    alpha += za * za, beta += zb * zb, mean += zm * zm;
  }
  for (double sum : {alpha, beta, mean}) {
    EXPECT_NEAR(std::sqrt(sum / kRuns), 1, 0.25);
  }
}

// --- Sizes that tell too little
// ------------------------------------------------

TEST(LinkFit, ConstantSizesGiveOnlyTheMeanAndSaySo) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Transfers transfers({0.001, 1e8}, {0.05}, Seed());
  std::vector<TransferObservation> all;
  for (int i = 0; i < 100; ++i) {
    const int64_t messages = 1 + i % 3;
    all.push_back(transfers.Of(messages, messages * 100'000));
  }
  const LinkEstimate got = EstimateOf(all);
  EXPECT_EQ(got.knowledge, LinkKnowledge::kMeanOnly);
  EXPECT_EQ(LinkKnowledgeName(got.knowledge), "MEAN_ONLY");
  EXPECT_DOUBLE_EQ(got.bytes_per_message, 100'000);
  EXPECT_NEAR(got.seconds_per_message, 0.002, 0.02 * 0.002);
  EXPECT_GT(got.seconds_standard_error, 0);
  EXPECT_LT(got.seconds_standard_error, 0.02 * 0.002);
  EXPECT_EQ(got.alpha_standard_error, kInfinity);
  EXPECT_EQ(got.beta_standard_error, kInfinity);
  // The model gives the mean back at the size seen.
  EXPECT_DOUBLE_EQ(*TransferSeconds(got.model, 1, 100'000),
                   got.seconds_per_message);
}

TEST(LinkFit, MeanOnlyPredictsNoSizeBelowHalfOfAnySplit) {
  const LinkEstimate got = EstimateOf({{1, 1000, 0.004}, {1, 1000, 0.004}});
  for (double latency_share : {0.0, 0.2, 0.5, 0.9, 1.0}) {
    const double alpha = 0.004 * latency_share;
    for (int64_t bytes : {0, 1, 100, 500, 1000, 2000, 1'000'000}) {
      const double truth = alpha + (0.004 - alpha) * bytes / 1000;
      const double predicted = *TransferSeconds(got.model, 1, bytes);
      EXPECT_GE(predicted, truth / 2 * (1 - 1e-12));
      if (bytes >= 500 && bytes <= 2000) {
        EXPECT_LE(predicted, truth * 1.5 * (1 + 1e-12));
      }
    }
  }
}

TEST(LinkFit, EmptyMessagesAreAllLatency) {
  const LinkEstimate got = EstimateOf({{1, 0, 0.003}, {2, 0, 0.006}});
  EXPECT_EQ(got.knowledge, LinkKnowledge::kMeanOnly);
  EXPECT_DOUBLE_EQ(got.model.alpha_seconds, 0.003);
  EXPECT_EQ(got.model.beta_bytes_per_second, kInfinity);
}

TEST(LinkFit, SizesWithinOnePercentDoNotPretendToTellLatencyApart) {
  EXPECT_EQ(
      EstimateOf({{1, 10'000, 1}, {1, 10'090, 2}, {1, 10'050, 1}}).knowledge,
      LinkKnowledge::kMeanOnly);
  EXPECT_EQ(
      EstimateOf({{1, 10'000, 1}, {1, 10'110, 2}, {1, 10'050, 1}}).knowledge,
      LinkKnowledge::kAlphaAndBeta);
}

TEST(LinkFit, OneObservationIsTheMean) {
  const LinkEstimate got = EstimateOf({{2, 500, 0.5}});
  EXPECT_EQ(got.knowledge, LinkKnowledge::kMeanOnly);
  EXPECT_DOUBLE_EQ(got.seconds_per_message, 0.25);
  EXPECT_EQ(got.seconds_standard_error, kInfinity);
}

TEST(LinkFit, ZeroTimesAreAFreeLink) {
  const LinkEstimate got =
      EstimateOf({{1, 10, 0}, {1, 1000, 0}, {1, 0, 0}, {2, 50, 0}});
  EXPECT_EQ(got.model.alpha_seconds, 0);
  EXPECT_EQ(got.model.beta_bytes_per_second, kInfinity);
  EXPECT_EQ(*TransferSeconds(got.model, 5, 1 << 20), 0);
}

TEST(LinkFit, OneZeroTimeInFiveAreOutliers) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  for (const LinkModel& link : kLinks) {
    Transfers transfers(link, {0.05}, Seed());
    std::vector<TransferObservation> all = Many(transfers, 300);
    for (size_t i = 0; i < all.size(); i += 5) all[i].seconds = 0;
    ExpectRecovers(EstimateOf(all), link, 0.2);
  }
}

// --- Bounds
// --------------------------------------------------------------------

TEST(LinkFit, LatencyIsNeverNegative) {
  // A line through these would have alpha = -1.
  const LinkEstimate got = EstimateOf({{1, 100, 1}, {1, 200, 3}, {1, 300, 5}});
  EXPECT_EQ(got.knowledge, LinkKnowledge::kAlphaAndBeta);
  EXPECT_EQ(got.model.alpha_seconds, 0);
  EXPECT_GT(got.model.beta_bytes_per_second, 0);
  EXPECT_LT(got.model.beta_bytes_per_second, kInfinity);
}

TEST(LinkFit, BandwidthIsNeverNegative) {
  const LinkEstimate got =
      EstimateOf({{1, 100, 5}, {1, 200, 4.5}, {1, 300, 4}});
  EXPECT_EQ(got.model.beta_bytes_per_second, kInfinity);
  EXPECT_NEAR(got.model.alpha_seconds, 4.5, 0.2);
  EXPECT_EQ(got.beta_standard_error, kInfinity);
}

TEST(LinkFit, ACostOfMinusZeroIsNotANegativeBandwidth) {
  const int64_t many = std::numeric_limits<int64_t>::max();
  const LinkEstimate got =
      EstimateOf({{many, 7, 1e-300}, {2, 1'000'000'000'000, 0}});
  EXPECT_EQ(got.model.beta_bytes_per_second, kInfinity);
}

TEST(LinkFit, AnyObservationsGiveAValidModel) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  std::mt19937_64 random(Seed());
  const auto pick = [&random](const std::vector<double>& from) {
    return from[random() % from.size()];
  };
  for (int round = 0; round < 10'000; ++round) {
    LinkFit fit;
    const int n = 1 + random() % 12;
    for (int i = 0; i < n; ++i) {
      TransferObservation one;
      one.messages = random() % 8 == 0 ? std::numeric_limits<int64_t>::max()
                                       : 1 + random() % 3;
      one.bytes = static_cast<int64_t>(pick({0, 1, 7, 1e3, 1e6, 1e12, 9e18}));
      one.seconds =
          pick({0, 1e-300, 1e-9, 1e-7, 1e-4, 1, 1e9}) * pick({1, 0.5, 0.9});
      ASSERT_TRUE(fit.Add(one).ok());
    }
    const LinkEstimate got = *fit.Estimate();
    EXPECT_TRUE(ValidateLinkModel(got.model).ok())
        << round << ": " << ValidateLinkModel(got.model);
    for (double value : {got.alpha_standard_error, got.beta_standard_error,
                         got.seconds_standard_error, got.relative_noise,
                         got.seconds_per_message, got.bytes_per_message}) {
      EXPECT_GE(value, 0) << round;  // and so not NaN
    }
    EXPECT_GE(got.outlier_fraction, 0);
    EXPECT_LE(got.outlier_fraction, 1);
  }
}

TEST(LinkFit, TimesInUnitsTwiceAsLongGiveTwiceTheCosts) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Transfers transfers(kLinks[1], {0.1, 0.05, 20}, Seed());
  std::vector<TransferObservation> all = Many(transfers, 200);
  const LinkEstimate once = EstimateOf(all);
  for (TransferObservation& one : all) one.seconds *= 2;
  const LinkEstimate twice = EstimateOf(all);
  // Powers of two are exact.
  EXPECT_EQ(twice.model.alpha_seconds, 2 * once.model.alpha_seconds);
  EXPECT_EQ(twice.model.beta_bytes_per_second,
            once.model.beta_bytes_per_second / 2);
  EXPECT_EQ(twice.relative_noise, once.relative_noise);
}

// --- Forgetting
// ------------------------------------------------------------------

TEST(LinkFit, FollowsALinkThatBecomesTenTimesSlower) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Transfers transfers({1e-3, 1e9}, {0.05}, Seed());
  LinkFit fit;
  const auto two_sizes = [&transfers](int i) {
    return transfers.Of(2, i % 2 == 0 ? 1'000 : 2'000'000);
  };
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(fit.Add(two_sizes(i)).ok());
  ExpectRecovers(*fit.Estimate(), {1e-3, 1e9}, 0.05);
  transfers.link() = {1e-2, 1e8};
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(fit.Add(two_sizes(i)).ok());
  ExpectRecovers(*fit.Estimate(), {1e-2, 1e8}, 0.15);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(fit.Add(two_sizes(i)).ok());
  ExpectRecovers(*fit.Estimate(), {1e-2, 1e8}, 0.05);
  transfers.link() = {1e-3, 1e9};
  for (int i = 0; i < 128; ++i) ASSERT_TRUE(fit.Add(two_sizes(i)).ok());
  ExpectRecovers(*fit.Estimate(), {1e-3, 1e9}, 0.05);
}

TEST(LinkFit, LongConstantTrafficKeepsTheSplitThatOtherSizesTold) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Transfers transfers({1e-3, 1e9}, {0.02}, Seed());
  LinkFit fit;
  AddAll(fit, Many(transfers, 300));
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_TRUE(fit.Add(transfers.Of(2, 52'000)).ok());
  }
  const LinkEstimate got = *fit.Estimate();
  ExpectRecovers(got, {1e-3, 1e9}, 0.1);
  EXPECT_EQ(got.observations_seen, 100'300);
  EXPECT_LE(got.observations_kept, 300 + LinkFit::kKeptPerClass);
}

TEST(LinkFit, OldSizesDoNotDisturbWhatNewOnesSay) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Transfers transfers({1e-3, 1e9}, {0.02}, Seed());
  LinkFit fit;
  AddAll(fit, Many(transfers, 300));
  transfers.link() = {3e-3, 5e8};
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(fit.Add(transfers.Of(1, 52'000)).ok());
  }
  // Only the time of this size is known anew, and it is met.
  EXPECT_NEAR(*TransferSeconds(fit.Estimate()->model, 1, 52'000) /
                  *TransferSeconds(transfers.link(), 1, 52'000),
              1, 0.03);
}

TEST(LinkFit, EffectiveObservationsFollowTheForgetting) {
  absl::StatusOr<LinkFit> none = LinkFit::Create(1);
  ASSERT_TRUE(none.ok());
  absl::StatusOr<LinkFit> half = LinkFit::Create(0.5);
  ASSERT_TRUE(half.ok());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(none->Add({1, i * 1000, 1.0 + i}).ok());
    ASSERT_TRUE(half->Add({1, i * 1000, 1.0 + i}).ok());
  }
  EXPECT_DOUBLE_EQ(none->Estimate()->effective_observations, 40);
  // (1 / (1 - f))^2 (1 - f^2) = (1 + f) / (1 - f).
  EXPECT_NEAR(half->Estimate()->effective_observations, 3, 1e-3);
}

TEST(LinkFit, KeepsTheLatestOfEachSizeClass) {
  absl::StatusOr<LinkFit> fit = LinkFit::Create(1);
  ASSERT_TRUE(fit.ok());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(fit->Add({1, 100, i < 936 ? 7.0 : 0.5}).ok());
  }
  EXPECT_EQ(fit->Estimate()->observations_kept, 64);
  EXPECT_DOUBLE_EQ(fit->Estimate()->seconds_per_message, 0.5);
}

// --- Errors
// --------------------------------------------------------------------

TEST(LinkFit, WithoutObservationsThereIsNoEstimate) {
  EXPECT_EQ(LinkFit().Estimate().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(LinkFit, BadObservationsAreNamedAndLeaveItAsItWas) {
  LinkFit fit;
  const auto expect = [&fit](TransferObservation one, const char* part) {
    const absl::Status status = fit.Add(one);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  };
  expect({0, 1, 1}, "messages is 0");
  expect({1, -1, 1}, "bytes is -1");
  expect({1, 1, -0.5}, "seconds is -0.5");
  expect({1, 1, std::nan("")}, "seconds is nan");
  expect({1, 1, kInfinity}, "seconds is inf");
  expect({1, 1, 1.1e9}, "seconds is 1.1e+09");
  EXPECT_FALSE(fit.Estimate().ok());
}

TEST(LinkFit, ForgettingMustBeInRange) {
  for (double bad : {0.0, -0.1, 1.1, std::nan("")}) {
    const absl::Status status = LinkFit::Create(bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace coterie
