// What a shard leaves out when there are many centres: it must not show.

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/test_vectors.h"
#include "training/kmeans_job.h"
#include "training/kmeans_local.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_testing.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

struct Trace {
  std::vector<KMeansProgress> progress;
  KMeansResult result;
  std::map<PointId, int32_t> labels;
};

Trace RunJob(const KMeansData& data, const KMeansOptions& options,
             int32_t shards) {
  KMeansCluster cluster(data, shards);
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, shards);
  EXPECT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(PumpKMeans(*job, cluster.shards(), ThreadedWorkers(2)).ok());
  return {{job->progress().begin(), job->progress().end()},
          job->Result(),
          cluster.Labels()};
}

void ExpectSameIterations(const Trace& actual, const Trace& expected) {
  ASSERT_EQ(actual.progress.size(), expected.progress.size());
  for (size_t i = 0; i < expected.progress.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "iteration " << i);
    ASSERT_EQ(actual.progress[i].objective, expected.progress[i].objective);
    ASSERT_EQ(actual.progress[i].moved, expected.progress[i].moved);
  }
  EXPECT_EQ(actual.result.centres, expected.result.centres);
  EXPECT_EQ(actual.labels, expected.labels);
}

class ManyCentres : public testing::TestWithParam<std::string> {
 protected:
  KMeansData Data(std::mt19937_64& random) const {
    if (GetParam() == "plane") return Blobs(4000, 2, 60, 3, random);
    if (GetParam() == "heavy") return HeavyTailed(2500, 25, random);
    KMeansData data = Blobs(4000, 26, 60, 4, random);
    if (GetParam() == "cosine") data.metric = Metric::kCosine;
    if (GetParam() == "grid") {  // exact ties at every step
      for (float& v : data.rows) v = static_cast<float>(random() % 3);
    }
    return data;
  }
};
INSTANTIATE_TEST_SUITE_P(Data, ManyCentres,
                         testing::Values("plane", "blobs", "cosine", "heavy",
                                         "grid"),
                         [](const auto& suite) { return suite.param; });

// Enough for codes from the first assignment on, and for centres apart.
TEST_P(ManyCentres, HaveTheBitsOfLloydInEveryIterationOnEveryTarget) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "SEED=" << seed);
  std::mt19937_64 random(seed);
  const KMeansData data = Data(random);
  KMeansOptions options = OptionsFor(data, 300, true);
  options.tolerance = 0;
  options.max_iterations = 30;
  options.algorithm = KMeansAlgorithm::kLloyd;
  const Trace lloyd = RunJob(data, options, 2);
  options.algorithm = KMeansAlgorithm::kHamerly;
  const SimdTarget before = ActiveSimdTarget();
  for (SimdTarget target : SupportedSimdTargets()) {
    SetActiveSimdTargetForTest(target);
    SCOPED_TRACE(SimdTargetName(target));
    ExpectSameIterations(RunJob(data, options, 3), lloyd);
    if (HasFatalFailure()) break;
  }
  SetActiveSimdTargetForTest(before);
}

// Towards the end few centres move, and only those are looked at.
TEST(CentresApart, AreAllThatIsSearchedWhenFewMove) {
  std::mt19937_64 random(TestSeed());
  for (int64_t d : {2, 16}) {
    const KMeansData data = Blobs(6000, d, 80, 4, random);
    KMeansOptions options = OptionsFor(data, 400, true);
    options.tolerance = 0;
    const Trace run = RunJob(data, options, 1);
    ASSERT_GT(run.progress.size(), 4u);
    const KMeansProgress& last = run.progress.back();
    EXPECT_LT(last.evaluated, data.n() * 400 / 3) << d;
    EXPECT_GT(last.skipped, data.n() * 400 / 2) << d;
  }
}

}  // namespace
}  // namespace coterie
