#include "shard/record_codec.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "shard/log_codec.h"
#include "shard/shard_testing.h"

namespace coterie {
namespace {

using ::testing::HasSubstr;

std::string Hex(absl::string_view bytes) {
  return absl::BytesToHexString(bytes);
}

std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

Attributes EveryType() {
  return {{"b", true},
          {"d", -0.5},
          {"i", int64_t{-2}},
          {"l", std::vector<std::string>{"x", ""}},
          {"s", std::string("hi")}};
}

Catalogue TwoCollections() {
  CollectionSpec a = TestCollection("a", 2, 100, Metric::kCosine, 6);
  a.owner = {0, 0, 0, 1, 1, 300};
  return TestCatalogue(
      9, {a, TestCollection("b", 7, 16384, Metric::kSquaredL2, 1)});
}

Catalogue Indexed() {
  Catalogue catalogue =
      TestCatalogue(1, {TestCollection("a", 1, 2, Metric::kSquaredL2, 1),
                        TestCollection("b", 2, 2, Metric::kSquaredL2, 1)});
  catalogue.collections[0].indexes = {{IndexKind::kTree},
                                      {IndexKind::kLsh, 192, 0.9},
                                      {IndexKind::kFaiss, 0, 0.9, "HNSW8"}};
  return catalogue;
}

// --- Golden bytes: what is on disk must stay readable -----------------------

TEST(RecordCodec, FreezesKeys) {
  EXPECT_EQ(Hex(EncodeKey({0x01020304, 0x0102, 0x1112131415161718})),
            "0102030401021112131415161718");
  EXPECT_EQ(Hex(SlotStart(5, kMaxSlots)), "000000050400");
  EXPECT_EQ(Hex(IdentityKey()), "49");
  EXPECT_EQ(Hex(CatalogueKey()), "43");
  EXPECT_EQ(Hex(StoreIdKey()), "55");
  EXPECT_EQ(Hex(SequenceKey()), "51");
  EXPECT_EQ(Hex(SlotStateKey(1, 2)), "53000000010002");
}

TEST(RecordCodec, FreezesValues) {
  EXPECT_EQ(Hex(EncodeVector({1.0f, -2.5f})), "010000803f000020c0");
  EXPECT_EQ(Hex(EncodeAttributes({})), "0100");
  EXPECT_EQ(Hex(EncodeAttributes(EveryType())),
            "0105"
            "01620301"
            "016402000000000000e0bf"
            "016901feffffffffffffff"
            "016c0402017800"
            "017300026869");
  EXPECT_EQ(Hex(EncodeSlotState({3, 1, 2, 0xfffffffffffffffe})),
            "01"
            "0100000000000000"
            "0200000000000000"
            "feffffffffffffff");
  EXPECT_EQ(Hex(EncodeSequence(258)), "010201000000000000");
  EXPECT_EQ(Hex(EncodeLogRecord({3, {1, ~uint64_t{0}}, {2}})),
            "01"
            "0300000000000000"
            "0201"
            "0100000000000000"
            "ffffffffffffffff"
            "0200000000000000");
  EXPECT_EQ(Hex(EncodeIdentity({"u1", 1, 4, 5})),
            "01"
            "027531"
            "01000000"
            "04000000"
            "0500000000000000");
  EXPECT_EQ(Hex(EncodeLogRecord({3, {1}, {}, {2}, RequestId{"ab", 5}})),
            "02"
            "0300000000000000"
            "026162"
            "0500000000000000"
            "010001"
            "0100000000000000"
            "0200000000000000");
  EXPECT_EQ(Hex(EncodeRequestKey({1, 2, "ab"})),
            "52"
            "00000001"
            "0002"
            "6162");
  EXPECT_EQ(Hex(EncodeAppliedRequest({5, 6})),
            "01"
            "0500000000000000"
            "0600000000000000");
  EXPECT_EQ(Hex(EncodeCatalogue(TwoCollections())),
            "01"
            "0900000000000000"
            "08000000"
            "02"
            "0161"
            "02000000"
            "64000000"
            "03"
            "06000000"
            "03000301"
            "02ac0201"
            "0162"
            "07000000"
            "00400000"
            "01"
            "01000000"
            "010001");
  Catalogue named{1, 1, {}, {"ab", ""}};
  EXPECT_EQ(Hex(EncodeCatalogue(named)),
            "02"
            "0100000000000000"
            "01000000"
            "00"
            "02"
            "026162"
            "00");
  EXPECT_EQ(Hex(EncodeCatalogue(Indexed())),
            "03"
            "0100000000000000"
            "03000000"
            "02"
            "0161"
            "01000000"
            "02000000"
            "01"
            "01000000"
            "010001"
            "03"
            "01000000000000000000"
            "02c001cdccccccccccec3f"
            "0300cdccccccccccec3f05484e535738"
            "0162"
            "02000000"
            "02000000"
            "01"
            "01000000"
            "010001"
            "00"
            "00");
  EXPECT_EQ(Hex(EncodeStoreId("00112233445566778899aabbccddeeff")),
            "01"
            "00112233445566778899aabbccddeeff");
}

// --- Round trips ------------------------------------------------------------

TEST(RecordCodec, KeysSortByCollectionSlotAndId) {
  const std::vector<RecordKey> ordered = {{0, 0, 0},
                                          {1, 0, 0},
                                          {1, 0, 255},
                                          {1, 0, 256},
                                          {1, 0, ~0u},
                                          {1, 0, uint64_t{1} << 63},
                                          {1, 255, 0},
                                          {1, 256, 0},
                                          {1, 1023, ~uint64_t{0}},
                                          {256, 0, 0},
                                          {~0u, 1023, ~uint64_t{0}}};
  for (size_t i = 0; i < ordered.size(); ++i) {
    const std::string bytes = EncodeKey(ordered[i]);
    const auto decoded = DecodeKey(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, ordered[i]);
    if (i > 0) {
      EXPECT_LT(EncodeKey(ordered[i - 1]), bytes) << i;
    }
    const auto& [collection, slot, id] = ordered[i];
    EXPECT_LE(SlotStart(collection, slot), bytes);
    EXPECT_GT(SlotStart(collection, slot + 1), bytes);
    EXPECT_GT(SlotStart(collection, kMaxSlots), bytes);
  }
}

TEST(RecordCodec, GivesBackEveryFloat) {
  const std::vector<float> vector = {0, 1e-45f,
                                     -std::numeric_limits<float>::max(), 0.1f,
                                     std::numeric_limits<float>::min()};
  std::vector<float> decoded(vector.size());
  ASSERT_TRUE(DecodeVector(EncodeVector(vector), absl::MakeSpan(decoded)).ok());
  EXPECT_EQ(decoded, vector);
}

TEST(RecordCodec, GivesBackRandomAttributes) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(absl::StrCat("SEED=", seed));
  Random random(seed);
  for (int i = 0; i < 1000; ++i) {
    const Attributes attributes = RandomAttributes(random);
    const auto decoded = DecodeAttributes(EncodeAttributes(attributes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, attributes);
  }
}

TEST(RecordCodec, GivesBackDescribingRecords) {
  const auto catalogue = DecodeCatalogue(EncodeCatalogue(TwoCollections()));
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  EXPECT_EQ(catalogue->version, 9);
  EXPECT_EQ(catalogue->next_number, 8);
  EXPECT_EQ(catalogue->collections, TwoCollections().collections);
  Catalogue indexed = Indexed();
  for (const std::vector<std::string>& stores :
       {std::vector<std::string>{}, {"ab", ""}}) {
    indexed.stores = stores;
    const auto with = DecodeCatalogue(EncodeCatalogue(indexed));
    ASSERT_TRUE(with.ok()) << with.status();
    EXPECT_EQ(with->collections, indexed.collections);
    EXPECT_EQ(with->stores, stores);
  }

  const ShardIdentity identity{"cluster", 3, 4, 12};
  const auto same = DecodeIdentity(EncodeIdentity(identity));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, identity);

  const LogRecord record{7, {1, 2, 3}, {~uint64_t{0}}};
  const auto log = DecodeLogRecord(EncodeLogRecord(record));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(*log, record);

  for (const LogRecord& full :
       {LogRecord{7, {1}, {2}, {3, 4}, RequestId{"client", 8}},
        LogRecord{7, {}, {}, {}, RequestId{std::string(64, 'c'), 0}},
        LogRecord{7, {}, {}, {5}, std::nullopt}}) {
    const auto decoded = DecodeLogRecord(EncodeLogRecord(full));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, full);
  }

  const RequestKey key{3, 1023, "a"};
  const auto request_key = DecodeRequestKey(EncodeRequestKey(key));
  ASSERT_TRUE(request_key.ok()) << request_key.status();
  EXPECT_EQ(*request_key, key);
  const auto applied = DecodeAppliedRequest(EncodeAppliedRequest({9, 4}));
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(*applied, (AppliedRequest{9, 4}));

  const auto state = DecodeSlotState(EncodeSlotState({9, 5, 4, 3}));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->slot, 0);
  EXPECT_EQ(state->offset, 5);
  EXPECT_EQ(state->rows, 4);
  EXPECT_EQ(state->id_checksum, 3);
}

// --- Damage -----------------------------------------------------------------

// Every proper prefix and one byte more must be refused.
template <typename Decode>
void ExpectOnlyWhole(const std::string& bytes, Decode decode) {
  ASSERT_TRUE(decode(bytes).ok()) << decode(bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const absl::Status status = decode(bytes.substr(0, size));
    EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
  }
  EXPECT_TRUE(absl::IsDataLoss(decode(bytes + '\0')));
  std::string other_format = bytes;
  other_format[0] = 4;
  EXPECT_TRUE(absl::IsDataLoss(decode(other_format)));
}

TEST(RecordCodec, RefusesCutAndOverlongRecords) {
  std::vector<float> vector(2);
  ExpectOnlyWhole(EncodeVector({1, 2}), [&](absl::string_view bytes) {
    return DecodeVector(bytes, absl::MakeSpan(vector));
  });
  ExpectOnlyWhole(EncodeAttributes(EveryType()), [](absl::string_view bytes) {
    return DecodeAttributes(bytes).status();
  });
  ExpectOnlyWhole(EncodeSlotState({1, 2, 3, 4}), [](absl::string_view bytes) {
    return DecodeSlotState(bytes).status();
  });
  ExpectOnlyWhole(EncodeSequence(1), [](absl::string_view bytes) {
    return DecodeSequence(bytes).status();
  });
  ExpectOnlyWhole(
      EncodeLogRecord({1, {2}, {3, 4}}),
      [](absl::string_view bytes) { return DecodeLogRecord(bytes).status(); });
  ExpectOnlyWhole(
      EncodeLogRecord({1, {2}, {3, 4}, {5}, RequestId{"client", 6}}),
      [](absl::string_view bytes) { return DecodeLogRecord(bytes).status(); });
  ExpectOnlyWhole(EncodeAppliedRequest({1, 2}), [](absl::string_view bytes) {
    return DecodeAppliedRequest(bytes).status();
  });
  ExpectOnlyWhole(EncodeIdentity({"u", 0, 1, 2}), [](absl::string_view bytes) {
    return DecodeIdentity(bytes).status();
  });
  ExpectOnlyWhole(
      EncodeStoreId(std::string(32, 'a')),
      [](absl::string_view bytes) { return DecodeStoreId(bytes).status(); });
  Catalogue named = TwoCollections();
  named.stores = {"ab", "", "c"};
  for (const Catalogue& catalogue : {TwoCollections(), named, Indexed()}) {
    ExpectOnlyWhole(EncodeCatalogue(catalogue), [](absl::string_view bytes) {
      return DecodeCatalogue(bytes).status();
    });
  }
}

TEST(RecordCodec, RefusesKeysOfOtherLengthAndSlotsOutOfRange) {
  EXPECT_TRUE(absl::IsDataLoss(DecodeKey("").status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeKey(std::string(13, '\0')).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeKey(std::string(15, '\0')).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeKey(Bytes("0000000104000000000000000000")).status()));
}

TEST(RecordCodec, RefusesAttributesThatItWouldNotWrite) {
  const struct {
    const char* what;
    const char* hex;
    const char* message;
  } cases[] = {
      {"keys out of order", "01020162030101610301", "not in order"},
      {"a key twice", "01020161030101610300", "not in order"},
      {"a bool of 2", "010101610302", "bool"},
      {"a type of 5", "010101610500", "unknown type"},
      {"a count beyond the bytes", "01ffffffffffffffffff01", "announces"},
      {"a padded count", "018000", "varint"},
      {"a count of 2^64", "0180808080808080808002", "varint"},
      {"a string beyond the end", "0101016100056869", "announces"},
      {"a list beyond the end", "0101016104ff0f", "announces"},
  };
  for (const auto& c : cases) {
    const absl::Status status = DecodeAttributes(Bytes(c.hex)).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << c.what << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.message)) << c.what;
  }
}

TEST(RecordCodec, RefusesCataloguesThatContradictThemselves) {
  const auto refused = [](Catalogue catalogue) {
    return absl::IsDataLoss(
        DecodeCatalogue(EncodeCatalogue(catalogue)).status());
  };
  Catalogue catalogue = Indexed();
  catalogue.collections[0].indexes[1].kind = IndexKind::kTree;
  refused(catalogue);
  catalogue = Indexed();
  catalogue.collections[0].indexes[1].bytes_per_row = 1;
  refused(catalogue);
  catalogue = TwoCollections();
  catalogue.collections[1].number = 2;
  EXPECT_TRUE(refused(catalogue)) << "a number twice";
  catalogue = TwoCollections();
  catalogue.collections[1].name = "a";
  EXPECT_TRUE(refused(catalogue)) << "a name twice";
  catalogue = TwoCollections();
  catalogue.collections[0].owner.pop_back();
  EXPECT_TRUE(refused(catalogue)) << "a slot without owner";
  catalogue = TwoCollections();
  catalogue.collections[0].owner.push_back(1);
  EXPECT_TRUE(refused(catalogue)) << "more owners than slots";
  catalogue = TwoCollections();
  catalogue.collections[0].dimension = 0;
  EXPECT_TRUE(refused(catalogue)) << "no dimension";
  catalogue = TwoCollections();
  catalogue.collections[0].metric = static_cast<Metric>(4);
  EXPECT_TRUE(refused(catalogue)) << "no such metric";
  catalogue = TwoCollections();
  catalogue.collections[1].slots = 2000;
  catalogue.collections[1].owner.assign(2000, 0);
  EXPECT_TRUE(refused(catalogue)) << "too many slots";
}

TEST(RecordCodec, RefusesLogRecordsThatItWouldNotWrite) {
  const struct {
    const char* what;
    const char* hex;
  } cases[] = {
      {"format 2 without need",
       "020100000000000000"
       "00"
       "000000"},
      {"a negative client sequence",
       "020100000000000000"
       "0161"
       "00000000000000ff"
       "000000"},
  };
  for (const auto& c : cases) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeLogRecord(Bytes(c.hex)).status()))
        << c.what;
  }
  LogRecord record;
  record.request = RequestId{std::string(65, 'c'), 1};
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeLogRecord(EncodeLogRecord(record)).status()));
}

TEST(RecordCodec, RefusesRequestKeysThatItWouldNotWrite) {
  const std::string good = EncodeRequestKey({1, 2, "c"});
  EXPECT_TRUE(DecodeRequestKey(good).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeRequestKey(SlotRequestsStart(1, 2)).status()));
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeRequestKey("S" + good.substr(1)).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeRequestKey(EncodeRequestKey({1, kMaxSlots, "c"})).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeRequestKey(EncodeRequestKey({1, 2, std::string(65, 'c')}))
          .status()));
}

TEST(RecordCodec, RefusesCountersBeyondInt64AndIdentitiesOutOfRange) {
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeSequence(Bytes("01ffffffffffffffff")).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeIdentity(EncodeIdentity({"u", 4, 4, 1})).status()));
}

TEST(RecordCodec, NamesKeysInMessages) {
  EXPECT_EQ(KeyName(EncodeKey({3, 17, 9007199254740993})),
            "collection 3, slot 17, id 9007199254740993");
  EXPECT_EQ(KeyName("\x01\x02"), "key 0x0102");
}

}  // namespace
}  // namespace coterie
