#include "training/kmeans_codec.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "index/metric.h"
#include "index/test_vectors.h"
#include "training/cost_model.h"
#include "training/kmeans_job.h"
#include "training/kmeans_local.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_testing.h"

namespace coterie {
namespace {

void ExpectRoundTrip(const KMeansStep& step) {
  const std::string bytes = EncodeKMeansStep(step);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), KMeansStepBytes(step));
  const absl::StatusOr<KMeansStep> decoded = DecodeKMeansStep(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == step);
}

void ExpectRoundTrip(const KMeansPartial& partial) {
  const std::string bytes = EncodeKMeansPartial(partial);
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), KMeansPartialBytes(partial));
  const absl::StatusOr<KMeansPartial> decoded = DecodeKMeansPartial(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == partial);
}

// Everything that whole jobs send, and that it works when it has travelled.
TEST(KMeansCodec, CarriesWholeJobs) {
  std::mt19937_64 random(TestSeed());
  KMeansData data = Blobs(600, 5, 12, 2, random);
  for (int64_t i = 0; i < data.n(); ++i) {
    data.weights.push_back(static_cast<double>(random() % 5));
  }
  for (KMeansSeeding seeding :
       {KMeansSeeding::kParallel, KMeansSeeding::kPlusPlus,
        KMeansSeeding::kRandom}) {
    for (KMeansSumForm form : {KMeansSumForm::kInt64, KMeansSumForm::kChanged,
                               KMeansSumForm::kFloat32}) {
      KMeansOptions options = OptionsFor(data, 20, false);
      options.seeding = seeding;
      options.form = form;
      options.empty = KMeansEmptyPolicy::kDrop;
      KMeansCluster plain(data, 3);
      const absl::StatusOr<KMeansResult> expected = plain.Run(options);
      ASSERT_TRUE(expected.ok());
      KMeansCluster cluster(data, 3);
      absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 3);
      ASSERT_TRUE(job.ok());
      while (!job->Done()) {
        const KMeansStep sent = job->NextStep();
        ExpectRoundTrip(sent);
        const absl::StatusOr<KMeansStep> step =
            DecodeKMeansStep(EncodeKMeansStep(sent));
        for (int32_t s = 0; s < 3; ++s) {
          const absl::StatusOr<KMeansPartial> partial =
              cluster.shards()[static_cast<size_t>(s)]->Run(
                  *step, KMeansWorkers(), [] { return false; });
          ASSERT_TRUE(partial.ok());
          ExpectRoundTrip(*partial);
          ASSERT_TRUE(job->Accept(s, *DecodeKMeansPartial(
                                         EncodeKMeansPartial(*partial)))
                          .ok());
        }
      }
      EXPECT_EQ(job->Result().centres, expected->centres);
    }
  }
}

// k = 100, d = 64, b = 4 or 8.
TEST(KMeansCodec, SizesAreThoseOfTheCostModel) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(500, 64, 100, 2, random);
  for (KMeansSumForm form : {KMeansSumForm::kInt64, KMeansSumForm::kFloat32}) {
    const int64_t b = form == KMeansSumForm::kInt64 ? 8 : 4;
    KMeansOptions options = OptionsFor(data, 100, true);
    options.form = form;
    KMeansCluster cluster(data, 16);
    absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 16);
    ASSERT_TRUE(job.ok());
    while (!job->Done()) {
      const KMeansStep step = job->NextStep();
      int64_t all = 0;
      for (int32_t s = 0; s < 16; ++s) {
        const absl::StatusOr<KMeansPartial> partial =
            cluster.shards()[static_cast<size_t>(s)]->Run(step, KMeansWorkers(),
                                                          [] { return false; });
        ASSERT_TRUE(partial.ok());
        const int64_t payload =
            static_cast<int64_t>(EncodeKMeansPartial(*partial).size()) -
            kKMeansPartialHeaderBytes;
        if (step.kind == KMeansStepKind::kAssign) {
          EXPECT_EQ(payload, *KMeansUplinkBytes(100, 64, b));
          EXPECT_EQ(payload, b == 4 ? 26000 : 52000);
          all += payload;
        }
        ASSERT_TRUE(job->Accept(s, *partial).ok());
      }
      if (step.kind != KMeansStepKind::kAssign) continue;
      EXPECT_EQ(all, b == 4 ? 416000 : 832000);
      EXPECT_EQ(KMeansStepBytes(step) - kKMeansStepHeaderBytes,
                *KMeansDownlinkBytes(100, 64, 4));
    }
  }
}

// As few as two rows of one centre: what did not change is not sent.
TEST(KMeansCodec, ChangedFormSendsLessWhenLittleChanges) {
  std::mt19937_64 random(TestSeed());
  const KMeansData data = Blobs(3000, 8, 60, 1.5, random);
  int64_t dense = 0;
  int64_t changed = 0;
  for (KMeansSumForm form : {KMeansSumForm::kInt64, KMeansSumForm::kChanged}) {
    KMeansOptions options = OptionsFor(data, 60, false);
    options.form = form;
    KMeansCluster cluster(data, 2);
    absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 2);
    ASSERT_TRUE(job.ok());
    ASSERT_TRUE(PumpKMeans(*job, cluster.shards(), {}).ok());
    for (const KMeansProgress& progress : job->progress()) {
      const int64_t bytes = progress.bytes_up + progress.bytes_down;
      if (form == KMeansSumForm::kInt64) {
        dense += bytes;
        EXPECT_EQ(progress.bytes_up,
                  2 * (kKMeansPartialHeaderBytes + 8 * 60 * 9));
      } else {
        changed += bytes;
      }
    }
  }
  EXPECT_LT(changed, dense * 3 / 4);
}

TEST(KMeansCodec, RefusesWhatIsCutShortTooLongOrUnknown) {
  KMeansStep step;
  step.kind = KMeansStepKind::kAssign;
  step.rows = {1, 2, 3};
  step.active = {1, 0, 1};
  step.scale.sum_exponents = {3};
  const std::string bytes = EncodeKMeansStep(step);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeKMeansStep(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodeKMeansStep(bytes + "x").ok());
  for (size_t at : {0, 1, 2, 3}) {
    std::string bad = bytes;
    bad[at] = 77;
    EXPECT_FALSE(DecodeKMeansStep(bad).ok()) << at;
  }
  std::string huge = bytes;
  huge[80 + 7] = 0x7f;  // the number of values
  EXPECT_FALSE(DecodeKMeansStep(huge).ok());

  KMeansPartial partial;
  partial.kind = KMeansStepKind::kDraw;
  partial.picks = {{.key = 1, .id = 2}};
  partial.pick_rows = {4};
  const std::string up = EncodeKMeansPartial(partial);
  for (size_t size = 0; size < up.size(); ++size) {
    EXPECT_FALSE(DecodeKMeansPartial(up.substr(0, size)).ok()) << size;
  }
}

// A batch's centres have 16 bits a value and its sums 32: half of what an
// assignment sends.
TEST(KMeansCodec, BatchesTakeHalfTheBytes) {
  std::mt19937_64 random(TestSeed());
  KMeansData data = Blobs(1200, 24, 20, 2, random);
  for (const Metric metric : {Metric::kSquaredL2, Metric::kCosine}) {
    data.metric = metric;
    KMeansOptions options = OptionsFor(data, 20, true);
    options.batch_rows = 400;
    KMeansCluster plain(data, 2);
    const absl::StatusOr<KMeansResult> expected = plain.Run(options);
    ASSERT_TRUE(expected.ok());
    KMeansCluster cluster(data, 2);
    absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 2);
    ASSERT_TRUE(job.ok());
    int64_t batches = 0;
    while (!job->Done()) {
      const std::string down = EncodeKMeansStep(job->NextStep());
      ExpectRoundTrip(job->NextStep());
      const absl::StatusOr<KMeansStep> step = DecodeKMeansStep(down);
      ASSERT_TRUE(step.ok()) << step.status();
      const bool batch = step->kind == KMeansStepKind::kBatch;
      if (batch) {
        ++batches;
        const int64_t middle = metric == Metric::kCosine ? 0 : 8 * 24;
        EXPECT_EQ(static_cast<int64_t>(down.size()),
                  kKMeansStepHeaderBytes + 2 * 20 * 24 + middle);
      }
      for (int32_t s = 0; s < 2; ++s) {
        const absl::StatusOr<KMeansPartial> partial =
            cluster.shards()[static_cast<size_t>(s)]->Run(
                *step, KMeansWorkers(), [] { return false; });
        ASSERT_TRUE(partial.ok()) << partial.status();
        ExpectRoundTrip(*partial);
        const std::string up = EncodeKMeansPartial(*partial);
        if (batch) {
          EXPECT_LE(static_cast<int64_t>(up.size()),
                    kKMeansPartialHeaderBytes + 20 * (4 * 24 + 8));
        }
        ASSERT_TRUE(job->Accept(s, *DecodeKMeansPartial(up)).ok());
      }
    }
    EXPECT_GT(batches, 3);
    EXPECT_EQ(job->Result().centres, expected->centres);
  }
}

TEST(KMeansCodec, RefusesShortNumbersWhereNoneAre) {
  KMeansStep step;
  step.kind = KMeansStepKind::kBatch;
  step.rows = {1, 2, 3};
  std::string bytes = EncodeKMeansStep(step);
  bytes[1] =
      static_cast<char>(static_cast<int>(KMeansStepKind::kAssign) | 0x80);
  EXPECT_FALSE(DecodeKMeansStep(bytes).ok());
  // Values that have 16 bits are sent so.
  step.kind = KMeansStepKind::kAssign;
  bytes = EncodeKMeansStep(step);
  bytes[1] = static_cast<char>(KMeansStepKind::kBatch);
  EXPECT_FALSE(DecodeKMeansStep(bytes).ok());
  KMeansPartial partial;
  partial.kind = KMeansStepKind::kBatch;
  partial.sums = {1, -2};
  bytes = EncodeKMeansPartial(partial);
  bytes[1] =
      static_cast<char>(static_cast<int>(KMeansStepKind::kAssign) | 0x80);
  EXPECT_FALSE(DecodeKMeansPartial(bytes).ok());
  partial.sums = {1, int64_t{1} << 31};
  EXPECT_TRUE(DecodeKMeansPartial(EncodeKMeansPartial(partial)).ok());
}

}  // namespace
}  // namespace coterie
