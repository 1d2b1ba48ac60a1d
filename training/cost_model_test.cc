#include "training/cost_model.h"

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

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

uint64_t Seed() {
  const char* seed = std::getenv("SEED");
  return seed == nullptr ? 20240607 : std::strtoull(seed, nullptr, 10);
}

template <typename T>
void ExpectError(const absl::StatusOr<T>& result, absl::StatusCode code,
                 const std::string& part) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(part));
}

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kRange = absl::StatusCode::kOutOfRange;

// --- Numbers worked out by hand ---------------------------------------------

TEST(TransferSeconds, FortyMegabytesInOneMessageTake42Milliseconds) {
  EXPECT_DOUBLE_EQ(*TransferSeconds({0.002, 1e9}, 1, 40'000'000), 0.042);
}

TEST(TransferSeconds, FortyMessagesOfOneMegabyteTake120Milliseconds) {
  const LinkModel link = {0.002, 1e9};
  const double many = *TransferSeconds(link, 40, 40'000'000);
  EXPECT_DOUBLE_EQ(many, 0.12);
  // "Nearly triples".
  EXPECT_NEAR(many / *TransferSeconds(link, 1, 40'000'000), 2.857, 0.001);
}

TEST(TransferSeconds, HundredMegabytesAtTwoGigabytesASecondTake55Milliseconds) {
  EXPECT_DOUBLE_EQ(*TransferSeconds({0.005, 2e9}, 1, 100'000'000), 0.055);
}

TEST(KMeansBytes, HundredCentroidsOf64FloatsSend26000BytesUp) {
  EXPECT_EQ(*KMeansUplinkBytes(100, 64, 4), 26'000);
  EXPECT_EQ(*KMeansDownlinkBytes(100, 64, 4), 25'600);
}

TEST(KMeansBytes, SixteenWorkersSend416000BytesUp) {
  const StarTraffic traffic = *StarTotals(16, 25'600, 26'000);
  EXPECT_EQ(traffic.bytes_up, 416'000);
  EXPECT_EQ(traffic.bytes_down, 409'600);
  EXPECT_EQ(traffic.messages, 32);
}

TEST(KMeansBytes, FiftyCentroidsOf32FloatsSend6600BytesUp) {
  EXPECT_EQ(*KMeansUplinkBytes(50, 32, 4), 6'600);
}

TEST(KMeansBytes, DoNotDependOnRowsButDoubleWithInt64Sums) {
  // k = 1000, d = 128: 0.52 MB as float32, 1.03 MB as int64.
  EXPECT_EQ(*KMeansUplinkBytes(1000, 128, 4), 516'000);
  EXPECT_EQ(*KMeansUplinkBytes(1000, 128, 8), 1'032'000);
}

TEST(GlobalBatchSize, IsWorkersTimesLocalBatch) {
  EXPECT_EQ(*GlobalBatchSize(8, 128), 1'024);
  EXPECT_EQ(*GlobalBatchSize(8, 64), 512);
}

TEST(Ratios, EightyToTwentyIsFourAndTwentyPercent) {
  EXPECT_DOUBLE_EQ(*ComputeToCommunicationRatio(0.080, 0.020), 4);
  EXPECT_DOUBLE_EQ(*CommunicationFraction(0.080, 0.020), 0.2);
}

TEST(SearchCandidates, AreShardsTimesK) {
  EXPECT_EQ(*SearchCandidates(16, 10), 160);
  EXPECT_EQ(*SearchCandidateBytes(16, 10), 2'560);
  EXPECT_EQ(*SearchCandidateBytes(16, 10, 12), 1'920);
}

TEST(ActivationBytes, CrossoverWithGradientsOfA784x256x10Network) {
  // 784*256 + 256 + 256*10 + 10 parameters, cut at the 256 hidden units.
  const int64_t parameters = 784 * 256 + 256 + 256 * 10 + 10;
  EXPECT_EQ(2 * *SgdGradientBytes(parameters, 4), 1'628'240);
  EXPECT_EQ(2 * *ActivationBytes(64, 256), 131'072);
  // Activations are the smaller surface up to a batch of 795.
  EXPECT_LT(*ActivationBytes(795, 256), *SgdGradientBytes(parameters, 4));
  EXPECT_GT(*ActivationBytes(796, 256), *SgdGradientBytes(parameters, 4));
}

TEST(BlockSparsifiedBytes, OneBlockOfTwentyIsATwentieth) {
  EXPECT_EQ(*BlockSparsifiedBytes(1000, 20, 1, 4, 0), 200);
  EXPECT_EQ(*BlockSparsifiedBytes(1000, 20, 1, 4, 8), 208);
  EXPECT_EQ(*BlockSparsifiedBytes(1000, 20, 0, 4, 8), 0);
}

TEST(BlockSparsifiedBytes, AllBlocksAreTheGradientAndTheIds) {
  for (int64_t blocks : {1, 2, 7, 50, 123}) {
    EXPECT_EQ(*BlockSparsifiedBytes(123, blocks, blocks, 4, 0), 123 * 4);
    EXPECT_EQ(*BlockSparsifiedBytes(123, blocks, blocks, 4, 8),
              123 * 4 + 8 * blocks);
  }
}

TEST(BlockSparsifiedBytes, BoundsEveryChoiceOfNearEqualBlocksClosely) {
  for (int64_t parameters : {1, 5, 12, 123}) {
    for (int64_t blocks = 1; blocks <= parameters; ++blocks) {
      // Blocks differ by at most one value; the largest ones are sent.
      const int64_t small = parameters / blocks;
      const int64_t larger_ones = parameters % blocks;
      for (int64_t sent = 0; sent <= blocks; ++sent) {
        const int64_t exact = sent * small + std::min(sent, larger_ones);
        const int64_t bytes =
            *BlockSparsifiedBytes(parameters, blocks, sent, 1, 0);
        EXPECT_GE(bytes, exact) << parameters << " " << blocks << " " << sent;
        EXPECT_LE(bytes, exact + std::max<int64_t>(sent - 1, 0))
            << parameters << " " << blocks << " " << sent;
      }
    }
  }
}

// --- Properties --------------------------------------------------------------

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  LinkModel Link() {
    return {Real(0, 0.01), std::exp(Real(std::log(1e6), std::log(1e10)))};
  }
  double Real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

 private:
  std::mt19937_64 random_;
};

TEST(TransferSeconds, IsMonotoneInEveryArgument) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Draw draw(Seed());
  for (int round = 0; round < 2000; ++round) {
    const LinkModel link = draw.Link();
    const int64_t q = draw.Int(0, 1000);
    const int64_t m = draw.Int(0, int64_t{1} << 32);
    const double t = *TransferSeconds(link, q, m);
    EXPECT_GE(*TransferSeconds(link, q + draw.Int(0, 9), m), t);
    EXPECT_GE(*TransferSeconds(link, q, m + draw.Int(0, 99)), t);
    LinkModel worse = link;
    worse.alpha_seconds *= 1.5;
    EXPECT_GE(*TransferSeconds(worse, q, m), t);
    worse = link;
    worse.beta_bytes_per_second /= 1.5;
    EXPECT_GE(*TransferSeconds(worse, q, m), t);
  }
}

TEST(TransferSeconds, IsAdditive) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Draw draw(Seed() + 1);
  for (int round = 0; round < 2000; ++round) {
    const LinkModel link = draw.Link();
    const int64_t q1 = draw.Int(0, 1000), q2 = draw.Int(0, 1000);
    const int64_t m1 = draw.Int(0, 1 << 30), m2 = draw.Int(0, 1 << 30);
    const double whole = *TransferSeconds(link, q1 + q2, m1 + m2);
    const double parts =
        *TransferSeconds(link, q1, m1) + *TransferSeconds(link, q2, m2);
    EXPECT_NEAR(parts, whole, 1e-14 * whole);
  }
}

TEST(TransferSeconds, SplittingAMessageCostsOneLatencyAPiece) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Draw draw(Seed() + 2);
  for (int round = 0; round < 500; ++round) {
    const LinkModel link = draw.Link();
    const int64_t m = draw.Int(1, 1 << 30);
    const int64_t pieces = draw.Int(2, 1000);
    const double one = *TransferSeconds(link, 1, m);
    const double many = *TransferSeconds(link, pieces, m);
    EXPECT_GE(many, one);
    EXPECT_NEAR(many - one,
                static_cast<double>(pieces - 1) * link.alpha_seconds,
                1e-14 * many);
  }
}

TEST(TransferSeconds, OfNothingOrOverAFreeLinkIsZero) {
  EXPECT_EQ(*TransferSeconds({0.5, 1}, 0, 0), 0);
  EXPECT_EQ(*TransferSeconds(LinkModel(), kMax, kMax), 0);
  EXPECT_EQ(*TransferSeconds({0.5, kInfinity}, 2, kMax), 1);
}

TEST(Payloads, OfNothingAreZero) {
  EXPECT_EQ(*KMeansUplinkBytes(0, 64, 4), 0);
  EXPECT_EQ(*KMeansDownlinkBytes(kMax, kMax, 0), 0);
  EXPECT_EQ(*SearchCandidateBytes(0, kMax), 0);
  EXPECT_EQ(*GlobalBatchSize(8, 0), 0);
}

TEST(Ratios, AgreeWithEachOther) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Draw draw(Seed() + 3);
  for (int round = 0; round < 2000; ++round) {
    const double compute = draw.Real(0, 10), comm = draw.Real(1e-9, 10);
    EXPECT_NEAR(*CommunicationFraction(compute, comm), comm / (compute + comm),
                1e-15);
    EXPECT_NEAR(*ComputeToCommunicationRatio(compute, comm) * comm, compute,
                1e-14);
  }
}

TEST(Ratios, WithoutCommunicationAreInfiniteAndZero) {
  for (double compute : {0.0, 1.0, 1e308}) {
    EXPECT_EQ(*ComputeToCommunicationRatio(compute, 0), kInfinity);
    EXPECT_EQ(*CommunicationFraction(compute, 0), 0);
  }
}

TEST(Ratios, OfExtremeTimesStayInRange) {
  EXPECT_EQ(*ComputeToCommunicationRatio(0, 1), 0);
  EXPECT_EQ(*CommunicationFraction(0, 1), 1);
  EXPECT_DOUBLE_EQ(*CommunicationFraction(1.7e308, 1.7e308), 0.5);
  EXPECT_DOUBLE_EQ(*CommunicationFraction(5e-324, 5e-324), 0.5);
  EXPECT_EQ(*ComputeToCommunicationRatio(1e300, 5e-324), kInfinity);
  EXPECT_EQ(*CommunicationFraction(1e300, 5e-324), 0);
}

// --- Overflow and bad arguments ----------------------------------------------

TEST(Payloads, ThatDoNotFitAreOutOfRangeNotWrapped) {
  const int64_t big = int64_t{1} << 32;
  ExpectError(KMeansUplinkBytes(big, big, 4), kRange, "4294967296");
  ExpectError(KMeansUplinkBytes(1, kMax, 1), kRange, "dimension");
  ExpectError(KMeansDownlinkBytes(big, big, 4), kRange, "dimension");
  ExpectError(SgdGradientBytes(kMax / 4 + 1, 4), kRange, "parameters");
  ExpectError(ActivationBytes(big, big), kRange, "batch");
  ExpectError(SearchCandidates(big, big), kRange, "shards");
  ExpectError(SearchCandidateBytes(big, big / 4, 16), kRange, "shards");
  ExpectError(GlobalBatchSize(2, kMax), kRange, "local_batch");
  ExpectError(StarTotals(kMax, 0, 0), kRange, "messages_per_shard");
  ExpectError(StarTotals(2, kMax, 0), kRange, "down_bytes");
  ExpectError(StarTotals(2, 0, kMax), kRange, "up_bytes");
  ExpectError(BlockSparsifiedBytes(kMax, 3, 1, 8, 0), kRange, "values");
  ExpectError(BlockSparsifiedBytes(kMax, kMax, kMax, 0, 2), kRange,
              "bytes_per_block_id");
  ExpectError(BlockSparsifiedBytes(kMax, kMax, kMax, 1, 1), kRange,
              "block ids");
}

TEST(Payloads, UpToTheLimitAreExact) {
  EXPECT_EQ(*SgdGradientBytes(kMax / 4, 4), kMax / 4 * 4);
  EXPECT_EQ(*KMeansUplinkBytes(1, kMax - 1, 1), kMax);
  EXPECT_EQ(StarTotals(1, kMax, kMax)->bytes_up, kMax);
  EXPECT_EQ(*BlockSparsifiedBytes(kMax, 2, 2, 1, 0), kMax);
}

TEST(Payloads, OverflowCheckAgreesWith128Bits) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Draw draw(Seed() + 4);
  int overflows = 0;
  for (int round = 0; round < 5000; ++round) {
    const int64_t k = draw.Int(0, int64_t{1} << draw.Int(0, 40));
    const int64_t d = draw.Int(0, int64_t{1} << draw.Int(0, 40));
    const int64_t b = draw.Int(1, 16);
    const __int128 exact = static_cast<__int128>(k) * (d + 1) * b;
    const absl::StatusOr<int64_t> bytes = KMeansUplinkBytes(k, d, b);
    if (exact > kMax) {
      ++overflows;
      EXPECT_EQ(bytes.status().code(), kRange) << k << " " << d << " " << b;
    } else {
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(*bytes, static_cast<int64_t>(exact));
    }
  }
  EXPECT_GT(overflows, 10);
}

TEST(Payloads, NegativeCountsAreNamed) {
  ExpectError(KMeansUplinkBytes(-1, 2, 4), kInvalid, "k is -1");
  ExpectError(KMeansUplinkBytes(1, -2, 4), kInvalid, "dimension is -2");
  ExpectError(KMeansDownlinkBytes(0, 1, -4), kInvalid, "bytes_per_value is -4");
  ExpectError(GlobalBatchSize(-8, 1), kInvalid, "workers is -8");
  ExpectError(StarTotals(-1, 1, 1), kInvalid, "shards is -1");
  ExpectError(BlockSparsifiedBytes(10, 0, 0, 4, 0), kInvalid, "blocks is 0");
  ExpectError(BlockSparsifiedBytes(10, 11, 0, 4, 0), kInvalid, "blocks is 11");
  ExpectError(BlockSparsifiedBytes(10, 5, 6, 4, 0), kInvalid,
              "blocks_sent is 6");
  ExpectError(BlockSparsifiedBytes(10, 5, 1, 4, -1), kInvalid,
              "bytes_per_block_id is -1");
}

TEST(TransferSeconds, BadLinksAndCountsAreNamed) {
  ExpectError(TransferSeconds({-1, 1}, 1, 1), kInvalid, "alpha_seconds is -1");
  ExpectError(TransferSeconds({kNaN, 1}, 1, 1), kInvalid, "alpha_seconds");
  ExpectError(TransferSeconds({kInfinity, 1}, 1, 1), kInvalid, "alpha_seconds");
  ExpectError(TransferSeconds({0, 0}, 1, 1), kInvalid, "beta");
  ExpectError(TransferSeconds({0, -5}, 1, 1), kInvalid, "beta");
  ExpectError(TransferSeconds({0, kNaN}, 1, 1), kInvalid, "beta");
  ExpectError(TransferSeconds({0, 1}, -1, 1), kInvalid, "messages is -1");
  ExpectError(TransferSeconds({0, 1}, 1, -7), kInvalid, "bytes is -7");
  ExpectError(TransferSeconds({1e300, 1}, kMax, 1), kRange, "transfer time");
}

TEST(Ratios, BadTimesAreNamed) {
  ExpectError(ComputeToCommunicationRatio(-1, 1), kInvalid, "compute_seconds");
  ExpectError(ComputeToCommunicationRatio(1, kNaN), kInvalid,
              "communication_seconds");
  ExpectError(CommunicationFraction(kInfinity, 1), kInvalid, "compute_seconds");
}

// --- The star ----------------------------------------------------------------

TEST(PredictStarStep, WorkedExampleOfTwoShards) {
  // T = 2 * 1 ms + 30 MB / 1 GB/s = 32 ms each; C = 10 and 50 ms.
  ShardStep shard = {{0.001, 1e9}, 1, 1, 10'000'000, 20'000'000, 0.010};
  std::vector<ShardStep> shards = {shard, shard};
  shards[1].compute_seconds = 0.050;

  const StepPrediction overlapped =
      *PredictStarStep(shards, StarLinks::kOverlapped);
  EXPECT_DOUBLE_EQ(overlapped.step_seconds, 0.082);
  EXPECT_DOUBLE_EQ(overlapped.compute_seconds, 0.050);
  EXPECT_NEAR(overlapped.communication_seconds, 0.032, 1e-15);
  EXPECT_EQ(overlapped.messages, 4);
  EXPECT_EQ(overlapped.bytes_down, 20'000'000);
  EXPECT_EQ(overlapped.bytes_up, 40'000'000);

  const StepPrediction serial = *PredictStarStep(shards, StarLinks::kSerial);
  EXPECT_DOUBLE_EQ(serial.step_seconds, 0.114);
  EXPECT_DOUBLE_EQ(serial.communication_seconds, 0.064);
  EXPECT_DOUBLE_EQ(serial.ratio, 0.050 / 0.064);
}

TEST(PredictStarStep, OneShardIsTheSameEitherWay) {
  const ShardStep shard = {{0.002, 1e9}, 1, 1, 1'000'000, 3'000'000, 0.016};
  for (StarLinks links : {StarLinks::kOverlapped, StarLinks::kSerial}) {
    const StepPrediction step = *PredictStarStep({shard}, links);
    EXPECT_DOUBLE_EQ(step.step_seconds, 0.024);
    EXPECT_NEAR(step.ratio, 2, 1e-12);
  }
}

TEST(PredictStarStep, EqualShardsScaleAsTheModelSays) {
  const ShardStep shard = {{0.001, 1e8}, 1, 1, 25'600, 26'000, 0.1};
  const double transfer = 2 * 0.001 + 51'600 / 1e8;
  for (int p : {1, 2, 7, 16}) {
    const std::vector<ShardStep> shards(p, shard);
    EXPECT_NEAR(PredictStarStep(shards, StarLinks::kOverlapped)->step_seconds,
                0.1 + transfer, 1e-12);
    EXPECT_NEAR(PredictStarStep(shards, StarLinks::kSerial)->step_seconds,
                0.1 + p * transfer, 1e-12);
  }
}

TEST(PredictStarStep, FreeLinksCostNothing) {
  ShardStep shard;
  shard.bytes_up = 1'000'000;
  shard.compute_seconds = 0.5;
  for (StarLinks links : {StarLinks::kOverlapped, StarLinks::kSerial}) {
    const StepPrediction step = *PredictStarStep({shard, shard}, links);
    EXPECT_EQ(step.step_seconds, 0.5);
    EXPECT_EQ(step.communication_seconds, 0);
    EXPECT_EQ(step.ratio, kInfinity);
  }
}

TEST(PredictStarStep, SerialBoundsOverlappedAndMoreWorkNeverHelps) {
  SCOPED_TRACE(testing::Message() << "SEED=" << Seed());
  Draw draw(Seed() + 5);
  for (int round = 0; round < 1000; ++round) {
    std::vector<ShardStep> shards(draw.Int(1, 16));
    for (ShardStep& shard : shards) {
      shard = {draw.Link(),          draw.Int(1, 9),       draw.Int(1, 9),
               draw.Int(0, 1 << 24), draw.Int(0, 1 << 24), draw.Real(0, 0.1)};
    }
    const StepPrediction low = *PredictStarStep(shards, StarLinks::kOverlapped);
    const StepPrediction high = *PredictStarStep(shards, StarLinks::kSerial);
    EXPECT_LE(low.step_seconds, high.step_seconds);
    EXPECT_GE(low.communication_seconds, 0);
    for (const StepPrediction& step : {low, high}) {
      EXPECT_NEAR(step.step_seconds,
                  step.compute_seconds + step.communication_seconds,
                  1e-14 * step.step_seconds);
    }
    ShardStep& more = shards[draw.Int(0, shards.size() - 1)];
    more.bytes_up += draw.Int(0, 1 << 20);
    more.compute_seconds += draw.Real(0, 0.01);
    EXPECT_GE(PredictStarStep(shards, StarLinks::kOverlapped)->step_seconds,
              low.step_seconds);
    EXPECT_GE(PredictStarStep(shards, StarLinks::kSerial)->step_seconds,
              high.step_seconds);
  }
}

void ExpectStepError(const std::vector<ShardStep>& shards,
                     absl::StatusCode code, const std::string& part) {
  for (StarLinks links : {StarLinks::kOverlapped, StarLinks::kSerial}) {
    const absl::Status status = PredictStarStep(shards, links).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(PredictStarStep, BadShardsAreNamedByPosition) {
  ExpectStepError({}, kInvalid, "empty");
  ShardStep bad;
  bad.bytes_up = -3;
  ExpectStepError({ShardStep(), bad}, kInvalid, "shard 1: bytes_up is -3");
  bad = {};
  bad.compute_seconds = kNaN;
  ExpectStepError({bad}, kInvalid, "shard 0: compute_seconds");
  bad = {};
  bad.link.beta_bytes_per_second = 0;
  ExpectStepError({bad}, kInvalid, "shard 0: beta");
}

TEST(PredictStarStep, TotalsThatDoNotFitAreOutOfRange) {
  ShardStep big;
  big.bytes_up = kMax / 2 + 1;
  ExpectStepError({big, big}, kRange, "shard 1: bytes_up so far");
  big = {};
  big.messages_down = kMax / 2;
  ExpectStepError({big, big}, kRange, "shard 1: messages so far");
  big = {};
  big.bytes_down = kMax;
  big.bytes_up = 1;
  ExpectStepError({big}, kRange, "shard 0: bytes_down");
  big = {};
  big.compute_seconds = 1.7e308;
  big.link.alpha_seconds = 0.8e308;
  ExpectStepError({big}, kRange, "step time");
}

}  // namespace
}  // namespace coterie
