#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/shard_convert.h"
#include "api/test_seed.h"
#include "api/text_proto_for_test.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

using Random = std::mt19937_64;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomVector(size_t dimension, Random& random) {
  std::vector<float> vector(dimension);
  for (float& x : vector) {
    do {
      x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    } while (!std::isfinite(x) || x == 0);
  }
  return vector;
}

Attributes RandomAttributes(Random& random) {
  Attributes attributes;
  if (random() % 2 == 0) attributes["s"] = std::string("\xC3\xA9 text");
  if (random() % 2 == 0) attributes["i"] = static_cast<int64_t>(random());
  if (random() % 2 == 0) attributes["d"] = -0.25;
  if (random() % 2 == 0) attributes["b"] = true;
  if (random() % 2 == 0) attributes["l"] = std::vector<std::string>{"x", ""};
  return attributes;
}

SearchRequest RandomSearch(Random& random) {
  SearchRequest request;
  request.collection = "c";
  const size_t dimension = 1 + random() % 5;
  for (size_t q = 1 + random() % 4; q > 0; --q) {
    request.queries.emplace_back(RandomVector(dimension, random));
  }
  request.k = 1 + static_cast<int64_t>(random() % 100);
  if (random() % 2 == 0) request.radius = 0.5;
  request.with_vectors = random() % 2 == 0;
  request.with_attributes.all = random() % 2 == 0;
  if (random() % 2 == 0) request.with_attributes.names = {"a", "b"};
  if (request.with_attributes.all) request.with_attributes.names.clear();
  request.profile = random() % 2 == 0;
  const Strategy strategies[] = {ExactStrategy(),
                                 TreeStrategy{5, 0.25, 0.5},
                                 LshStrategy{0, 7},
                                 LshStrategy{0.5, 0},
                                 FaissStrategy{0.5, 0, 0, 3},
                                 FaissStrategy{0, 4, 0, 0},
                                 FaissStrategy{0, 0, 7, 9},
                                 AutoStrategy{0.75}};
  request.strategy = strategies[random() % 5];
  if (random() % 2 == 0) {
    request.filter.must.push_back(MatchCondition{"s", {std::string("x")}});
    request.filter.must_not.push_back(IdCondition{{1, ~PointId{0}}});
  }
  return request;
}

ShardSearchReply RandomReply(const SearchRequest& asked, Random& random) {
  const size_t dimension =
      std::get<std::vector<float>>(asked.queries[0]).size();
  ShardSearchReply reply;
  reply.shard_id = 3;
  reply.catalogue_version = 7;
  reply.sequence = std::numeric_limits<int64_t>::max();
  reply.rows_live = static_cast<int64_t>(random() % 1000);
  reply.slots = {{0, 1, 2, ~uint64_t{0}}, {63, 0, 0, 0}};
  for (size_t q = 0; q < asked.queries.size(); ++q) {
    std::vector<Hit>& hits = reply.results.emplace_back();
    for (size_t h = random() % 5; h > 0; --h) {
      Hit& hit = hits.emplace_back();
      hit.neighbor = {random(), -1e300 / static_cast<double>(h)};
      if (asked.with_vectors) hit.vector = RandomVector(dimension, random);
      if (!asked.with_attributes.none()) {
        hit.attributes = RandomAttributes(random);
      }
    }
    reply.accounts.push_back({4, 3, 2, 1, 5, 6, 7});
  }
  reply.times = {"exact, and why", 10, 40, 0.5, 0.25, 0};
  return reply;
}

// Fails to compile when a type grows a field that the wire does not carry yet.
void ExpectSame(const SearchRequest& a, const SearchRequest& b) {
  const auto& [collection, queries, k, radius, strategy, offset, filter,
               with_vectors, with_attributes, partial_policy, profile,
               measure_recall, thresholds] = a;
  EXPECT_EQ(collection, b.collection);
  EXPECT_EQ(queries, b.queries);
  EXPECT_EQ(k, b.k);
  EXPECT_EQ(radius, b.radius);
  EXPECT_EQ(strategy, b.strategy);
  EXPECT_EQ(filter, b.filter);
  EXPECT_EQ(with_vectors, b.with_vectors);
  EXPECT_EQ(with_attributes.all, b.with_attributes.all);
  EXPECT_EQ(with_attributes.names, b.with_attributes.names);
  EXPECT_EQ(profile, b.profile);
  // Of no use to a shard.
  EXPECT_EQ(offset, 0);
  EXPECT_FALSE(measure_recall);
  // Within one process only.
  EXPECT_EQ(thresholds, nullptr);
  EXPECT_EQ(partial_policy.kind, PartialPolicy::Kind::kFail);
}

void ExpectSame(const Hit& a, const Hit& b) {
  const auto& [neighbor, vector, attributes] = a;
  EXPECT_EQ(neighbor, b.neighbor);
  EXPECT_EQ(vector, b.vector);
  EXPECT_EQ(attributes, b.attributes);
}

void ExpectSame(const ShardTimes& a, const ShardTimes& b) {
  const auto& [plan, rows, bytes, queue, scan, round_trip] = a;
  EXPECT_EQ(plan, b.plan);
  EXPECT_EQ(rows, b.rows_scanned);
  EXPECT_EQ(bytes, b.bytes_scanned);
  EXPECT_EQ(queue, b.queue_seconds);
  EXPECT_EQ(scan, b.scan_seconds);
  EXPECT_EQ(round_trip, 0);  // the coordinator's
}

void ExpectSame(const ShardSearchReply& a, const ShardSearchReply& b) {
  const auto& [shard_id, version, sequence, rows, slots, results, accounts,
               times, link, asked] = a;
  EXPECT_EQ(shard_id, b.shard_id);
  EXPECT_EQ(version, b.catalogue_version);
  EXPECT_EQ(sequence, b.sequence);
  EXPECT_EQ(rows, b.rows_live);
  ASSERT_EQ(slots.size(), b.slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto& [slot, offset, slot_rows, checksum] = slots[i];
    EXPECT_EQ(slot, b.slots[i].slot);
    EXPECT_EQ(offset, b.slots[i].offset);
    EXPECT_EQ(slot_rows, b.slots[i].rows);
    EXPECT_EQ(checksum, b.slots[i].id_checksum);
  }
  ASSERT_EQ(accounts.size(), b.accounts.size());
  for (size_t i = 0; i < accounts.size(); ++i) {
    const auto& [evaluated, ruled_out, filtered, rescored, unseen, leaves,
                 met] = accounts[i];
    EXPECT_EQ(unseen, b.accounts[i].unseen);
    EXPECT_EQ(leaves, b.accounts[i].leaves);
    EXPECT_EQ(met, b.accounts[i].met);
    EXPECT_EQ(evaluated, b.accounts[i].evaluated);
    EXPECT_EQ(ruled_out, b.accounts[i].ruled_out);
    EXPECT_EQ(filtered, b.accounts[i].filtered);
    EXPECT_EQ(rescored, b.accounts[i].rescored);
  }
  ASSERT_EQ(results.size(), b.results.size());
  for (size_t q = 0; q < results.size(); ++q) {
    ASSERT_EQ(results[q].size(), b.results[q].size());
    for (size_t h = 0; h < results[q].size(); ++h) {
      ExpectSame(results[q][h], b.results[q][h]);
    }
  }
  ExpectSame(times, b.times);
  EXPECT_EQ(link.bytes(), 0);  // the client's
  EXPECT_EQ(asked, 0);         // the coordinator's
}

v1::ShardSearchResponse Encoded(const ShardSearchReply& reply) {
  v1::ShardSearchResponse response;
  EncodeShardReply(reply, &response);
  response.mutable_header()->set_shard_id(reply.shard_id);
  // Through bytes, as on the wire.
  v1::ShardSearchResponse received;
  EXPECT_TRUE(received.ParseFromString(response.SerializeAsString()));
  return received;
}

TEST(ShardSearchConvert, SearchesAndTheirRepliesReturnUnchanged) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    const SearchRequest request = RandomSearch(random);
    v1::ShardSearchRequest encoded;
    EncodeShardRequest(request, &encoded);
    const auto decoded = DecodeShardRequest(encoded, Limits());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectSame(request, *decoded);

    const ShardSearchReply reply = RandomReply(request, random);
    const auto received = DecodeShardReply(Encoded(reply), request);
    ASSERT_TRUE(received.ok()) << received.status();
    ExpectSame(reply, *received);
  }
}

TEST(ShardSearchConvert, ASearchIsLittleMoreThanItsNumbers) {
  SearchRequest request;
  request.collection = "c";
  request.queries.assign(10, std::vector<float>(100, 0.5F));
  request.k = 20;
  v1::ShardSearchRequest encoded;
  EncodeShardRequest(request, &encoded);
  EXPECT_LT(encoded.ByteSizeLong(), 10U * 100U * 4U + 50U);

  ShardSearchReply reply;
  reply.results.assign(10, std::vector<Hit>(20));
  for (auto& hits : reply.results) {
    for (Hit& hit : hits) hit.neighbor = {~uint64_t{0}, 0.1};
  }
  EXPECT_LT(Encoded(reply).ByteSizeLong(), 10U * 20U * 16U + 100U);
}

void ExpectRefusedSearch(absl::string_view field,
                         std::initializer_list<absl::string_view> parts,
                         const std::function<void(v1::ShardSearchRequest*)>& f,
                         const Limits& limits = Limits()) {
  SearchRequest request;
  request.collection = "c";
  request.queries.assign(2, std::vector<float>{1, 2, 3});
  request.k = 5;
  v1::ShardSearchRequest encoded;
  EncodeShardRequest(request, &encoded);
  ASSERT_TRUE(DecodeShardRequest(encoded, limits).ok());
  f(&encoded);
  ExpectRefused(DecodeShardRequest(encoded, limits).status(), field, parts);
}

void SetComponent(v1::ShardSearchRequest* request, size_t at, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  for (size_t i = 0; i < 4; ++i) {
    (*request->mutable_queries())[4 * at + i] =
        static_cast<char>(bits >> (8 * i));
  }
}

TEST(ShardSearchConvert, RefusesSearchesThatAreNone) {
  using R = v1::ShardSearchRequest;
  ExpectRefusedSearch("collection", {}, [](R* r) { r->clear_collection(); });
  ExpectRefusedSearch("dimension", {"0"}, [](R* r) { r->set_dimension(0); });
  ExpectRefusedSearch("dimension", {"-1"}, [](R* r) { r->set_dimension(-1); });
  ExpectRefusedSearch("dimension", {"16385"},
                      [](R* r) { r->set_dimension(16385); });
  ExpectRefusedSearch("queries", {"24 bytes", "16"},
                      [](R* r) { r->set_dimension(4); });
  ExpectRefusedSearch("queries", {"0 bytes"}, [](R* r) { r->clear_queries(); });
  ExpectRefusedSearch("queries", {"25 bytes"},
                      [](R* r) { r->mutable_queries()->push_back('x'); });
  ExpectRefusedSearch("queries[1][2]", {"nan"},
                      [](R* r) { SetComponent(r, 5, kNan); });
  ExpectRefusedSearch("queries[0][0]", {"inf"},
                      [](R* r) { SetComponent(r, 0, -kInfinity); });
  ExpectRefusedSearch("k", {"0"}, [](R* r) { r->set_k(0); });
  ExpectRefusedSearch("k", {"10001", "10000"}, [](R* r) { r->set_k(10001); });
  ExpectRefusedSearch("radius", {"nan"}, [](R* r) { r->set_radius(kNan); });
}

TEST(ShardSearchConvert, HoldsSearchesToTheLimits) {
  using R = v1::ShardSearchRequest;
  Limits limits;
  limits.queries = 2;
  limits.queries_times_k = 12;
  ExpectRefusedSearch(
      "queries", {"3", "2"},
      [](R* r) { r->mutable_queries()->append(12, '\0'); }, limits);
  ExpectRefusedSearch(
      "queries", {"14", "queries_times_k", "12"}, [](R* r) { r->set_k(7); },
      limits);
}

TEST(ShardSearchConvert, MakesNegativeZerosPositive) {
  v1::ShardSearchRequest request;
  SearchRequest asked;
  asked.collection = "c";
  asked.queries.assign(1, std::vector<float>{1, 1});
  asked.k = 1;
  EncodeShardRequest(asked, &request);
  SetComponent(&request, 1, -0.0F);
  const auto decoded = DecodeShardRequest(request, Limits());
  ASSERT_TRUE(decoded.ok());
  EXPECT_FALSE(
      std::signbit(std::get<std::vector<float>>(decoded->queries[0])[1]));
}

// A reply to two queries, with two hits and one, vectors and attributes.
class Lies : public testing::Test {
 protected:
  Lies() {
    asked_.collection = "c";
    asked_.queries.assign(2, std::vector<float>{1, 2, 3});
    asked_.k = 5;
    asked_.with_vectors = true;
    asked_.with_attributes.all = true;
    ShardSearchReply reply;
    reply.results.resize(2);
    reply.results[0].resize(2);
    reply.results[1].resize(1);
    for (std::vector<Hit>& hits : reply.results) {
      for (Hit& hit : hits) {
        hit.vector = {1, 2, 3};
        hit.attributes["a"] = true;
      }
    }
    reply.accounts.resize(2);
    reply.slots.resize(1);
    honest_ = Encoded(reply);
  }

  void Expect(absl::string_view what,
              const std::function<void(v1::ShardSearchResponse*)>& lie) {
    ASSERT_TRUE(DecodeShardReply(honest_, asked_).ok());
    v1::ShardSearchResponse response = honest_;
    lie(&response);
    const auto decoded = DecodeShardReply(response, asked_);
    EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInternal) << what;
    EXPECT_THAT(std::string(decoded.status().message()),
                HasSubstr(std::string(what)));
  }

  SearchRequest asked_;
  v1::ShardSearchResponse honest_;
};

using R = v1::ShardSearchResponse;

TEST_F(Lies, AreRefusedInTheListsOfHits) {
  Expect("hit counts", [](R* r) { r->add_hit_counts(0); });
  Expect("hit counts", [](R* r) { r->clear_hit_counts(); });
  Expect("a hit count is -1", [](R* r) { r->set_hit_counts(0, -1); });
  Expect("4 hits", [](R* r) { r->set_hit_counts(0, 3); });
  Expect("2147483648 hits", [](R* r) { r->set_hit_counts(0, 2147483647); });
  Expect("2 ids", [](R* r) { r->mutable_ids()->RemoveLast(); });
  Expect("4 distances", [](R* r) { r->add_distances(1); });
  Expect("distances[1] is nan", [](R* r) { r->set_distances(1, kNan); });
  Expect("distances[2] is inf", [](R* r) { r->set_distances(2, kInfinity); });
}

TEST_F(Lies, AreRefusedInVectorsAndAttributes) {
  Expect("37 bytes of vectors",
         [](R* r) { r->mutable_vectors()->push_back('x'); });
  Expect("0 bytes of vectors", [](R* r) { r->clear_vectors(); });
  Expect("vectors[0] holds", [](R* r) {
    r->mutable_vectors()->replace(0, 4, std::string(4, '\xFF'));
  });
  Expect("2 attribute sets",
         [](R* r) { r->mutable_attributes()->RemoveLast(); });
  Expect("has no value",
         [](R* r) { (*r->mutable_attributes(1)->mutable_attributes())["b"]; });
  asked_.with_vectors = false;
  honest_.clear_vectors();
  Expect("expected 0", [](R* r) { r->set_vectors(std::string(36, '\0')); });
  asked_.with_attributes.all = false;
  honest_.clear_attributes();
  Expect("none asked", [](R* r) {
    r->add_attributes();
    r->add_attributes();
    r->add_attributes();
  });
}

TEST_F(Lies, AreRefusedInTheEvidence) {
  Expect("catalogue_version", [](R* r) { r->set_catalogue_version(-1); });
  Expect("sequence", [](R* r) { r->set_sequence(-1); });
  Expect("rows_live", [](R* r) { r->set_rows_live(-1); });
  Expect("a slot", [](R* r) { r->mutable_slots(0)->set_slot(-1); });
  Expect("offset", [](R* r) { r->mutable_slots(0)->set_offset(-1); });
  Expect("rows", [](R* r) { r->mutable_slots(0)->set_rows(-1); });
  Expect("accounts", [](R* r) { r->add_accounts(); });
  Expect("rows_evaluated",
         [](R* r) { r->mutable_accounts(1)->set_rows_evaluated(-1); });
  Expect("rows_ruled_out",
         [](R* r) { r->mutable_accounts(1)->set_rows_ruled_out(-1); });
  Expect("rows_filtered",
         [](R* r) { r->mutable_accounts(1)->set_rows_filtered(-1); });
  Expect("rows_rescored",
         [](R* r) { r->mutable_accounts(1)->set_rows_rescored(-1); });
  Expect("rows_scanned",
         [](R* r) { r->mutable_profile()->set_rows_scanned(-1); });
  Expect("bytes_scanned",
         [](R* r) { r->mutable_profile()->set_bytes_scanned(-1); });
  Expect("queue_seconds",
         [](R* r) { r->mutable_profile()->set_queue_seconds(kNan); });
  Expect("scan_seconds",
         [](R* r) { r->mutable_profile()->set_scan_seconds(-1); });
}

}  // namespace
}  // namespace coterie
