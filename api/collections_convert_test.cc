#include "api/collections_convert.h"

#include <gtest/gtest.h>

#include <string>

#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

absl::StatusOr<CollectionSpec> Decode(const std::string& text,
                                      const Limits& limits = Limits()) {
  return DecodeCollection(FromText<v1::Collection>(text), limits);
}

TEST(DecodeCollection, FillsInTheSlots) {
  const auto spec = Decode("name: 'c' dimension: 3 metric: COSINE");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->name, "c");
  EXPECT_EQ(spec->dimension, 3);
  EXPECT_EQ(spec->metric, Metric::kCosine);
  EXPECT_EQ(spec->slots, 64);
  EXPECT_EQ(spec->number, 0U);
  EXPECT_TRUE(spec->owner.empty());
}

TEST(DecodeCollection, DefaultKeepsALowerLimit) {
  Limits limits;
  limits.slots = 16;
  EXPECT_EQ(Decode("name: 'c' dimension: 3 metric: COSINE", limits)->slots, 16);
  ExpectRefused(
      Decode("name: 'c' dimension: 3 metric: COSINE slots: 17", limits)
          .status(),
      "collection.slots", {"17", "16"});
}

TEST(DecodeCollection, MetricMustBeSaid) {
  ExpectRefused(Decode("name: 'c' dimension: 3").status(), "collection.metric",
                {"0 "});
  v1::Collection unknown = FromText<v1::Collection>("name: 'c' dimension: 3");
  for (const int metric : {4, -1, 257}) {
    unknown.set_metric(static_cast<v1::Metric>(metric));
    ExpectRefused(DecodeCollection(unknown, Limits()).status(),
                  "collection.metric", {std::to_string(metric)});
  }
}

TEST(DecodeCollection, RefusesTheRestByField) {
  ExpectRefused(Decode("dimension: 3 metric: COSINE").status(),
                "collection.name");
  ExpectRefused(Decode("name: 'a/b' dimension: 3 metric: COSINE").status(),
                "collection.name", {"\"a/b\""});
  ExpectRefused(Decode("name: 'c' metric: COSINE").status(),
                "collection.dimension", {"0"});
  ExpectRefused(Decode("name: 'c' dimension: 16385 metric: COSINE").status(),
                "collection.dimension", {"16385", "16384"});
  ExpectRefused(
      Decode("name: 'c' dimension: 1 metric: COSINE slots: -1").status(),
      "collection.slots", {"-1"});
}

TEST(Collection, ReturnsUnchangedThroughBothConversions) {
  for (const Metric metric :
       {Metric::kSquaredL2, Metric::kInnerProduct, Metric::kCosine}) {
    CollectionSpec spec;
    spec.name = "words.v2";
    spec.dimension = 16384;
    spec.metric = metric;
    spec.slots = 1;
    v1::Collection out;
    EncodeCollection(spec, &out);
    const auto decoded = DecodeCollection(out, Limits());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, spec);
  }
}

TEST(EncodeStats, AddsUpTheShards) {
  CollectionSpec spec;
  spec.dimension = 16384;
  ShardCollectionStats a;
  a.shard_id = 0;
  a.points = 3000000000;
  a.dead_rows = 1;
  a.sealed_segments = 2;
  a.tail_rows = 3;
  a.memory_bytes = 4;
  a.slots = 5;
  a.sequence = 6;
  ShardCollectionStats b;
  b.shard_id = 1;
  b.points = 1;
  b.memory_bytes = 10;
  v1::CollectionStats out;
  EncodeStats(spec, {a, b}, &out);
  EXPECT_EQ(out.points(), 3000000001);
  EXPECT_EQ(out.vector_bytes(), 3000000001 * 16384 * 4);
  EXPECT_EQ(out.memory_bytes(), 14);
  ASSERT_EQ(out.shards_size(), 2);
  EXPECT_EQ(out.shards(0).points(), 3000000000);
  EXPECT_EQ(out.shards(0).dead_rows(), 1);
  EXPECT_EQ(out.shards(0).sealed_segments(), 2);
  EXPECT_EQ(out.shards(0).tail_rows(), 3);
  EXPECT_EQ(out.shards(0).memory_bytes(), 4);
  EXPECT_EQ(out.shards(0).slots(), 5);
  EXPECT_EQ(out.shards(0).sequence(), 6);
  EXPECT_EQ(out.shards(1).shard_id(), 1);
}

TEST(EncodeShard, WritesEveryField) {
  ShardDescription shard;
  shard.shard_id = 1;
  shard.address = "in-process";
  shard.state = ShardDescription::State::kUnreachable;
  shard.reason = "no answer";
  shard.incarnation = 2;
  shard.sequence = 3;
  shard.points = 4;
  shard.memory_bytes = 5;
  shard.queue_length = 6;
  shard.queue_capacity = 7;
  shard.threads = 8;
  shard.queues = {{WorkClass::kSearch, 1, 2, 3, 4, 0.5},
                  {WorkClass::kRead, 0, 2, 0, 0, 0}};
  shard.segment_files = {9, 10, 11};
  v1::ShardDescription out;
  EncodeShard(shard, &out);
  EXPECT_EQ(out.ShortDebugString(), FromText<v1::ShardDescription>(R"(
              shard_id: 1 address: "in-process" state: UNREACHABLE
              reason: "no answer" incarnation: 2 sequence: 3 points: 4
              memory_bytes: 5 queue_length: 6 queue_capacity: 7 threads: 8
              queues { work_class: SEARCH length: 1 capacity: 2 refused: 3
                       taken: 4 wait_seconds: 0.5 }
              queues { work_class: READ capacity: 2 }
              segment_files { in_use: 9 refused: 10 write_failures: 11 })")
                                        .ShortDebugString());
  shard.state = ShardDescription::State::kLoading;
  EncodeShard(shard, &out);
  EXPECT_EQ(out.state(), v1::ShardDescription::LOADING);
  shard.state = ShardDescription::State::kServing;
  EncodeShard(shard, &out);
  EXPECT_EQ(out.state(), v1::ShardDescription::SERVING);
}

TEST(DecodeCollection, IndexesGetTheirDefaults) {
  const auto spec = Decode(R"(name: 'c' dimension: 3 metric: COSINE
    indexes { tree {} } indexes { lsh {} }
    indexes { faiss { factory: 'IVF4,PQ3' } })");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->indexes.size(), 3U);
  EXPECT_EQ(spec->indexes[0], IndexSpec{IndexKind::kTree});
  EXPECT_EQ(spec->indexes[1], (IndexSpec{IndexKind::kLsh, 192, 0.9}));
  EXPECT_EQ(spec->indexes[1].tables(), 32);
  EXPECT_EQ(spec->indexes[2],
            (IndexSpec{IndexKind::kFaiss, 0, 0.9, "IVF4,PQ3"}));
  v1::Collection encoded;
  EncodeCollection(*spec, &encoded);
  const auto again = DecodeCollection(encoded, Limits());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *spec);
}

TEST(DecodeCollection, RefusesIndexesThatAreNone) {
  const auto refused = [](const std::string& indexes) {
    return Decode("name: 'c' dimension: 3 metric: COSINE " + indexes).status();
  };
  ExpectRefused(refused("indexes {}"), "collection.indexes[0]", {"not set"});
  ExpectRefused(refused("indexes { tree {} } indexes { tree {} }"),
                "collection.indexes[1]", {"tree", "at most one"});
  ExpectRefused(refused("indexes { lsh { bytes_per_row: 67 } }"),
                "collection.indexes[0]", {"67", "68..1088"});
  ExpectRefused(refused("indexes { lsh { bytes_per_row: 1089 } }"),
                "collection.indexes[0]", {"1089"});
  ExpectRefused(refused("indexes { lsh { bytes_per_row: -4 } }"),
                "collection.indexes[0]", {"-4"});
  for (const char* recall : {"1", "-0.5", "nan", "inf"}) {
    ExpectRefused(refused(std::string("indexes { lsh { target_recall: ") +
                          recall + " } }"),
                  "collection.indexes[0]", {"target_recall", "(0, 1)"});
    ExpectRefused(
        refused(
            std::string("indexes { faiss { factory: 'HNSW8' target_recall: ") +
            recall + " } }"),
        "collection.indexes[0]", {"target_recall", "(0, 1)"});
  }
  ExpectRefused(refused("indexes { faiss { factory: 'Flat' } }"),
                "collection.indexes[0]",
                {"'Flat'", "HNSW<links>", "IVF<lists>", "PQ<parts>"});
  ExpectRefused(refused("indexes { faiss {} }"), "collection.indexes[0]",
                {"faiss.factory", "accepted"});
  ExpectRefused(refused("indexes { faiss { factory: 'IVF4,PQ2' } }"),
                "collection.indexes[0]", {"PQ of 2 parts", "dimension 3"});
}

}  // namespace
}  // namespace coterie
