#include "api/clustering_convert.h"

#include <functional>
#include <string>
#include <vector>

#include "api/text_proto_for_test.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Train = v1::TrainKMeansRequest;

Train ARequest() {
  return FromText<Train>(R"(collection: "c" name: "n" k: 3)");
}

TEST(ClusteringConvert, LeavesOutMeansTheDefaults) {
  const auto request = DecodeTrainKMeans(ARequest(), Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  KMeansOptions expected;
  expected.k = 3;
  EXPECT_EQ(request->options, expected);
  EXPECT_EQ(request->checkpoint_every, 10);
  EXPECT_FALSE(request->replace);
}

TEST(ClusteringConvert, TakesEveryOption) {
  const auto request = DecodeTrainKMeans(FromText<Train>(R"(
        collection: "c" name: "n" k: 2 weight_attribute: "w" skip_missing: true
        algorithm: MINI_BATCH init: GIVEN
        initial_centroids { values { values: [ 1, 2 ] } }
        initial_centroids { values { values: [ 3, 4 ] } }
        max_iterations: 7 tolerance: 0 relative_tolerance: 0.5 seed: 11
        empty_clusters: DROP sums: EXACT_CHANGES batch_rows: 64
        threads_per_shard: 2 checkpoint_every: 5 label_attribute: "l"
        measure: true silhouette_rows: 100 replace: true)"),
                                         Limits());
  ASSERT_TRUE(request.ok()) << request.status();
  const KMeansOptions& options = request->options;
  EXPECT_EQ(options.seeding, KMeansSeeding::kGiven);
  EXPECT_THAT(options.given, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(options.max_iterations, 7);
  EXPECT_EQ(options.tolerance, 0);
  EXPECT_EQ(options.relative_tolerance, 0.5);
  EXPECT_EQ(options.seed, 11U);
  EXPECT_EQ(options.empty, KMeansEmptyPolicy::kDrop);
  EXPECT_EQ(options.form, KMeansSumForm::kChanged);
  EXPECT_EQ(options.batch_rows, 64);
  EXPECT_EQ(options.silhouette_rows, 100);
  EXPECT_EQ(request->threads, 2);
  EXPECT_EQ(request->checkpoint_every, 5);
  EXPECT_EQ(request->label_attribute, "l");
  EXPECT_TRUE(request->skip_missing);
  EXPECT_TRUE(request->replace);
}

TEST(ClusteringConvert, NamesWhatIsWrong) {
  struct Wrong {
    std::function<void(Train*)> spoil;
    std::string field;
  };
  const std::vector<Wrong> all = {
      {[](Train* r) { r->clear_collection(); }, "collection"},
      {[](Train* r) { r->set_name("a/b"); }, "name"},
      {[](Train* r) { r->set_k(0); }, "k"},
      {[](Train* r) { r->set_k(-1); }, "k"},
      {[](Train* r) { r->set_algorithm(static_cast<Train::Algorithm>(99)); },
       "algorithm"},
      {[](Train* r) { r->set_init(static_cast<Train::Init>(99)); }, "init"},
      {[](Train* r) { r->set_init(Train::GIVEN); }, "init"},
      {[](Train* r) {
         r->set_init(Train::RANDOM);
         r->set_initial_clustering("other");
       },
       "init"},
      {[](Train* r) {
         r->add_initial_centroids()->mutable_values()->add_values(1);
         r->set_initial_clustering("other");
       },
       "initial_clustering"},
      {[](Train* r) {
         r->add_initial_centroids()->mutable_values()->add_values(1);
         auto* second = r->add_initial_centroids()->mutable_values();
         second->add_values(1);
         second->add_values(1);
       },
       "initial_centroids[1]"},
      {[](Train* r) { r->set_batch_rows(5); }, "batch_rows"},
      {[](Train* r) { r->set_tolerance(-1); }, "tolerance"},
      {[](Train* r) { r->set_relative_tolerance(2); }, "relative_tolerance"},
      {[](Train* r) { r->set_n_init(-1); }, "n_init"},
      {[](Train* r) { r->set_checkpoint_every(-1); }, "checkpoint_every"},
      {[](Train* r) { r->set_label_attribute(std::string(129, 'x')); },
       "label_attribute"},
  };
  for (const Wrong& wrong : all) {
    Train request = ARequest();
    wrong.spoil(&request);
    const auto decoded = DecodeTrainKMeans(request, Limits());
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << wrong.field;
    EXPECT_THAT(std::string(decoded.status().message()),
                HasSubstr(wrong.field));
  }
}

TEST(ClusteringConvert, AssignTakesIdsOrVectorsWithinLimits) {
  v1::AssignRequest request;
  request.set_collection("c");
  request.set_clustering("n");
  EXPECT_FALSE(DecodeAssign(request, Limits()).ok());
  request.add_ids(7);
  auto decoded = DecodeAssign(request, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(decoded->ids, ElementsAre(7));
  EXPECT_EQ(decoded->top_m, 1);
  request.set_top_m(-1);
  EXPECT_FALSE(DecodeAssign(request, Limits()).ok());
  request.set_top_m(10001);
  EXPECT_FALSE(DecodeAssign(request, Limits()).ok());
  request.set_top_m(2);
  request.add_vectors()->mutable_values()->add_values(1);
  EXPECT_FALSE(DecodeAssign(request, Limits()).ok());
  request.clear_ids();
  EXPECT_TRUE(DecodeAssign(request, Limits()).ok());
}

TEST(ClusteringConvert, ResultsArriveWhole) {
  Clustering clustering;
  clustering.collection = "c";
  clustering.name = "n";
  clustering.metric = Metric::kCosine;
  clustering.dimension = 2;
  clustering.rows = 10;
  clustering.result.centres = {1, 2, 3, 4};
  clustering.result.weights = {6, 4};
  clustering.result.active = {1, 0};
  clustering.result.objective = 1.5;
  clustering.result.iterations = 3;
  clustering.result.stop = KMeansStop::kTolerance;
  clustering.warnings = {"beware"};
  v1::Clustering out;
  EncodeClustering(clustering, &out);
  ASSERT_EQ(out.clusters_size(), 2);
  EXPECT_EQ(out.clusters(0).weight(), 6);
  EXPECT_TRUE(out.clusters(1).inactive());
  EXPECT_EQ(out.clusters(1).centroid().packed().data().size(), 8U);
  EXPECT_EQ(out.metric(), v1::COSINE);
  EXPECT_EQ(out.stop(), v1::Clustering::TOLERANCE);
  EXPECT_THAT(out.warnings(), ElementsAre("beware"));
}

}  // namespace
}  // namespace coterie
