// Draws, compressors and messages of SGD.

#include "training/sgd_compress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/sgd_codec.h"
#include "training/sgd_draw.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

constexpr SgdCompressor kAllCompressors[] = {
    SgdCompressor::kNone,      SgdCompressor::kRandomBlock,
    SgdCompressor::kPermBlock, SgdCompressor::kWholeOrNothing,
    SgdCompressor::kTopK,      SgdCompressor::kQsgd,
    SgdCompressor::kFp16,      SgdCompressor::kBf16};

SgdTask Task(SgdCompressor compressor, int64_t d) {
  SgdTask task;
  task.model.kind = SgdModelKind::kLinear;
  task.model.dimension = d;
  task.seed = TestSeed();
  task.workers = 5;
  task.compressor = compressor;
  task.blocks = std::min<int64_t>(7, d);
  task.blocks_sent = std::min<int64_t>(2, task.blocks);
  task.send_probability = 0.3;
  task.top_k = std::min<int64_t>(4, d);
  task.levels = 3;
  task.float64 = true;
  return task;
}

std::vector<double> RandomVector(int64_t d, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> v;
  for (int64_t j = 0; j < d; ++j) {
    v.push_back(std::ldexp(normal(random), static_cast<int>(random() % 9) - 4));
  }
  return v;
}

std::vector<double> Expanded(const SgdTask& task, int64_t step, int32_t worker,
                             const std::vector<double>& v) {
  const auto payload = CompressSgd(task, step, worker, v);
  EXPECT_TRUE(payload.ok()) << payload.status();
  EXPECT_TRUE(CheckSgdPayload(task, step, worker, *payload).ok());
  std::vector<double> out(v.size());
  AddSgdPayload(task, step, worker, *payload, 1, absl::MakeSpan(out));
  return out;
}

double Squares(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return sum;
}

// --- Draws -------------------------------------------------------------------

TEST(SgdDraw, AWorkerIsTheSlotHashAndFrozen) {
  EXPECT_EQ(SgdWorkerOf(0, 1000), 0xe220a8397b1dcdaf % 1000);
  EXPECT_EQ(SgdWorkerOf(1, 64), static_cast<int32_t>(0x910a2dec89025cc1 % 64));
}

TEST(SgdDraw, BlocksCoverParametersInOrder) {
  for (int64_t d : {1, 5, 123}) {
    for (int64_t m = 1; m <= d; ++m) {
      const SgdBlocks blocks = {d, m};
      EXPECT_EQ(blocks.begin(0), 0);
      EXPECT_EQ(blocks.end(m - 1), d);
      for (int64_t b = 0; b < m; ++b) {
        EXPECT_GE(blocks.end(b) - blocks.begin(b), d / m);
        EXPECT_LE(blocks.end(b) - blocks.begin(b), d / m + 1);
        for (int64_t j = blocks.begin(b); j < blocks.end(b); ++j) {
          ASSERT_EQ(blocks.of(j), b);
        }
      }
    }
  }
}

// Chi-square with 22 degrees of freedom is below 57 but for one in 10^5.
TEST(SgdDraw, EveryBlockIsAsLikely) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  for (int64_t count : {1, 3, 12, 20}) {
    std::vector<int64_t> hits(23);
    for (int64_t step = 0; step < 4000; ++step) {
      const auto drawn = DrawSgdBlocks(TestSeed(), step, 3, 23, count);
      ASSERT_EQ(static_cast<int64_t>(drawn.size()), count);
      ASSERT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
      ASSERT_EQ(std::set<int64_t>(drawn.begin(), drawn.end()).size(),
                drawn.size());
      for (int64_t b : drawn) ++hits[static_cast<size_t>(b)];
    }
    const double tau = static_cast<double>(count) / 23;
    double chi = 0;
    for (int64_t hit : hits) {
      const double off = static_cast<double>(hit) - 4000 * tau;
      chi += off * off / (4000 * tau * (1 - tau)) * 22 / 23;
    }
    EXPECT_LT(chi, 57) << count;
  }
}

// One generator shared by all workers would make them draw alike.
TEST(SgdDraw, WorkersDrawIndependently) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  int same = 0;
  for (int64_t step = 0; step < 10'000; ++step) {
    same += DrawSgdBlocks(TestSeed(), step, 0, 20, 1) ==
            DrawSgdBlocks(TestSeed(), step, 1, 20, 1);
  }
  EXPECT_NEAR(same, 500, 110);
}

TEST(SgdDraw, DealtBlocksGoToOneWorkerEachAndFairly) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  std::vector<int64_t> hits(4);
  for (int64_t step = 0; step < 4000; ++step) {
    std::vector<int64_t> all;
    for (int32_t w = 0; w < 4; ++w) {
      const auto dealt = DealSgdBlocks(TestSeed(), step, w, 4, 6);
      all.insert(all.end(), dealt.begin(), dealt.end());
      hits[static_cast<size_t>(w)] += std::count(dealt.begin(), dealt.end(), 2);
    }
    std::sort(all.begin(), all.end());
    ASSERT_THAT(all, testing::ElementsAre(0, 1, 2, 3, 4, 5));
  }
  for (int64_t hit : hits) EXPECT_NEAR(static_cast<double>(hit), 1000, 140);
}

// --- Compressors -------------------------------------------------------------

TEST(SgdCompress, UnbiasedOnesAreAndHaveTheVarianceStated) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  std::mt19937_64 random(TestSeed());
  for (SgdCompressor compressor : kAllCompressors) {
    const SgdTask task = Task(compressor, 14);
    const SgdCompression facts = SgdCompressionOf(task);
    if (!facts.unbiased) continue;
    const std::vector<double> v = RandomVector(14, random);
    std::vector<double> mean(14);
    double variance = 0;
    constexpr int kRounds = 20'000;
    for (int step = 0; step < kRounds; ++step) {
      const auto c = Expanded(task, step, 2, v);
      for (size_t j = 0; j < v.size(); ++j) {
        const double value = facts.scale * c[j];
        mean[j] += value / kRounds;
        variance += (value - v[j]) * (value - v[j]) / kRounds;
      }
    }
    const double norm = std::sqrt(Squares(v));
    const double noise =
        5 * norm * std::sqrt((facts.omega + 1) / kRounds) + 1e-12;
    for (size_t j = 0; j < v.size(); ++j) EXPECT_NEAR(mean[j], v[j], noise);
    EXPECT_LE(variance, facts.omega * norm * norm * 1.1 + 1e-12)
        << static_cast<int>(compressor);
  }
}

TEST(SgdCompress, ContractiveOnesShrinkTheError) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  std::mt19937_64 random(TestSeed());
  for (SgdCompressor compressor : kAllCompressors) {
    for (int64_t d : {1, 14, 65}) {
      const SgdTask task = Task(compressor, d);
      const SgdCompression facts = SgdCompressionOf(task);
      if (facts.delta == 0) continue;
      const std::vector<double> v = RandomVector(d, random);
      double error = 0;
      constexpr int kRounds = 3000;
      for (int step = 0; step < kRounds; ++step) {
        std::vector<double> rest = Expanded(task, step, 1, v);
        for (size_t j = 0; j < v.size(); ++j) rest[j] -= v[j];
        error += Squares(rest) / kRounds;
      }
      EXPECT_LE(error, (1 - facts.delta) * Squares(v) +
                           0.15 * facts.omega / (1 + facts.omega) * Squares(v))
          << static_cast<int>(compressor) << " " << d;
    }
  }
}

TEST(SgdCompress, TopKKeepsTheLargestAndTheFirstOfEqualOnes) {
  SgdTask task = Task(SgdCompressor::kTopK, 6);
  task.top_k = 3;
  const auto payload = CompressSgd(task, 0, 0, {1, -3, 3, 0.5, -3, 2});
  EXPECT_THAT(payload->indices, testing::ElementsAre(1, 2, 4));
  EXPECT_THAT(payload->values, testing::ElementsAre(-3, 3, -3));
  const auto ties = CompressSgd(task, 0, 0, {1, 1, -1, 1, 1, 1});
  EXPECT_THAT(ties->indices, testing::ElementsAre(0, 1, 2));
}

TEST(SgdCompress, HalvesRoundToTheNearest) {
  EXPECT_EQ(RoundToFloat16(1 + 0x1p-11), 1);
  EXPECT_EQ(RoundToFloat16(1 + 0x3p-11), 1 + 0x2p-10);
  EXPECT_EQ(RoundToFloat16(0x1p-25), 0);
  EXPECT_EQ(RoundToFloat16(0x1.8p-24), 0x1p-23);
  EXPECT_EQ(RoundToFloat16(65519), 65504);
  EXPECT_TRUE(std::isinf(RoundToFloat16(65520)));
  EXPECT_EQ(RoundToBfloat16(1 + 0x1p-8), 1);
  EXPECT_EQ(RoundToBfloat16(1 + 0x3p-8), 1 + 0x2p-7);
  EXPECT_TRUE(std::isinf(RoundToBfloat16(0x1.ffp127)));
  EXPECT_EQ(RoundToBfloat16(-0x1p-133), -0x1p-133);
}

TEST(SgdCompress, ValuesThatDoNotFitAreRefused) {
  SgdTask task = Task(SgdCompressor::kNone, 2);
  task.float64 = false;
  EXPECT_EQ(CompressSgd(task, 0, 0, {1, 1e39}).status().code(),
            absl::StatusCode::kOutOfRange);
  task.compressor = SgdCompressor::kBf16;
  EXPECT_FALSE(CompressSgd(task, 0, 0, {1, 1e39}).ok());
  task.compressor = SgdCompressor::kFp16;  // has a scale
  EXPECT_TRUE(CompressSgd(task, 0, 0, {1, 1e39}).ok());
}

// --- Messages ----------------------------------------------------------------

SgdPartial PartialOf(const SgdTask& task, std::mt19937_64& random) {
  SgdPartial partial;
  partial.number = 300;
  partial.kind = SgdStepKind::kGradient;
  partial.round = 17;
  partial.loss = 1.5;
  for (int32_t w : {0, 2, 3}) {
    const auto v = RandomVector(SgdParameters(task.model), random);
    partial.contributions.push_back({w, 10 + w, *CompressSgd(task, 17, w, v)});
    partial.rows += 10 + w;
  }
  return partial;
}

std::vector<SgdStep> StepsOf(const SgdTask& task, std::mt19937_64& random) {
  std::vector<SgdStep> steps(2);
  steps[0].number = 5;
  steps[0].task = task;
  steps[0].shifts = {{1, RandomVector(SgdParameters(task.model), random)}};
  steps[1].number = 6;
  steps[1].kind = SgdStepKind::kGradient;
  steps[1].version = 200;
  steps[1].round = 200;
  steps[1].base = 5;
  steps[1].epoch_steps = 9;
  steps[1].parameters.assign(static_cast<size_t>(SgdParameters(task.model)),
                             0.25);
  return steps;
}

TEST(SgdCodec, EveryMessageComesBackAndHasTheSizeForetold) {
  SCOPED_TRACE(testing::Message() << "SEED=" << TestSeed());
  std::mt19937_64 random(TestSeed());
  for (SgdCompressor compressor : kAllCompressors) {
    for (bool float64 : {false, true}) {
      SgdTask task = Task(compressor, 29);
      task.float64 = float64;
      const SgdPartial partial = PartialOf(task, random);
      const std::string bytes = EncodeSgdPartial(task, partial);
      EXPECT_EQ(SgdPartialBytes(task, partial),
                static_cast<int64_t>(bytes.size()));
      const auto back = DecodeSgdPartial(task, bytes);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(*back, partial);
      for (size_t cut = 0; cut < bytes.size(); ++cut) {
        EXPECT_FALSE(DecodeSgdPartial(task, bytes.substr(0, cut)).ok()) << cut;
      }
      EXPECT_FALSE(DecodeSgdPartial(task, bytes + "x").ok());
      for (const SgdStep& step : StepsOf(task, random)) {
        const std::string encoded = EncodeSgdStep(task, step);
        EXPECT_EQ(SgdStepBytes(task, step),
                  static_cast<int64_t>(encoded.size()));
        const auto decoded = DecodeSgdStep(encoded);
        ASSERT_TRUE(decoded.ok()) << decoded.status();
        EXPECT_EQ(*decoded, step);
        for (size_t cut = 0; cut < encoded.size(); ++cut) {
          EXPECT_FALSE(DecodeSgdStep(encoded.substr(0, cut)).ok());
        }
      }
    }
  }
}

TEST(SgdCodec, BlocksNeedNoIds) {
  std::mt19937_64 random(TestSeed());
  SgdTask task = Task(SgdCompressor::kRandomBlock, 1000);
  task.float64 = false;
  task.blocks = 20;
  task.blocks_sent = 1;
  // Header 16: mark, kind, flags, number 2, round, loss 8, rows, count.
  // Each of three: worker, rows, 50 values.
  EXPECT_EQ(SgdPartialBytes(task, PartialOf(task, random)),
            16 + 3 * (1 + 1 + 50 * 4));
}

// With SGD_CORPUS set to a folder, writes the fuzz target's corpus there.
TEST(SgdCodec, CorpusIsOfRealMessages) {
  const char* folder = std::getenv("SGD_CORPUS");
  std::mt19937_64 random(7600);
  for (int byte = 0; byte < 16; ++byte) {
    SgdTask task = Task(static_cast<SgdCompressor>(1 + byte % 8), 11);
    task.seed = 0;
    task.workers = 3;
    task.blocks = 4;
    task.blocks_sent = 2;
    task.send_probability = 0.5;
    task.top_k = 3;
    task.levels = 1;
    task.float64 = (byte & 8) != 0;
    SgdPartial partial = PartialOf(task, random);
    partial.contributions.resize(2);
    const std::string first(1, static_cast<char>(byte));
    std::vector<std::string> messages = {EncodeSgdPartial(task, partial)};
    EXPECT_TRUE(DecodeSgdPartial(task, messages[0]).ok());
    if (byte == 9) {
      for (const SgdStep& step : StepsOf(task, random)) {
        messages.push_back(EncodeSgdStep(task, step));
      }
      SgdPartial start;
      start.number = 1;
      start.extents = {{0, 5}, {2, 300}};
      messages.push_back(EncodeSgdPartial(task, start));
      start.kind = SgdStepKind::kEvaluate;
      messages.push_back(EncodeSgdPartial(task, start));
    }
    for (size_t i = 0; folder != nullptr && i < messages.size(); ++i) {
      std::ofstream(std::string(folder) + "/task" + std::to_string(byte) + "-" +
                        std::to_string(i),
                    std::ios::binary)
          << first << messages[i];
    }
  }
}

}  // namespace
}  // namespace coterie
