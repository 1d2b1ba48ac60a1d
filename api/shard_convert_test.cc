#include "api/shard_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As below in every test: fails to compile when a type grows a field that the
// wire does not carry yet.
void ExpectSame(const Point& a, const Point& b) {
  const auto& [id, vector, attributes] = a;
  EXPECT_EQ(id, b.id);
  EXPECT_EQ(vector, b.vector);
  EXPECT_EQ(attributes, b.attributes);
}

TEST(ShardConvert, RequestsReachOnlyWhomTheyAreFor) {
  v1::ShardRequestHeader header;
  EXPECT_TRUE(CheckShardRequestHeader(header, 2, "u", "s").ok());
  header.set_shard_id(2);
  header.set_cluster_uuid("u");
  EXPECT_TRUE(CheckShardRequestHeader(header, 2, "u", "s").ok());
  const absl::Status shard = CheckShardRequestHeader(header, 0, "u", "s");
  EXPECT_EQ(shard.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(shard.message()), HasSubstr("for shard 2"));
  EXPECT_THAT(std::string(shard.message()), HasSubstr("is shard 0"));
  const absl::Status cluster = CheckShardRequestHeader(header, 2, "v", "s");
  EXPECT_EQ(cluster.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(cluster.message()), HasSubstr("v"));
  header.set_store_id("s");
  EXPECT_TRUE(CheckShardRequestHeader(header, 2, "u", "s").ok());
  EXPECT_TRUE(CheckShardRequestHeader(header, 2, "u", "").ok());
  const absl::Status store = CheckShardRequestHeader(header, 2, "u", "t");
  EXPECT_EQ(store.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(store.message()), HasSubstr("runs on store \"t\""));
  // Shard 0 is a shard like any other, not "unset".
  header.set_shard_id(0);
  EXPECT_FALSE(CheckShardRequestHeader(header, 2, "u", "s").ok());
}

TEST(ShardConvert, RepliesOfOtherShardsAreRefused) {
  v1::ShardReplyHeader header;
  header.set_shard_id(4);
  EXPECT_TRUE(CheckShardReplyHeader(header, 4).ok());
  EXPECT_TRUE(CheckShardReplyHeader(header, std::nullopt).ok());
  const absl::Status foreign = CheckShardReplyHeader(header, 1);
  EXPECT_EQ(foreign.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("shard 1"));
  EXPECT_THAT(std::string(foreign.message()), HasSubstr("shard 4"));
  header.set_shard_seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(CheckShardReplyHeader(header, 4).code(),
            absl::StatusCode::kInternal);
}

WriteBatch EveryWrite() {
  WriteBatch batch;
  batch.collection = "c";
  batch.upserts = {{0,
                    {1.5F, -3e38F, 1e-45F},
                    {{"s", std::string("\xC3\xA9")},
                     {"i", std::numeric_limits<int64_t>::min()},
                     {"d", -0.25},
                     {"b", false},
                     {"l", std::vector<std::string>{"x", ""}}}},
                   {~PointId{0}, {0, 0, 0}, {}},
                   {7, {1, 2, 3}, {}}};
  batch.deletes = {9, 8};
  batch.updates = {{5, {{"a", true}}}, {6, {}}};
  batch.mode = AttributeMode::kReplace;
  batch.request_id = RequestId{std::string("\0\xFF", 2), 0};
  return batch;
}

TEST(ShardConvert, WritesReturnUnchanged) {
  const WriteBatch batch = EveryWrite();
  v1::ShardWriteRequest encoded;
  EncodeShardRequest(batch, &encoded);
  const auto decoded = DecodeShardRequest(encoded, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& [collection, upserts, deletes, updates, mode, request_id, number,
               delete_where] = *decoded;
  EXPECT_EQ(collection, "c");
  EXPECT_TRUE(delete_where.empty());
  EXPECT_EQ(deletes, batch.deletes);
  ASSERT_EQ(upserts.size(), 3U);
  for (size_t i = 0; i < 3; ++i) ExpectSame(batch.upserts[i], upserts[i]);
  ASSERT_EQ(updates.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const auto& [id, attributes] = updates[i];
    EXPECT_EQ(id, batch.updates[i].id);
    EXPECT_EQ(attributes, batch.updates[i].attributes);
  }
  EXPECT_EQ(mode, AttributeMode::kReplace);
  EXPECT_EQ(request_id, batch.request_id);
}

TEST(ShardConvert, DeletesByFilterReturnUnchangedAndComeAlone) {
  WriteBatch batch;
  batch.collection = "c";
  batch.delete_where.must.resize(1);
  batch.delete_where.must[0] = HasAttributeCondition{"a"};
  v1::ShardWriteRequest encoded;
  EncodeShardRequest(batch, &encoded);
  const auto decoded = DecodeShardRequest(encoded, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->delete_where, batch.delete_where);
  encoded.add_deletes(1);
  EXPECT_THAT(
      std::string(DecodeShardRequest(encoded, Limits()).status().message()),
      HasSubstr("delete_where"));
}

TEST(ShardConvert, RefusesWritesThatAreNone) {
  const auto refused = [](const std::string& field,
                          const std::function<void(v1::ShardWriteRequest*)>& f,
                          const Limits& limits = Limits()) {
    v1::ShardWriteRequest encoded;
    EncodeShardRequest(EveryWrite(), &encoded);
    f(&encoded);
    ExpectRefused(DecodeShardRequest(encoded, limits).status(), field);
  };
  Limits limits;
  limits.points_per_upsert = 2;
  refused(
      "upserts", [](auto*) {}, limits);
  limits.points_per_upsert = 1;
  refused(
      "updates", [](auto* r) { r->clear_upserts(); }, limits);
  limits = Limits();
  limits.ids_per_request = 1;
  refused(
      "deletes", [](auto*) {}, limits);
  refused("collection", [](auto* r) { r->clear_collection(); });
  refused("upserts[1].vector",
          [](auto* r) { r->mutable_upserts(1)->clear_vector(); });
  refused("updates[1].attributes[\"b\"]",
          [](auto* r) { (*r->mutable_updates(1)->mutable_attributes())["b"]; });
  refused("request_id.client_id",
          [](auto* r) { r->mutable_request_id()->clear_client_id(); });
  refused("request_id.client_id", [](auto* r) {
    r->mutable_request_id()->set_client_id(std::string(65, 'x'));
  });
  refused("request_id.sequence",
          [](auto* r) { r->mutable_request_id()->set_sequence(-1); });
}

TEST(ShardConvert, RepliesToWritesReturnUnchanged) {
  v1::ShardWriteResponse response;
  EncodeShardReply(WriteReply{3, 2, 1, 4, {9, 0}, 5}, &response);
  const auto reply = DecodeShardReply(response);
  ASSERT_TRUE(reply.ok()) << reply.status();
  const auto& [upserted, deleted, sequence, updated, missing, duplicates] =
      *reply;
  EXPECT_THAT(
      (std::vector<int64_t>{upserted, deleted, sequence, updated, duplicates}),
      ElementsAre(3, 2, 1, 4, 5));
  EXPECT_THAT(missing, ElementsAre(9, 0));
  response.set_duplicates(-2);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response).status()));
}

TEST(ShardConvert, GetsReturnUnchangedAndMustAnswerEachId) {
  GetRequest get{"c", {5, 6, 5, 7}, true, {false, {"a"}}};
  v1::ShardGetRequest encoded;
  EncodeShardRequest(get, &encoded);
  const auto decoded = DecodeShardRequest(encoded, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& [collection, ids, with_vectors, selector, number] = *decoded;
  EXPECT_EQ(collection, "c");
  EXPECT_EQ(ids, get.ids);
  EXPECT_TRUE(with_vectors);
  EXPECT_FALSE(selector.all);
  EXPECT_THAT(selector.names, ElementsAre("a"));

  GetReply reply;
  reply.points = {{5, {1}, {}}, {5, {1}, {}}};
  reply.missing = {6, 7};
  v1::ShardGetResponse response;
  EncodeShardReply(reply, &response);
  const auto received = DecodeShardReply(response, get);
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->points.size(), 2U);
  EXPECT_THAT(received->missing, ElementsAre(6, 7));

  const auto refuses = [&](const std::function<void(v1::GetResponse*)>& lie) {
    v1::ShardGetResponse lying = response;
    lie(lying.mutable_get());
    return absl::IsInternal(DecodeShardReply(lying, get).status());
  };
  EXPECT_TRUE(refuses([](auto* r) { r->mutable_points()->RemoveLast(); }));
  EXPECT_TRUE(refuses([](auto* r) { r->mutable_points(0)->set_id(6); }));
  EXPECT_TRUE(refuses([](auto* r) { r->add_missing(8); }));
  EXPECT_TRUE(refuses([](auto* r) { r->mutable_points(1)->clear_vector(); }));
  EXPECT_TRUE(refuses([](auto* r) {
    r->mutable_points(1)->mutable_vector()->mutable_packed()->set_data("x");
  }));
  get.with_vectors = false;
  EXPECT_TRUE(refuses([](auto*) {}));
}

Filter EveryCondition() {
  Filter filter;
  filter.must = {
      MatchCondition{"a", {std::string("x"), int64_t{-1}, true}},
      RangeCondition{"b", RangeCondition::Bound{1, true},
                     RangeCondition::Bound{2, false}},
      RangeCondition{"b", RangeCondition::Bound{-1, false}, std::nullopt},
      RangeCondition{"b", std::nullopt, RangeCondition::Bound{9, true}}};
  filter.should = {HasAttributeCondition{"c"}, IdCondition{{}}};
  filter.must_not = {IdCondition{{1, 2, ~PointId{0}}}};
  return filter;
}

TEST(ShardConvert, FiltersReturnUnchanged) {
  v1::ShardCountRequest encoded;
  EncodeShardRequest(CountRequest{"c", EveryCondition()}, &encoded);
  const auto decoded = DecodeShardRequest(encoded, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& [must, should, must_not] = decoded->filter;
  ASSERT_EQ(must.size(), 4U);
  const auto& match = std::get<MatchCondition>(must[0]);
  EXPECT_EQ(match.attribute, "a");
  EXPECT_THAT(match.any_of,
              ElementsAre(AttributeValue(std::string("x")),
                          AttributeValue(int64_t{-1}), AttributeValue(true)));
  const auto& range = std::get<RangeCondition>(must[1]);
  EXPECT_TRUE(range.lower->inclusive);
  EXPECT_EQ(range.lower->value, 1);
  EXPECT_FALSE(range.upper->inclusive);
  EXPECT_EQ(range.upper->value, 2);
  EXPECT_FALSE(std::get<RangeCondition>(must[2]).lower->inclusive);
  EXPECT_FALSE(std::get<RangeCondition>(must[2]).upper.has_value());
  EXPECT_FALSE(std::get<RangeCondition>(must[3]).lower.has_value());
  EXPECT_TRUE(std::get<RangeCondition>(must[3]).upper->inclusive);
  ASSERT_EQ(should.size(), 2U);
  EXPECT_EQ(std::get<HasAttributeCondition>(should[0]).attribute, "c");
  EXPECT_TRUE(std::get<IdCondition>(should[1]).ids.empty());
  ASSERT_EQ(must_not.size(), 1U);
  EXPECT_THAT(std::get<IdCondition>(must_not[0]).ids,
              ElementsAre(1, 2, ~PointId{0}));

  v1::ShardCountResponse response;
  EncodeShardReply(CountReply{12}, &response);
  EXPECT_EQ(DecodeShardReply(response)->count, 12);
  response.set_count(-1);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response).status()));
}

TEST(ShardConvert, ScansReturnUnchanged) {
  v1::ShardScanRequest encoded;
  EncodeShardRequest(
      ScanRequest{"c", 2, 3, true, {true, {}}, EveryCondition(), 99}, &encoded);
  const auto decoded = DecodeShardRequest(encoded, Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& [collection, slice, slices, vectors, selector, filter, limit,
               number] = *decoded;
  EXPECT_EQ(collection, "c");
  EXPECT_EQ(slice, 2);
  EXPECT_EQ(slices, 3);
  EXPECT_TRUE(vectors);
  EXPECT_TRUE(selector.all);
  EXPECT_EQ(filter.must.size(), 4U);
  EXPECT_EQ(limit, 99);

  ScanPage page;
  page.points = {{1, {}, {{"a", true}}}};
  page.end = true;
  v1::ShardScanResponse response;
  EncodeShardReply(page, &response);
  const auto received = DecodeShardReply(response, false);
  ASSERT_TRUE(received.ok()) << received.status();
  const auto& [points, end] = *received;
  ASSERT_EQ(points.size(), 1U);
  ExpectSame(page.points[0], points[0]);
  EXPECT_TRUE(end);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response, true).status()));
}

Catalogue TwoCollections() {
  Catalogue catalogue;
  catalogue.version = 5;
  catalogue.next_number = 4;
  catalogue.collections = {{"a", 3, 2, Metric::kCosine, 3, {0, 1, 0}},
                           {"b", 1, 16384, Metric::kInnerProduct, 1, {2}}};
  catalogue.collections[1].indexes = {{IndexKind::kTree},
                                      {IndexKind::kLsh, 100, 0.5},
                                      {IndexKind::kFaiss, 0, 0.7, "HNSW8"}};
  catalogue.stores = {"s", "", "t"};
  return catalogue;
}

TEST(ShardConvert, CataloguesReturnUnchanged) {
  const Catalogue catalogue = TwoCollections();
  v1::ReadCatalogueResponse response;
  EncodeCatalogue(catalogue, response.mutable_catalogue());
  const auto received = DecodeShardReply(response);
  ASSERT_TRUE(received.ok()) << received.status();
  const auto& [version, next_number, collections, stores] = *received;
  EXPECT_EQ(version, 5);
  EXPECT_EQ(next_number, 4U);
  EXPECT_EQ(collections, catalogue.collections);
  EXPECT_EQ(stores, catalogue.stores);
}

TEST(ShardConvert, RefusesCataloguesThatAreNone) {
  const auto refused = [](const std::string& field,
                          const std::function<void(v1::CatalogueRecord*)>& f) {
    v1::CatalogueRecord record;
    EncodeCatalogue(TwoCollections(), &record);
    ASSERT_TRUE(DecodeCatalogue(record).ok());
    f(&record);
    ExpectRefused(DecodeCatalogue(record).status(), field);
    v1::ReadCatalogueResponse response;
    *response.mutable_catalogue() = record;
    EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response).status()));
  };
  refused("catalogue.version", [](auto* r) { r->set_version(-1); });
  refused("catalogue.collections[0].number",
          [](auto* r) { r->set_next_number(3); });
  refused("catalogue.collections[1]", [](auto* r) {
    r->mutable_collections(1)->mutable_collection()->set_name("a");
  });
  refused("catalogue.collections[1]",
          [](auto* r) { r->mutable_collections()->SwapElements(0, 1); });
  refused("catalogue.collections[0]", [](auto* r) {
    r->mutable_collections(0)->mutable_collection()->set_name("/");
  });
  refused("catalogue.collections[0]", [](auto* r) {
    r->mutable_collections(0)->mutable_collection()->clear_metric();
  });
  refused("catalogue.collections[0].owner",
          [](auto* r) { r->mutable_collections(0)->add_owner(0); });
  refused("catalogue.collections[0].owner",
          [](auto* r) { r->mutable_collections(0)->set_owner(1, -1); });
}

TEST(ShardConvert, StatisticsReturnUnchanged) {
  v1::CollectionStatsResponse response;
  const std::vector<IndexState> states = {
      {IndexKind::kTree, 1, 2, 3, 4, 5, 6, "building"},
      {IndexKind::kLsh, 6, 5, 4, 3, 2, 1, ""},
      {IndexKind::kFaiss, 2, 2, 9, 9, 8, 0, "done"}};
  EncodeShardReply(ShardCollectionStats{9, 1, 2, 3, 4, 5, 6, 7, states},
                   &response);
  response.mutable_header()->set_shard_id(9);
  const auto received = DecodeShardReply(response);
  ASSERT_TRUE(received.ok()) << received.status();
  const auto& [shard, points, dead, sealed, tail, memory, slots, sequence,
               indexes] = *received;
  EXPECT_EQ(indexes, states);
  EXPECT_THAT((std::vector<int64_t>{shard, points, dead, sealed, tail, memory,
                                    slots, sequence}),
              ElementsAre(9, 1, 2, 3, 4, 5, 6, 7));
  v1::CollectionStatsResponse bad = response;
  bad.mutable_stats()->set_tail_rows(-1);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(bad).status()));
  bad = response;
  bad.mutable_stats()->mutable_indexes(1)->clear_kind();
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(bad).status()));
  bad = response;
  bad.mutable_stats()->mutable_indexes(0)->set_rows(-1);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(bad).status()));
}

TEST(ShardConvert, DescriptionsReturnUnchangedButForTheAddress) {
  ShardDescription shard;
  shard.shard_id = 1;
  shard.address = "its own idea";
  shard.state = ShardDescription::State::kLoading;
  shard.reason = "because";
  shard.cluster_uuid = "u";
  shard.shards_total = 2;
  shard.catalogue_version = 3;
  shard.incarnation = 4;
  shard.sequence = 5;
  shard.points = 6;
  shard.memory_bytes = 7;
  shard.queue_length = 8;
  shard.queue_capacity = 9;
  shard.threads = 10;
  shard.store_id = "s";
  shard.queues = {{WorkClass::kRead, 1, 2, 3, 4, 0.5},
                  {WorkClass::kSearch, 5, 6, 7, 8, 0.25}};
  shard.segment_files = {11, 12, 13};
  v1::DescribeShardResponse response;
  EncodeShardReply(shard, &response);
  response.mutable_header()->set_shard_id(1);
  const auto received = DecodeShardReply(response);
  ASSERT_TRUE(received.ok()) << received.status();
  const auto& [id, address, state, reason, uuid, total, store, version,
               incarnation, sequence, points, memory, length, capacity, threads,
               queues, files] = *received;
  EXPECT_EQ(address, "");
  EXPECT_EQ(state, ShardDescription::State::kLoading);
  EXPECT_EQ(reason, "because");
  EXPECT_EQ(uuid, "u");
  EXPECT_THAT((std::vector<int64_t>{id, total, version, incarnation, sequence,
                                    points, memory, length, capacity, threads}),
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(store, "s");
  EXPECT_EQ(queues, shard.queues);
  EXPECT_EQ(files, shard.segment_files);
  for (const auto& spoil : std::vector<void (*)(v1::ShardDescription*)>{
           [](v1::ShardDescription* s) { s->mutable_queues(1)->set_taken(-1); },
           [](v1::ShardDescription* s) {
             s->mutable_queues(1)->set_wait_seconds(-1);
           },
           [](v1::ShardDescription* s) {
             s->mutable_queues(1)->clear_work_class();
           },
           [](v1::ShardDescription* s) { *s->add_queues() = s->queues(0); }}) {
    v1::DescribeShardResponse spoilt = response;
    spoil(spoilt.mutable_shard());
    EXPECT_TRUE(absl::IsInternal(DecodeShardReply(spoilt).status()));
  }
  response.mutable_shard()->set_state(v1::ShardDescription::STATE_UNSPECIFIED);
  EXPECT_TRUE(absl::IsInternal(DecodeShardReply(response).status()));
}

}  // namespace
}  // namespace coterie
