#include "api/search_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "api/points_convert.h"
#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

constexpr char kQuery[] = "queries { vector { values { values: [1, 2] } } } ";

absl::StatusOr<SearchRequest> DecodeText(const std::string& text,
                                         const Limits& limits = Limits()) {
  return DecodeSearch(FromText<v1::SearchRequest>("collection: 'c' " + text),
                      limits);
}

// With one query.
absl::StatusOr<SearchRequest> DecodeOne(const std::string& text,
                                        const Limits& limits = Limits()) {
  return DecodeText(kQuery + text, limits);
}

TEST(DecodeSearch, FillsInTheDefaults) {
  const auto request = DecodeOne("k: 10");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->collection, "c");
  ASSERT_EQ(request->queries.size(), 1U);
  EXPECT_EQ(std::get<std::vector<float>>(request->queries[0]),
            (std::vector<float>{1, 2}));
  EXPECT_EQ(request->k, 10);
  EXPECT_EQ(request->offset, 0);
  EXPECT_FALSE(request->radius.has_value());
  EXPECT_FALSE(request->with_vectors);
  EXPECT_TRUE(request->with_attributes.none());
  EXPECT_EQ(request->partial_policy.kind, PartialPolicy::Kind::kFail);
  EXPECT_FALSE(request->profile);
}

TEST(DecodeSearch, TakesEveryField) {
  const auto request = DecodeText(std::string(kQuery) + R"(
    queries { id: 0 } queries { id: 18446744073709551615 }
    k: 3 exact {} offset: 4 with_vectors: true
    with_attributes { names { values: "a" } }
    partial_policy { require { min_ratio: 0.5 } } profile: true
    filter { must_not { range { attribute: "n" gt: 3 } } })");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->queries.size(), 3U);
  EXPECT_EQ(std::get<PointId>(request->queries[1]), 0U);
  EXPECT_EQ(std::get<PointId>(request->queries[2]),
            std::numeric_limits<PointId>::max());
  EXPECT_EQ(request->k, 7) << "offset is in k";
  EXPECT_EQ(request->offset, 4);
  EXPECT_TRUE(request->with_vectors);
  EXPECT_EQ(request->with_attributes.names, std::vector<std::string>{"a"});
  EXPECT_EQ(request->partial_policy.kind, PartialPolicy::Kind::kRequire);
  EXPECT_EQ(request->partial_policy.min_ratio, 0.5);
  EXPECT_TRUE(request->profile);
  EXPECT_FALSE(request->measure_recall);
  EXPECT_TRUE(DecodeOne("k: 1 measure_recall: true")->measure_recall);
  Filter filter;
  filter.must_not.push_back(RangeCondition{"n", {{3, false}}, {}});
  EXPECT_EQ(request->filter, filter);
}

TEST(DecodeSearch, NamesTheBadCondition) {
  ExpectRefused(
      DecodeOne("k: 1 filter { must { match { attribute: \"a\" } } }").status(),
      "filter.must[0].match.any_of", {"no values"});
}

TEST(EncodeSearchReply, RecallIsSetOnlyIfItWasMeasured) {
  SearchReply reply;
  reply.results.resize(2);
  reply.results[1].recall = 0;
  const v1::SearchResponse encoded = EncodeSearchReply(reply, false);
  EXPECT_FALSE(encoded.results(0).has_recall());
  EXPECT_TRUE(encoded.results(1).has_recall());
}

TEST(DecodeSearch, RefusesNoQueriesAndTooMany) {
  ExpectRefused(DecodeText("k: 1").status(), "queries", {"empty"});
  Limits limits;
  limits.queries = 2;
  EXPECT_TRUE(
      DecodeText("queries { id: 1 } queries { id: 1 } k: 1", limits).ok());
  ExpectRefused(
      DecodeText("queries { id: 1 } queries { id: 2 } queries { id: 3 } k: 1",
                 limits)
          .status(),
      "queries", {"3", "limit queries of 2"});
}

// Zero is what a field reads as when it was left out: the difference counts.
TEST(DecodeSearch, TellsKOfZeroFromNoExtent) {
  ExpectRefused(DecodeOne("").status(), "k", {"not set", "radius"});
  ExpectRefused(DecodeOne("k: 0").status(), "k", {"0 ", "1..10000"});
  ExpectRefused(DecodeOne("k: -1").status(), "k", {"-1"});
  ExpectRefused(DecodeOne("k: -2147483648").status(), "k", {"-2147483648"});
}

TEST(DecodeSearch, RadiusOfZeroIsARadius) {
  const auto request = DecodeOne("radius: 0");
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_TRUE(request->radius.has_value());
  EXPECT_EQ(*request->radius, 0);
  EXPECT_EQ(request->k, 10001);
}

TEST(DecodeSearch, RadiusMayBeNegative) {
  // Inner products are negated.
  EXPECT_EQ(DecodeOne("radius: -2.5")->radius, -2.5);
  EXPECT_EQ(DecodeOne("radius: 1e308")->radius, 1e308);
}

TEST(DecodeSearch, RefusesARadiusThatIsNotFinite) {
  ExpectRefused(DecodeOne("radius: nan").status(), "radius", {"nan"});
  ExpectRefused(DecodeOne("radius: inf").status(), "radius", {"inf"});
  ExpectRefused(DecodeOne("radius: -inf").status(), "radius", {"-inf"});
}

TEST(DecodeSearch, RefusesOffsetsThatAreNone) {
  ExpectRefused(DecodeOne("k: 1 offset: -1").status(), "offset", {"-1"});
  ExpectRefused(DecodeOne("radius: 1 offset: -1").status(), "offset", {"-1"});
  ExpectRefused(DecodeOne("radius: 1 offset: 5").status(), "offset",
                {"5", "radius"});
}

TEST(DecodeSearch, BoundsKAndOffsetTogether) {
  EXPECT_EQ(DecodeOne("k: 10000")->k, 10000);
  ExpectRefused(DecodeOne("k: 10001").status(), "k",
                {"10001", "limit k of 10000"});
  EXPECT_EQ(DecodeOne("k: 1 offset: 9999")->k, 10000);
  ExpectRefused(DecodeOne("k: 1 offset: 10000").status(), "offset",
                {"10001", "limit k of 10000"});
  ExpectRefused(DecodeOne("k: 2147483647").status(), "k", {"2147483647"});
  ExpectRefused(DecodeOne("k: 1 offset: 2147483647").status(), "offset",
                {"2147483648"});
}

TEST(DecodeSearch, SumsDoNotWrapUnderTheLargestLimits) {
  Limits limits;
  limits.k = std::numeric_limits<int32_t>::max();
  limits.queries_times_k = std::numeric_limits<int32_t>::max();
  ExpectRefused(DecodeOne("k: 2147483647 offset: 2147483647", limits).status(),
                "offset", {"4294967294"});
  EXPECT_EQ(DecodeOne("radius: 1", limits)->k, int64_t{2147483648});
}

TEST(DecodeSearch, BoundsQueriesTimesK) {
  std::string queries;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&queries, "queries { id: 1 } ");
  EXPECT_TRUE(DecodeText(queries + "k: 10000").ok());
  queries += "queries { id: 1 } ";
  ExpectRefused(DecodeText(queries + "k: 10000").status(), "queries",
                {"101", "1010000", "queries_times_k of 1000000"});
  ExpectRefused(DecodeText(queries + "k: 1 offset: 9999").status(), "queries",
                {"1010000"});
}

TEST(DecodeSearch, NamesTheBadQuery) {
  const std::string good = kQuery;
  ExpectRefused(DecodeText(good + "queries {} k: 1").status(), "queries[1]",
                {"vector or id"});
  ExpectRefused(DecodeText(good + "queries { vector {} } k: 1").status(),
                "queries[1].vector");
  ExpectRefused(
      DecodeText(
          "queries { vector { values { values: [0,0,0,0,0,0,0,nan] } } } k: 1")
          .status(),
      "queries[0].vector.values[7]", {"nan"});
}

TEST(DecodeSearch, VectorsOfOneRequestHaveOneLength) {
  const std::string three =
      "queries { vector { values { values: [1, 2, 3] } } } ";
  ExpectRefused(DecodeText("queries { id: 4 } " + std::string(kQuery) +
                           "queries { id: 5 } " + three + "k: 1")
                    .status(),
                "queries[3].vector",
                {"3 components", "queries[1].vector has 2"});
  EXPECT_TRUE(DecodeText(std::string(kQuery) +
                         "queries { vector { packed { dtype: I8 data: 'ab' } } "
                         "} k: 1")
                  .ok());
}

TEST(DecodeSearch, PolicyDefaultsToFail) {
  using Kind = PartialPolicy::Kind;
  const auto kind = [](const std::string& text) {
    return DecodeOne("k: 1 " + text)->partial_policy.kind;
  };
  EXPECT_EQ(kind(""), Kind::kFail);
  EXPECT_EQ(kind("partial_policy {}"), Kind::kFail);
  EXPECT_EQ(kind("partial_policy { fail {} }"), Kind::kFail);
  EXPECT_EQ(kind("partial_policy { allow {} }"), Kind::kAllow);
  EXPECT_EQ(kind("partial_policy { require { min_ratio: 1 } }"),
            Kind::kRequire);
}

TEST(DecodeSearch, RefusesRatiosThatAreNone) {
  for (const char* ratio : {"0", "-0.5", "1.0000001", "nan", "inf", "-inf"}) {
    ExpectRefused(
        DecodeOne(absl::StrCat("k: 1 partial_policy { require { min_ratio: ",
                               ratio, " } }"))
            .status(),
        "partial_policy.require.min_ratio", {"(0, 1]"});
  }
  // Left out it reads as 0.
  ExpectRefused(DecodeOne("k: 1 partial_policy { require {} }").status(),
                "partial_policy.require.min_ratio", {"0 "});
}

TEST(DecodeSearch, RefusesCollectionNamesOfNoUse) {
  v1::SearchRequest request =
      FromText<v1::SearchRequest>("queries {id: 1} k: 1");
  ExpectRefused(DecodeSearch(request, Limits()).status(), "collection");
  request.set_collection(std::string(129, 'x'));
  ExpectRefused(DecodeSearch(request, Limits()).status(), "collection",
                {"collection_name_bytes of 128"});
}

SearchReply FullReply() {
  SearchReply reply;
  Hit zero;  // id 0 at distance 0
  Hit rich;
  rich.neighbor = {std::numeric_limits<PointId>::max(), 0.1};
  rich.vector = {1, -2};
  rich.attributes = {{"a", int64_t{-5}}};
  reply.results = {{{zero, rich}, true}, {{}, false}};
  reply.coverage = {3, 2, 100, 70, true, {{1, "UNAVAILABLE: gone"}}};
  ShardCertificate shard;
  shard.shard_id = 2;
  shard.sequence = 11;
  shard.rows_live = 12;
  shard.slots = {{63, 13, 14, 0xFEDCBA9876543210}};
  shard.accounts = {{4, 5, 6, 7}};
  reply.certificate = {9, {shard}, "why"};
  reply.shard_times = {{2, {"scan", 21, 22, 0.25, 0.5, 0.75}}};
  reply.rounds = 2;
  reply.total_seconds = 1.5;
  reply.merge_seconds = 0.125;
  reply.cost = {4, 31, 32, 0.5, 0.25, 0.75, 0.125, -33};
  return reply;
}

TEST(EncodeSearchReply, WritesHitsInOrder) {
  const v1::SearchResponse out = EncodeSearchReply(FullReply(), false);
  ASSERT_EQ(out.results_size(), 2);
  EXPECT_TRUE(out.results(0).exact());
  ASSERT_EQ(out.results(0).hits_size(), 2);
  EXPECT_EQ(out.results(0).hits(0).id(), 0U);
  EXPECT_EQ(out.results(0).hits(0).distance(), 0);
  EXPECT_FALSE(out.results(0).hits(0).has_vector());
  const v1::Hit& rich = out.results(0).hits(1);
  EXPECT_EQ(rich.id(), std::numeric_limits<PointId>::max());
  EXPECT_EQ(rich.distance(), 0.1);
  EXPECT_EQ(*DecodeVector(rich.vector(), "v", Limits()),
            (std::vector<float>{1, -2}));
  EXPECT_EQ(rich.attributes().at("a").int_value(), -5);
  EXPECT_FALSE(out.results(1).exact());
  EXPECT_EQ(out.results(1).hits_size(), 0);
}

TEST(EncodeSearchReply, AlwaysSaysTheCoverage) {
  const v1::SearchResponse out = EncodeSearchReply(FullReply(), false);
  EXPECT_EQ(out.coverage().ShortDebugString(), FromText<v1::Coverage>(R"(
              shards_total: 3 shards_ok: 2 rows_total: 100 rows_covered: 70
              estimated: true
              missing { shard_id: 1 reason: "UNAVAILABLE: gone" })")
                                                   .ShortDebugString());
  EXPECT_FALSE(out.has_certificate());
  EXPECT_FALSE(out.has_profile());
  EXPECT_FALSE(out.has_cost());
  EXPECT_TRUE(EncodeSearchReply(SearchReply(), false).has_coverage());
}

TEST(EncodeSearchReply, WritesTheEvidenceWithProfile) {
  const v1::SearchResponse out = EncodeSearchReply(FullReply(), true);
  EXPECT_EQ(out.certificate().ShortDebugString(), FromText<v1::Certificate>(R"(
              map_version: 9
              shards {
                shard_id: 2 sequence: 11 rows_live: 12
                slots { slot: 63 offset: 13 rows: 14
                        id_checksum: 0xFEDCBA9876543210 }
                queries { rows_evaluated: 4 rows_ruled_out: 5
                          rows_filtered: 6 rows_rescored: 7 }
              }
              withheld: "why")")
                                                      .ShortDebugString());
  EXPECT_EQ(out.profile().ShortDebugString(), FromText<v1::Profile>(R"(
              shards { shard_id: 2 plan: "scan" rows_scanned: 21
                       bytes_scanned: 22 queue_seconds: 0.25
                       scan_seconds: 0.5 round_trip_seconds: 0.75 }
              total_seconds: 1.5 merge_seconds: 0.125 rounds: 2)")
                                                  .ShortDebugString());
  EXPECT_EQ(out.cost().ShortDebugString(), FromText<v1::CommunicationCost>(R"(
              messages: 4 bytes_sent: 31 bytes_received: 32
              measured_seconds: 0.5 compute_seconds: 0.25
              predicted_seconds: 0.75 ratio: 0.125
              bytes_saved: -33)")
                                               .ShortDebugString());
}

TEST(EncodeSearchReply, SurvivesTheWire) {
  const v1::SearchResponse out = EncodeSearchReply(FullReply(), true);
  v1::SearchResponse back;
  ASSERT_TRUE(back.ParseFromString(out.SerializeAsString()));
  EXPECT_EQ(back.DebugString(), out.DebugString());
}

TEST(DecodeSearch, TakesStrategies) {
  EXPECT_EQ(DecodeOne("k: 1")->strategy, Strategy(ExactStrategy()));
  EXPECT_EQ(DecodeOne("k: 1 exact {}")->strategy, Strategy(ExactStrategy()));
  EXPECT_EQ(DecodeOne("k: 1 tree {}")->strategy, Strategy(TreeStrategy()));
  EXPECT_EQ(DecodeOne("k: 1 tree { max_leaves: 7 epsilon: 0.5 "
                      "target_recall: 0.9 }")
                ->strategy,
            Strategy(TreeStrategy{7, 0.5, 0.9}));
  EXPECT_EQ(DecodeOne("k: 1 lsh {}")->strategy, Strategy(LshStrategy()));
  EXPECT_EQ(
      DecodeOne("k: 1 lsh { target_recall: 1 max_candidates: 9 }")->strategy,
      Strategy(LshStrategy{1, 9}));
  EXPECT_EQ(DecodeOne("k: 1 faiss {}")->strategy, Strategy(FaissStrategy()));
  EXPECT_EQ(DecodeOne("k: 1 faiss { nprobe: 4 candidates: 5 }")->strategy,
            Strategy(FaissStrategy{0, 4, 0, 5}));
  EXPECT_EQ(DecodeOne("k: 1 faiss { ef_search: 9 }")->strategy,
            Strategy(FaissStrategy{0, 0, 9, 0}));
  EXPECT_EQ(DecodeOne("k: 1 auto {}")->strategy, Strategy(AutoStrategy{1}));
  EXPECT_EQ(DecodeOne("k: 1 auto { target_recall: 0.5 }")->strategy,
            Strategy(AutoStrategy{0.5}));
}

TEST(DecodeSearch, RefusesStrategiesOutOfRange) {
  ExpectRefused(DecodeOne("k: 1 tree { max_leaves: -1 }").status(),
                "tree.max_leaves", {"-1"});
  for (const char* epsilon : {"-0.1", "nan", "inf"}) {
    ExpectRefused(
        DecodeOne(std::string("k: 1 tree { epsilon: ") + epsilon + " }")
            .status(),
        "tree.epsilon");
  }
  for (const char* recall : {"-0.1", "1.1", "nan", "inf"}) {
    for (const char* kind : {"tree", "lsh", "auto", "faiss"}) {
      ExpectRefused(DecodeOne(std::string("k: 1 ") + kind +
                              " { target_recall: " + recall + " }")
                        .status(),
                    std::string(kind) + ".target_recall", {"(0, 1]"});
    }
  }
  ExpectRefused(DecodeOne("k: 1 lsh { max_candidates: -2 }").status(),
                "lsh.max_candidates", {"-2"});
  for (const char* limit : {"nprobe", "ef_search", "candidates"}) {
    ExpectRefused(
        DecodeOne(std::string("k: 1 faiss { ") + limit + ": -3 }").status(),
        std::string("faiss.") + limit, {"-3"});
  }
  for (const char* two :
       {"nprobe: 1 ef_search: 1", "nprobe: 1 target_recall: 1",
        "ef_search: 1 target_recall: 1"}) {
    ExpectRefused(DecodeOne(std::string("k: 1 faiss { ") + two + " }").status(),
                  "faiss", {"one of"});
  }
}

TEST(CheckStrategy, AsksForTheCollectionsIndex) {
  CollectionSpec spec;
  spec.name = "c";
  EXPECT_TRUE(CheckStrategy(ExactStrategy(), spec).ok());
  const absl::Status status = CheckStrategy(TreeStrategy(), spec);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "\"c\" has no tree index"))
      << status;
  spec.indexes = {{IndexKind::kTree}};
  EXPECT_TRUE(CheckStrategy(TreeStrategy(), spec).ok());
  EXPECT_FALSE(CheckStrategy(LshStrategy(), spec).ok());
  EXPECT_FALSE(CheckStrategy(FaissStrategy(), spec).ok());
}

TEST(CheckStrategy, LimitsOfFaissAreOfTheIndexThatThereIs) {
  CollectionSpec spec;
  spec.name = "c";
  const FaissStrategy lists = {0, 4, 0, 0};
  const FaissStrategy graph = {0, 0, 40, 0};
  for (const char* factory : {"HNSW8", "PCA2,IVF3,Flat"}) {
    spec.indexes = {{IndexKind::kFaiss, 0, 0.9, factory}};
    EXPECT_TRUE(CheckStrategy(FaissStrategy(), spec).ok());
    const bool is_graph = spec.indexes[0].factory == "HNSW8";
    EXPECT_TRUE(CheckStrategy(is_graph ? graph : lists, spec).ok());
    const absl::Status status = CheckStrategy(is_graph ? lists : graph, spec);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), factory)) << status;
  }
}

}  // namespace
}  // namespace coterie
