// Every way of clustering, through coordinator and shards: the bits of one
// process, whatever the number of shards.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/clustering.h"
#include "api/placement.h"
#include "coordinator/jobs.h"
#include "gtest/gtest.h"
#include "tests/kmeans_jobs_testing.h"
#include "tests/local_cluster.h"

namespace coterie {
namespace {

constexpr int32_t kSlots = 64;

struct Method {
  std::string name;
  std::function<void(KMeansOptions&)> set;
};

// Some of the given centres are far from all rows, so that they stay empty.
void FarCentres(KMeansOptions& options) {
  options.seeding = KMeansSeeding::kGiven;
  options.given.assign(static_cast<size_t>(options.k * options.dimension), 0);
  for (size_t i = 0; i < options.given.size(); ++i) {
    const bool far = i / static_cast<size_t>(options.dimension) % 3 == 1;
    options.given[i] = static_cast<float>(i % 11) + (far ? 1e4F : 0);
  }
}

std::vector<Method> Methods() {
  std::vector<Method> methods = {
      {"Lloyd",
       [](KMeansOptions& o) { o.algorithm = KMeansAlgorithm::kLloyd; }},
      {"Hamerly",
       [](KMeansOptions& o) { o.algorithm = KMeansAlgorithm::kHamerly; }},
      {"Elkan",
       [](KMeansOptions& o) { o.algorithm = KMeansAlgorithm::kElkan; }},
      {"changed sums",
       [](KMeansOptions& o) { o.form = KMeansSumForm::kChanged; }},
      {"mini-batch",
       [](KMeansOptions& o) {
         o.batch_rows = 100;
         o.max_iterations = 8;
       }},
      {"k-means++",
       [](KMeansOptions& o) { o.seeding = KMeansSeeding::kPlusPlus; }},
      {"random rows",
       [](KMeansOptions& o) { o.seeding = KMeansSeeding::kRandom; }},
      {"three runs", [](KMeansOptions& o) { o.runs = 3; }},
  };
  for (const KMeansEmptyPolicy empty :
       {KMeansEmptyPolicy::kRelocate, KMeansEmptyPolicy::kKeep,
        KMeansEmptyPolicy::kDrop}) {
    methods.push_back(
        {absl::StrCat("empty clusters, policy ", static_cast<int>(empty)),
         [empty](KMeansOptions& o) {
           FarCentres(o);
           o.empty = empty;
         }});
  }
  return methods;
}

// Of squared distances only.
std::vector<Method> Polishes() {
  return {{"Hartigan",
           [](KMeansOptions& o) { o.polish = KMeansPolish::kHartigan; }},
          {"Hartigan-Wong",
           [](KMeansOptions& o) { o.polish = KMeansPolish::kHartiganWong; }}};
}

KMeansRequest RequestOf(const KMeansData& data, const Method& method) {
  KMeansRequest request = RequestFor(data, 13, false);
  request.options.seed = 5;
  request.options.tolerance = 0;
  method.set(request.options);
  request.label_attribute = "label";
  request.replace = true;
  return request;
}

// The slots of shards in this test.
std::vector<int32_t> InTurn(int32_t slots, int32_t shards) {
  std::vector<int32_t> owner;
  for (int32_t slot = 0; slot < slots; ++slot) owner.push_back(slot % shards);
  return owner;
}

LocalClusterOptions ShardsInTurn(int32_t shards) {
  LocalClusterOptions options;
  options.shards = shards;
  options.threads = shards % 2 == 0 ? 1 : 4;
  options.tail_rows = 64;
  options.coordinator.placement = InTurn;
  return options;
}

// In one process without a service, on the same shards.
KMeansResult OnSuchShards(const KMeansData& data, KMeansOptions options,
                          int32_t shards, std::map<PointId, int32_t>* labels) {
  options.metric = data.metric;
  options.dimension = data.d;
  std::vector<int32_t> place;
  for (int64_t i = 0; i < data.n(); ++i) {
    place.push_back(SlotOf(data.id(i), kSlots) % shards);
  }
  KMeansCluster alone(data, place, shards);
  const auto result = alone.Run(options);
  EXPECT_TRUE(result.ok()) << result.status();
  *labels = alone.Labels();
  return *result;
}

void ExpectTrained(LocalCluster& cluster, const KMeansRequest& request,
                   const KMeansResult& expected,
                   const std::map<PointId, int32_t>& labels) {
  const Followed run =
      Follow(cluster.coordinator().jobs().Train(request, {}).get());
  ASSERT_TRUE(run.result.ok()) << run.result.status();
  ExpectSame(run.result->result, expected);
  EXPECT_EQ(run.result->result.active, expected.active);
  EXPECT_EQ(run.result->result.non_empty, expected.non_empty);
  const auto written = Labels(cluster);
  ASSERT_EQ(written.size(), labels.size());
  for (const auto& [id, label] : labels) ASSERT_EQ(written.at(id), label);
}

class EveryMethod : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Data, EveryMethod,
                         testing::Values("blobs", "heavy", "cosine"),
                         [](const auto& suite) { return suite.param; });

TEST_P(EveryMethod, HasTheBitsOfOneProcessOnAnyShards) {
  const KMeansData data = SomeData(GetParam());
  // Heavy tails are where sums of doubles would differ.
  const std::vector<int32_t> counts = GetParam() == "heavy"
                                          ? std::vector<int32_t>{1, 2, 3, 7, 16}
                                          : std::vector<int32_t>{1, 3, 7};
  for (const int32_t shards : counts) {
    LocalCluster cluster(ShardsInTurn(shards));
    Load(cluster, data, data.metric);
    for (const Method& method : Methods()) {
      SCOPED_TRACE(absl::StrCat(method.name, ", ", shards, " shards"));
      const KMeansRequest request = RequestOf(data, method);
      std::map<PointId, int32_t> labels;
      const KMeansResult expected = Expected(data, request.options, &labels);
      ExpectTrained(cluster, request, expected, labels);
      if (HasFatalFailure()) return;
    }
    if (data.metric == Metric::kCosine) continue;
    for (const Method& method : Polishes()) {
      SCOPED_TRACE(absl::StrCat(method.name, ", ", shards, " shards"));
      const KMeansRequest request = RequestOf(data, method);
      std::map<PointId, int32_t> labels;
      // The token goes from shard to shard: theirs is the order of rows.
      const KMeansResult expected =
          OnSuchShards(data, request.options, shards, &labels);
      ExpectTrained(cluster, request, expected, labels);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KMeansMethods, LloydHamerlyAndElkanAgreeInEveryIteration) {
  const KMeansData data = SomeData("blobs");
  LocalCluster cluster(ShardsInTurn(3));
  Load(cluster, data, data.metric);
  std::vector<Followed> runs;
  for (const KMeansAlgorithm algorithm :
       {KMeansAlgorithm::kLloyd, KMeansAlgorithm::kHamerly,
        KMeansAlgorithm::kElkan}) {
    KMeansRequest request = RequestFor(data, 40, true);
    request.options.algorithm = algorithm;
    request.options.tolerance = 0;
    request.replace = true;
    runs.push_back(
        Follow(cluster.coordinator().jobs().Train(request, {}).get()));
    ASSERT_TRUE(runs.back().result.ok()) << runs.back().result.status();
    ExpectSame(runs.back().result->result, runs[0].result->result);
    ASSERT_EQ(runs.back().reports.size(), runs[0].reports.size());
    for (size_t i = 0; i < runs[0].reports.size(); ++i) {
      const KMeansReport& first = runs[0].reports[i];
      const KMeansReport& now = runs.back().reports[i];
      EXPECT_EQ(now.progress.objective, first.progress.objective);
      EXPECT_EQ(now.progress.moved, first.progress.moved);
      // Bounds stay on the shards.
      EXPECT_EQ(now.statistics_bytes_up, first.statistics_bytes_up);
      EXPECT_EQ(now.statistics_bytes_down, first.statistics_bytes_down);
    }
  }
}

TEST(KMeansMethods, AnEmptyClusterFailsTheJobIfAsked) {
  const KMeansData data = SomeData("blobs");
  LocalCluster cluster(ShardsInTurn(3));
  Load(cluster, data, data.metric);
  KMeansRequest request = RequestFor(data, 13, false);
  FarCentres(request.options);
  request.options.empty = KMeansEmptyPolicy::kError;
  const Followed run =
      Follow(cluster.coordinator().jobs().Train(request, {}).get());
  EXPECT_TRUE(absl::IsFailedPrecondition(run.result.status()))
      << run.result.status();
}

// k (d + 1) b a shard, and k d float32 values to it.
TEST(KMeansMethods, StatisticsAreExactlyAsLongAsTheFormulaSays) {
  std::mt19937_64 random(6);
  struct Shape {
    int32_t shards;
    int64_t k;
    int64_t d;
    KMeansSumForm form;
    int64_t up;
  };
  for (const Shape& shape :
       {Shape{1, 100, 64, KMeansSumForm::kFloat32, 26'000},
        Shape{1, 100, 64, KMeansSumForm::kInt64, 52'000},
        Shape{16, 100, 64, KMeansSumForm::kFloat32, 416'000},
        Shape{1, 50, 32, KMeansSumForm::kFloat32, 6'600},
        Shape{16, 50, 32, KMeansSumForm::kFloat32, 105'600}}) {
    SCOPED_TRACE(absl::StrCat("p=", shape.shards, " k=", shape.k));
    const KMeansData data = Blobs(800, shape.d, 20, 2, random);
    LocalCluster cluster(ShardsInTurn(shape.shards));
    Load(cluster, data, Metric::kSquaredL2);
    KMeansRequest request = RequestFor(data, shape.k, true);
    request.options.form = shape.form;
    request.options.max_iterations = 2;
    request.options.empty = KMeansEmptyPolicy::kKeep;
    const Followed run =
        Follow(cluster.coordinator().jobs().Train(request, {}).get());
    ASSERT_TRUE(run.result.ok()) << run.result.status();
    for (const KMeansReport& report : run.reports) {
      EXPECT_EQ(report.statistics_bytes_up, shape.up);
      EXPECT_EQ(report.statistics_bytes_down,
                shape.shards * shape.k * shape.d * 4);
    }
  }
}

// 10,000 points in 10 blobs: a fixed seed says it all.
TEST(KMeansMethods, ThreadsAndRepetitionsChangeNothing) {
  std::mt19937_64 random(2);
  const KMeansData data = Blobs(10'000, 2, 10, 1, random);
  KMeansRequest request = RequestFor(data, 10, false);
  request.options.seed = 2;
  request.replace = true;
  const KMeansResult expected = Expected(data, request.options);
  for (const int32_t shards : {1, 2, 3, 8}) {
    for (const int32_t threads : {1, 4}) {
      LocalClusterOptions options = ShardsInTurn(shards);
      options.threads = threads;
      options.tail_rows = 4096;
      LocalCluster cluster(options);
      Load(cluster, data, Metric::kSquaredL2);
      for (int run = 0; run < 5; ++run) {
        const Followed trained =
            Follow(cluster.coordinator().jobs().Train(request, {}).get());
        ASSERT_TRUE(trained.result.ok()) << trained.result.status();
        ExpectSame(trained.result->result, expected);
      }
    }
  }
}

}  // namespace
}  // namespace coterie
