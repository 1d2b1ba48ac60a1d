#include "api/points_convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

absl::StatusOr<WriteBatch> Upsert(const std::string& text,
                                  const Limits& limits = Limits()) {
  return DecodeUpsert(FromText<v1::UpsertRequest>(text), limits);
}

// A request with one point, whose attributes are `text`.
absl::StatusOr<Attributes> DecodeText(const std::string& text,
                                      const Limits& limits = Limits()) {
  const auto point = FromText<v1::Point>(text);
  return DecodeAttributes(point.attributes(), "a", limits);
}

TEST(DecodeUpsert, TakesPointsWithAllKindsOfAttributes) {
  const auto batch = Upsert(R"(
    collection: "c"
    points { vector { values { values: [1, -0.0] } } }
    points {
      id: 18446744073709551615
      vector { packed { dtype: I8 data: "\x01\xFF" } }
      attributes { key: "s" value { string_value: "" } }
      attributes { key: "i" value { int_value: -9223372036854775808 } }
      attributes { key: "d" value { double_value: -inf } }
      attributes { key: "b" value { bool_value: false } }
      attributes { key: "l" value { strings_value { values: ["x", ""] } } }
    })");
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->collection, "c");
  EXPECT_TRUE(batch->deletes.empty());
  ASSERT_EQ(batch->upserts.size(), 2U);
  EXPECT_EQ(batch->upserts[0].id, 0U);
  EXPECT_EQ(batch->upserts[0].vector, (std::vector<float>{1, 0}));
  EXPECT_FALSE(std::signbit(batch->upserts[0].vector[1]));
  EXPECT_TRUE(batch->upserts[0].attributes.empty());
  EXPECT_EQ(batch->upserts[1].id, std::numeric_limits<PointId>::max());
  EXPECT_EQ(batch->upserts[1].vector, (std::vector<float>{1, -1}));
  const Attributes expected = {{"s", std::string()},
                               {"i", std::numeric_limits<int64_t>::min()},
                               {"d", -std::numeric_limits<double>::infinity()},
                               {"b", false},
                               {"l", std::vector<std::string>{"x", ""}}};
  EXPECT_EQ(batch->upserts[1].attributes, expected);
}

TEST(DecodeUpsert, NamesTheBadPoint) {
  const std::string good = "points { id: 1 vector { values { values: 1 } } } ";
  ExpectRefused(Upsert(R"(collection: "c" )" + good +
                       "points { id: 2 vector { values { values: nan } } }")
                    .status(),
                "points[1].vector.values[0]", {"nan"});
  ExpectRefused(
      Upsert(R"(collection: "c" )" + good + "points { id: 2 }").status(),
      "points[1].vector", {"not set"});
  ExpectRefused(Upsert(R"(collection: "c" )" + good +
                       R"(points { id: 2 vector { values { values: 1 } }
                attributes { key: "k" value { double_value: nan } } })")
                    .status(),
                "points[1].attributes[\"k\"]", {"nan"});
}

TEST(DecodeUpsert, NamesBothPositionsOfAnIdGivenTwice) {
  std::string text = R"(collection: "c")";
  for (const int id : {5, 0, 7, 0}) {
    absl::StrAppend(&text, " points { id: ", id,
                    " vector { values { values: 1 } } }");
  }
  ExpectRefused(Upsert(text).status(), "points[3].id",
                {"id 0", "points[1].id"});
}

TEST(DecodeUpsert, BoundsTheBatch) {
  ExpectRefused(Upsert(R"(collection: "c")").status(), "points", {"empty"});
  Limits limits;
  limits.points_per_upsert = 2;
  std::string text = R"(collection: "c")";
  for (int id = 0; id < 3; ++id) {
    absl::StrAppend(&text, " points { id: ", id,
                    " vector { values { values: 1 } } }");
    EXPECT_EQ(Upsert(text, limits).ok(), id < 2);
  }
  ExpectRefused(Upsert(text, limits).status(), "points",
                {"3", "limit points_per_upsert of 2"});
}

TEST(EveryRequest, RefusesCollectionNamesOfNoUse) {
  const Limits limits;
  for (const std::string& name : {std::string(), std::string(129, 'x')}) {
    v1::UpsertRequest upsert;
    upsert.set_collection(name);
    ExpectRefused(DecodeUpsert(upsert, limits).status(), "collection");
    v1::DeleteRequest del;
    del.set_collection(name);
    ExpectRefused(DecodeDelete(del, limits).status(), "collection");
    v1::GetRequest get;
    get.set_collection(name);
    ExpectRefused(DecodeGet(get, limits).status(), "collection");
    v1::CountRequest count;
    count.set_collection(name);
    ExpectRefused(DecodeCount(count, limits).status(), "collection");
    v1::ScanRequest scan;
    scan.set_collection(name);
    ExpectRefused(DecodeScan(scan, limits).status(), "collection");
  }
}

TEST(DecodeAttributes, BoundsTheirNumber) {
  std::string text;
  for (int i = 0; i < 65; ++i) {
    EXPECT_TRUE(DecodeText(text).ok()) << i;
    absl::StrAppend(&text, "attributes { key: 'k", i,
                    "' value { bool_value: true } } ");
  }
  ExpectRefused(DecodeText(text).status(), "a",
                {"65", "limit attributes_per_point of 64"});
}

TEST(DecodeAttributes, BoundsTheirKeys) {
  const auto with_key = [](const std::string& key) {
    v1::Point point;
    (*point.mutable_attributes())[key].set_bool_value(true);
    return DecodeAttributes(point.attributes(), "a", Limits()).status();
  };
  EXPECT_TRUE(with_key(std::string(128, 'k')).ok());
  EXPECT_TRUE(with_key("\xE4\xB8\xAD").ok());
  ExpectRefused(with_key(""), "a[\"\"]", {"empty"});
  ExpectRefused(
      with_key(std::string(129, 'k')),
      absl::StrCat("a[\"", std::string(80, 'k'), "\"... (129 bytes)]"),
      {"129", "limit attribute_key_bytes of 128"});
  ExpectRefused(with_key("\xFF"), "a[\"\\377\"]", {"UTF-8"});
}

TEST(DecodeAttributes, BoundsTheirBytes) {
  const auto of_bytes = [](size_t bytes) {
    v1::Point point;
    (*point.mutable_attributes())["k"].set_string_value(
        std::string(bytes - 1, 'x'));
    return DecodeAttributes(point.attributes(), "a", Limits()).status();
  };
  EXPECT_TRUE(of_bytes(16384).ok());
  ExpectRefused(of_bytes(16385), "a",
                {"16385", "limit attribute_set_bytes of 16384"});
  v1::Point point;
  auto* list = (*point.mutable_attributes())["k"].mutable_strings_value();
  for (int i = 0; i < 8192; ++i) list->add_values("");
  ExpectRefused(DecodeAttributes(point.attributes(), "a", Limits()).status(),
                "a", {"16385"});
}

TEST(DecodeAttributes, RefusesValuesThatAreNone) {
  ExpectRefused(DecodeText("attributes { key: 'k' value {} }").status(),
                "a[\"k\"]", {"no value"});
  ExpectRefused(
      DecodeText("attributes { key: 'k' value { double_value: nan } }")
          .status(),
      "a[\"k\"]", {"nan"});
  v1::Point point;
  (*point.mutable_attributes())["k"].set_string_value("\xC3");
  ExpectRefused(DecodeAttributes(point.attributes(), "a", Limits()).status(),
                "a[\"k\"]", {"UTF-8"});
  (*point.mutable_attributes())["k"].mutable_strings_value()->add_values("ok");
  (*point.mutable_attributes())["k"].mutable_strings_value()->add_values(
      "\x80");
  ExpectRefused(DecodeAttributes(point.attributes(), "a", Limits()).status(),
                "a[\"k\"].strings_value[1]", {"UTF-8"});
}

TEST(DecodeAttributes, NamesTheLeastKeyOfSeveralFaults) {
  // The map's own order varies from run to run.
  v1::Point point;
  for (const char* key : {"z", "y", "m", "b", "x"}) {
    (*point.mutable_attributes())[key];
  }
  ExpectRefused(DecodeAttributes(point.attributes(), "a", Limits()).status(),
                "a[\"b\"]");
}

TEST(Attributes, ReturnUnchangedThroughBothConversions) {
  const Attributes attributes = {{"s", std::string("caf\xC3\xA9")},
                                 {"i", kMax},
                                 {"d", 0.1},
                                 {"negative zero", -0.0},
                                 {"b", true},
                                 {"none", std::vector<std::string>()},
                                 {"l", std::vector<std::string>{"", "x", "x"}}};
  v1::Point point;
  EncodeAttributes(attributes, point.mutable_attributes());
  const auto decoded = DecodeAttributes(point.attributes(), "a", Limits());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, attributes);
  EXPECT_TRUE(std::signbit(std::get<double>(decoded->at("negative zero"))));
}

absl::StatusOr<AttributeSelector> Selector(const std::string& text) {
  return DecodeSelector(FromText<v1::AttributeSelector>(text), "s", Limits());
}

TEST(DecodeSelector, UnsetAndFalseAreNone) {
  EXPECT_TRUE(Selector("")->none());
  EXPECT_TRUE(Selector("all: false")->none());
  EXPECT_TRUE(Selector("names {}")->none());
}

TEST(DecodeSelector, TakesAllOrNames) {
  EXPECT_TRUE(Selector("all: true")->all);
  const auto named = Selector("names { values: ['x', 'a'] }");
  EXPECT_FALSE(named->all);
  EXPECT_EQ(named->names, (std::vector<std::string>{"x", "a"}));
}

TEST(DecodeSelector, BoundsTheNames) {
  v1::AttributeSelector selector;
  for (int i = 0; i < 64; ++i) selector.mutable_names()->add_values("n");
  EXPECT_TRUE(DecodeSelector(selector, "s", Limits()).ok());
  selector.mutable_names()->add_values("n");
  ExpectRefused(DecodeSelector(selector, "s", Limits()).status(), "s.names",
                {"65", "attributes_per_point of 64"});
}

TEST(DecodeDelete, TakesIdsAndRefusesThemTwice) {
  const auto request =
      FromText<v1::DeleteRequest>("collection: 'c' ids: [3, 0, 1]");
  const auto batch = DecodeDelete(request, Limits());
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->deletes, (std::vector<PointId>{3, 0, 1}));
  EXPECT_TRUE(batch->upserts.empty());
  ExpectRefused(DecodeDelete(FromText<v1::DeleteRequest>(
                                 "collection: 'c' ids: [3, 0, 1, 0]"),
                             Limits())
                    .status(),
                "ids[3]", {"id 0", "ids[1]"});
}

TEST(DecodeDelete, BoundsTheIds) {
  v1::DeleteRequest request;
  request.set_collection("c");
  ExpectRefused(DecodeDelete(request, Limits()).status(), "ids", {"empty"});
  for (PointId id = 0; id < 4096; ++id) request.add_ids(id);
  EXPECT_TRUE(DecodeDelete(request, Limits()).ok());
  request.add_ids(4096);
  ExpectRefused(DecodeDelete(request, Limits()).status(), "ids",
                {"4097", "limit ids_per_request of 4096"});
}

TEST(DecodeDelete, TakesEitherIdsOrAFilterThatAsksSomething) {
  const auto decode = [](const std::string& text) {
    return DecodeDelete(FromText<v1::DeleteRequest>("collection: 'c' " + text),
                        Limits());
  };
  const auto batch = decode(
      "filter { must { has_attribute { attribute: 'a' } } } dry_run: true");
  ASSERT_TRUE(batch.ok()) << batch.status();
  Filter filter;
  filter.must.resize(1);
  filter.must[0] = HasAttributeCondition{"a"};
  EXPECT_EQ(batch->delete_where, filter);
  ExpectRefused(decode("filter {}").status(), "filter", {"every point"});
  ExpectRefused(decode("ids: 1 filter { must { ids { ids: 1 } } }").status(),
                "ids", {"filter"});
  ExpectRefused(decode("ids: 1 dry_run: true").status(), "dry_run", {"filter"});
  ExpectRefused(decode("filter { must { ids { ids: 1 } } should {} }").status(),
                "filter.should[0]", {"no condition"});
}

TEST(DecodeGet, TakesTheRequestAsItIs) {
  const auto get = DecodeGet(FromText<v1::GetRequest>(R"(
    collection: "c" ids: [2, 0, 2] with_vectors: true
    with_attributes { all: true })"),
                             Limits());
  ASSERT_TRUE(get.ok()) << get.status();
  EXPECT_EQ(get->collection, "c");
  EXPECT_EQ(get->ids, (std::vector<PointId>{2, 0, 2}));
  EXPECT_TRUE(get->with_vectors);
  EXPECT_TRUE(get->with_attributes.all);
}

TEST(DecodeGet, BoundsTheIds) {
  v1::GetRequest request;
  request.set_collection("c");
  ExpectRefused(DecodeGet(request, Limits()).status(), "ids", {"empty"});
  for (PointId id = 0; id < 4097; ++id) request.add_ids(id);
  ExpectRefused(DecodeGet(request, Limits()).status(), "ids",
                {"4097", "limit ids_per_request of 4096"});
}

absl::StatusOr<ScanRequest> Scan(const std::string& text) {
  return DecodeScan(FromText<v1::ScanRequest>("collection: 'c' " + text),
                    Limits());
}

TEST(DecodeScan, DefaultsToTheWhole) {
  const auto scan = Scan("");
  ASSERT_TRUE(scan.ok());
  EXPECT_EQ(scan->slice, 0);
  EXPECT_EQ(scan->slices, 1);
  EXPECT_EQ(scan->limit, 0);
  EXPECT_FALSE(scan->with_vectors);
  EXPECT_TRUE(scan->with_attributes.none());
  EXPECT_TRUE(scan->filter.empty());
}

TEST(DecodeScan, TakesSlicesAndFilter) {
  const auto scan = Scan(R"(slice: 1023 slices: 1024 limit: 9223372036854775807
    with_vectors: true with_attributes { names { values: "x" } }
    filter { must { ids { ids: 1 } } })");
  ASSERT_TRUE(scan.ok()) << scan.status();
  EXPECT_EQ(scan->slice, 1023);
  EXPECT_EQ(scan->slices, 1024);
  EXPECT_EQ(scan->limit, kMax);
  EXPECT_TRUE(scan->with_vectors);
  EXPECT_EQ(scan->with_attributes.names, std::vector<std::string>{"x"});
  EXPECT_EQ(scan->filter.must.size(), 1U);
}

TEST(DecodeScan, RefusesSlicesThatAreNone) {
  ExpectRefused(Scan("slices: -1").status(), "slices", {"-1"});
  ExpectRefused(Scan("slices: 1025").status(), "slices", {"1025", "1024"});
  ExpectRefused(Scan("slice: 1").status(), "slice", {"1", "0..0"});
  ExpectRefused(Scan("slice: 4 slices: 4").status(), "slice", {"4", "0..3"});
  ExpectRefused(Scan("slice: -1 slices: 4").status(), "slice", {"-1"});
  ExpectRefused(Scan("limit: -1").status(), "limit", {"-1"});
  ExpectRefused(Scan("filter { must {} }").status(), "filter.must[0]");
}

TEST(DecodeCount, TakesAFilter) {
  const auto count = DecodeCount(
      FromText<v1::CountRequest>(
          "collection: 'c' filter { must_not { has_attribute { attribute: "
          "'a' } } }"),
      Limits());
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(count->collection, "c");
  EXPECT_EQ(count->filter.must_not.size(), 1U);
  ExpectRefused(DecodeCount(FromText<v1::CountRequest>(
                                "collection: 'c' filter { should {} }"),
                            Limits())
                    .status(),
                "filter.should[0]");
}

// Of any kind of write.
absl::StatusOr<WriteBatch> DeleteBy(const std::string& request_id) {
  return DecodeDelete(
      FromText<v1::DeleteRequest>("collection: 'c' ids: 1 " + request_id),
      Limits());
}

TEST(DecodeRequestId, IsTakenWhenItIsThere) {
  EXPECT_EQ(DeleteBy("")->request_id, std::nullopt);
  EXPECT_EQ(DeleteBy("request_id { client_id: 'me' }")->request_id,
            (RequestId{"me", 0}));
  const auto upsert = DecodeUpsert(
      FromText<v1::UpsertRequest>(
          "collection: 'c' points { id: 1 vector { values { values: 1 } } } "
          "request_id { client_id: 'me' sequence: 7 }"),
      Limits());
  ASSERT_TRUE(upsert.ok()) << upsert.status();
  EXPECT_EQ(upsert->request_id, (RequestId{"me", 7}));
}

TEST(DecodeRequestId, RefusesWhatIsNone) {
  ExpectRefused(DeleteBy("request_id {}").status(), "request_id.client_id",
                {"0 bytes", "1..64"});
  EXPECT_TRUE(
      DeleteBy("request_id { client_id: '" + std::string(64, 'c') + "' }")
          .ok());
  ExpectRefused(
      DeleteBy("request_id { client_id: '" + std::string(65, 'c') + "' }")
          .status(),
      "request_id.client_id", {"65 bytes", "1..64"});
  ExpectRefused(DeleteBy("request_id { client_id: 'c' sequence: -1 }").status(),
                "request_id.sequence", {"-1"});
}

absl::StatusOr<WriteBatch> SetAttributes(const std::string& text) {
  return DecodeSetAttributes(
      FromText<v1::SetAttributesRequest>("collection: 'c' " + text), Limits());
}

TEST(DecodeSetAttributes, TakesUpdatesAndMode) {
  const auto batch = SetAttributes(R"(
    mode: REPLACE
    updates { id: 7 attributes { key: "a" value { int_value: 5 } } }
    updates { id: 0 }
    request_id { client_id: "me" sequence: 3 })");
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->collection, "c");
  EXPECT_EQ(batch->mode, AttributeMode::kReplace);
  EXPECT_EQ(batch->request_id, (RequestId{"me", 3}));
  ASSERT_EQ(batch->updates.size(), 2u);
  EXPECT_EQ(batch->updates[0].id, 7u);
  EXPECT_EQ(batch->updates[0].attributes, (Attributes{{"a", int64_t{5}}}));
  EXPECT_TRUE(batch->updates[1].attributes.empty());
  EXPECT_EQ(SetAttributes("mode: MERGE updates { id: 1 }")->mode,
            AttributeMode::kMerge);
}

TEST(DecodeSetAttributes, RefusesWhatCannotBeSet) {
  ExpectRefused(SetAttributes("mode: MERGE").status(), "updates", {"empty"});
  ExpectRefused(SetAttributes("updates { id: 1 }").status(), "mode",
                {"MERGE", "REPLACE"});
  ExpectRefused(SetAttributes("updates { id: 1 } mode: 3").status(), "mode",
                {"3"});
  ExpectRefused(
      SetAttributes("mode: MERGE updates { id: 1 } updates { id: 1 }").status(),
      "updates[1].id", {"id 1", "updates[0].id"});
  ExpectRefused(
      SetAttributes("mode: MERGE updates { id: 1 attributes { key: 'a' } }")
          .status(),
      "updates[0].attributes[\"a\"]");
}

TEST(DecodeSetAttributes, BoundsTheUpdates) {
  v1::SetAttributesRequest request;
  request.set_collection("c");
  request.set_mode(v1::SetAttributesRequest::MERGE);
  for (PointId id = 0; id < 4096; ++id) request.add_updates()->set_id(id);
  EXPECT_TRUE(DecodeSetAttributes(request, Limits()).ok());
  request.add_updates()->set_id(4096);
  ExpectRefused(DecodeSetAttributes(request, Limits()).status(), "updates",
                {"4097", "limit points_per_upsert of 4096"});
}

TEST(EncodeSetAttributesReply, KeepsTheOrderOfWhatIsMissing) {
  WriteReply reply;
  reply.updated = 4;
  reply.missing = {9, 3};
  reply.duplicates = 2;
  const v1::SetAttributesResponse out = EncodeSetAttributesReply(reply);
  EXPECT_EQ(out.updated(), 4);
  EXPECT_EQ(out.duplicates(), 2);
  ASSERT_EQ(out.missing_size(), 2);
  EXPECT_EQ(out.missing(0), 9u);
  EXPECT_EQ(out.missing(1), 3u);
}

TEST(EncodePoint, WritesTheVectorWhenThereIsOne) {
  v1::Point out;
  EncodePoint(Point{.id = 0, .vector = {}, .attributes = {{"k", true}}}, &out);
  EXPECT_FALSE(out.has_vector());
  EXPECT_TRUE(out.attributes().at("k").bool_value());
  EncodePoint(Point{.id = 9, .vector = {1, 2}, .attributes = {}}, &out);
  EXPECT_EQ(out.id(), 9U);
  EXPECT_EQ(out.vector().packed().data().size(), 8U);
}

TEST(EncodeGetReply, KeepsBothOrders) {
  GetReply reply;
  reply.points = {Point{.id = 5, .vector = {1}, .attributes = {}},
                  Point{.id = 0, .vector = {2}, .attributes = {}}};
  reply.missing = {9, 3};
  const v1::GetResponse out = EncodeGetReply(reply);
  ASSERT_EQ(out.points_size(), 2);
  EXPECT_EQ(out.points(0).id(), 5U);
  EXPECT_EQ(out.points(1).id(), 0U);
  ASSERT_EQ(out.missing_size(), 2);
  EXPECT_EQ(out.missing(0), 9U);
  EXPECT_EQ(out.missing(1), 3U);
}

}  // namespace
}  // namespace coterie
