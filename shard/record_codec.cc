#include "shard/record_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "shard/record_bytes.h"

namespace coterie {
namespace {

static_assert(std::endian::native == std::endian::little,
              "vectors are copied as they lie in memory");

constexpr char kFormat = 1;
// Of a catalogue.
constexpr char kFormatWithStores = 2;
constexpr char kFormatWithIndexes = 3;  // and with stores, or none
constexpr size_t kKeyBytes = 4 + 2 + 8;
constexpr int32_t kMaxStoredDimension = 16384;

// --- Attributes -------------------------------------------------------------

struct ValueWriter {
  std::string* out;
  void operator()(const std::string& v) const { PutString(out, v); }
  void operator()(int64_t v) const {
    PutLittleEndian(out, static_cast<uint64_t>(v));
  }
  void operator()(double v) const {
    PutLittleEndian(out, std::bit_cast<uint64_t>(v));
  }
  void operator()(bool v) const { out->push_back(v ? 1 : 0); }
  void operator()(const std::vector<std::string>& v) const {
    PutVarint(out, v.size());
    for (const std::string& item : v) PutString(out, item);
  }
};

AttributeValue ReadValue(ByteReader* reader) {
  switch (reader->Byte()) {
    case 0:
      return reader->String();
    case 1:
      return static_cast<int64_t>(reader->LittleEndian<uint64_t>());
    case 2:
      return std::bit_cast<double>(reader->LittleEndian<uint64_t>());
    case 3: {
      const uint8_t value = reader->Byte();
      if (value > 1) reader->Fail("a bool is neither 0 nor 1");
      return value == 1;
    }
    case 4: {
      std::vector<std::string> list(reader->Count(1));
      for (std::string& item : list) item = reader->String();
      return list;
    }
    default:
      reader->Fail("an attribute has an unknown type");
      return false;
  }
}

// --- Catalogue --------------------------------------------------------------

void PutOwners(std::string* out, absl::Span<const int32_t> owner) {
  std::vector<std::pair<int32_t, uint64_t>> runs;
  for (const int32_t shard : owner) {
    if (runs.empty() || runs.back().first != shard) runs.push_back({shard, 0});
    ++runs.back().second;
  }
  PutVarint(out, runs.size());
  for (const auto& [shard, length] : runs) {
    PutVarint(out, static_cast<uint64_t>(shard));
    PutVarint(out, length);
  }
}

std::vector<int32_t> ReadOwners(ByteReader* reader, int32_t slots) {
  std::vector<int32_t> owner;
  const size_t runs = reader->Count(2);
  for (size_t i = 0; i < runs && reader->ok(); ++i) {
    const uint64_t shard = reader->Varint();
    const uint64_t length = reader->Varint();
    const uint64_t room = static_cast<uint64_t>(slots) - owner.size();
    if (shard > std::numeric_limits<int32_t>::max() || length == 0 ||
        length > room ||
        (!owner.empty() && owner.back() == static_cast<int32_t>(shard))) {
      reader->Fail("a run of slot owners is wrong");
      break;
    }
    owner.insert(owner.end(), length, static_cast<int32_t>(shard));
  }
  if (owner.size() != static_cast<size_t>(slots)) {
    reader->Fail("slot owners do not cover the slots");
  }
  return owner;
}

bool HasIndexes(const Catalogue& catalogue) {
  return std::any_of(
      catalogue.collections.begin(), catalogue.collections.end(),
      [](const CollectionSpec& spec) { return !spec.indexes.empty(); });
}

void PutIndexes(std::string* out, const std::vector<IndexSpec>& indexes) {
  PutVarint(out, indexes.size());
  for (const IndexSpec& index : indexes) {
    out->push_back(static_cast<char>(index.kind));
    PutVarint(out, static_cast<uint64_t>(index.bytes_per_row));
    PutLittleEndian(out, std::bit_cast<uint64_t>(index.target_recall));
    if (index.kind == IndexKind::kFaiss) PutString(out, index.factory);
  }
}

std::vector<IndexSpec> ReadIndexes(ByteReader* reader) {
  std::vector<IndexSpec> indexes;
  const size_t count = reader->Count(10);
  for (size_t i = 0; i < count && reader->ok(); ++i) {
    IndexSpec index;
    index.kind = static_cast<IndexKind>(reader->Byte());
    const uint64_t bytes = reader->Varint();
    index.target_recall =
        std::bit_cast<double>(reader->LittleEndian<uint64_t>());
    if (index.kind == IndexKind::kFaiss) index.factory = reader->String();
    if (bytes > std::numeric_limits<int32_t>::max()) {
      reader->Fail("an index takes too much memory");
      break;
    }
    index.bytes_per_row = static_cast<int32_t>(bytes);
    const bool again = std::any_of(
        indexes.begin(), indexes.end(),
        [&](const IndexSpec& other) { return other.kind == index.kind; });
    if (again || !ValidateIndex(index).ok()) {
      reader->Fail("an index is none, or there twice");
    }
    indexes.push_back(index);
  }
  return indexes;
}

CollectionSpec ReadCollection(ByteReader* reader) {
  CollectionSpec spec;
  spec.name = reader->String();
  spec.number = reader->LittleEndian<uint32_t>();
  const uint32_t dimension = reader->LittleEndian<uint32_t>();
  const uint8_t metric = reader->Byte();
  const uint32_t slots = reader->LittleEndian<uint32_t>();
  if (spec.name.empty() || spec.number == 0 || dimension == 0 ||
      dimension > kMaxStoredDimension || metric < 1 || metric > 3 ||
      slots == 0 || slots > kMaxSlots) {
    reader->Fail("a collection's fields are out of range");
    return spec;
  }
  spec.dimension = static_cast<int32_t>(dimension);
  spec.metric = static_cast<Metric>(metric);
  spec.slots = static_cast<int32_t>(slots);
  spec.owner = ReadOwners(reader, spec.slots);
  if (reader->format() == kFormatWithIndexes) {
    spec.indexes = ReadIndexes(reader);
  }
  return spec;
}

}  // namespace

// --- Keys -------------------------------------------------------------------

std::string SlotStart(uint32_t collection, int32_t slot) {
  std::string out;
  PutBigEndian(&out, collection);
  PutBigEndian(&out, static_cast<uint16_t>(slot));
  return out;
}

std::string EncodeKey(const RecordKey& key) {
  std::string out = SlotStart(key.collection, key.slot);
  PutBigEndian(&out, key.id);
  return out;
}

absl::StatusOr<RecordKey> DecodeKey(absl::string_view bytes) {
  if (bytes.size() != kKeyBytes) {
    return absl::DataLossError(
        absl::StrCat("key of ", bytes.size(), " bytes instead of ", kKeyBytes));
  }
  RecordKey key;
  key.collection = ReadBigEndian<uint32_t>(bytes, 0);
  key.slot = ReadBigEndian<uint16_t>(bytes, 4);
  key.id = ReadBigEndian<uint64_t>(bytes, 6);
  if (key.slot >= kMaxSlots) {
    return absl::DataLossError(absl::StrCat("key with slot ", key.slot));
  }
  return key;
}

std::string IdentityKey() { return "I"; }
std::string CatalogueKey() { return "C"; }
std::string SequenceKey() { return "Q"; }
std::string StoreIdKey() { return "U"; }
std::string SlotStateKey(uint32_t collection, int32_t slot) {
  return absl::StrCat("S", SlotStart(collection, slot));
}

std::string NamedRecordKey(uint32_t collection, absl::string_view name) {
  std::string out = "J";
  PutBigEndian(&out, collection);
  out.append(name.data(), name.size());
  return out;
}

absl::string_view NameInKey(absl::string_view key) {
  return key.substr(1 + sizeof(uint32_t));
}

std::string KeyName(absl::string_view bytes) {
  const absl::StatusOr<RecordKey> key = DecodeKey(bytes);
  if (!key.ok()) return absl::StrCat("key 0x", absl::BytesToHexString(bytes));
  return absl::StrCat("collection ", key->collection, ", slot ", key->slot,
                      ", id ", key->id);
}

// --- Values -----------------------------------------------------------------

std::string EncodeVector(VectorView vector) {
  std::string out(1 + vector.size() * sizeof(float), '\0');
  out[0] = kFormat;
  if (!vector.empty()) {
    std::memcpy(&out[1], vector.data(), vector.size() * sizeof(float));
  }
  return out;
}

absl::Status DecodeVector(absl::string_view bytes, absl::Span<float> out) {
  const size_t want = 1 + out.size() * sizeof(float);
  if (bytes.empty() || bytes[0] != kFormat || bytes.size() != want) {
    return absl::DataLossError(
        absl::StrCat("vector record of ", bytes.size(), " bytes, format ",
                     bytes.empty() ? 0 : static_cast<int>(bytes[0]),
                     ", instead of ", want, " bytes, format 1"));
  }
  if (!out.empty()) {
    std::memcpy(out.data(), bytes.data() + 1, out.size() * sizeof(float));
  }
  return absl::OkStatus();
}

std::string EncodeAttributes(const Attributes& attributes) {
  std::string out(1, kFormat);
  PutVarint(&out, attributes.size());
  for (const auto& [key, value] : attributes) {
    PutString(&out, key);
    out.push_back(static_cast<char>(value.index()));
    std::visit(ValueWriter{&out}, value);
  }
  return out;
}

absl::StatusOr<Attributes> DecodeAttributes(absl::string_view bytes) {
  ByteReader reader("attributes", bytes);
  Attributes attributes;
  const size_t count = reader.Count(3);
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    std::string key = reader.String();
    if (!attributes.empty() && key <= attributes.rbegin()->first) {
      reader.Fail("keys are not in order");
    }
    AttributeValue value = ReadValue(&reader);
    attributes.emplace_hint(attributes.end(), std::move(key), std::move(value));
  }
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return attributes;
}

std::string EncodeSlotState(const SlotState& state) {
  std::string out(1, kFormat);
  PutLittleEndian(&out, static_cast<uint64_t>(state.offset));
  PutLittleEndian(&out, static_cast<uint64_t>(state.rows));
  PutLittleEndian(&out, state.id_checksum);
  return out;
}

absl::StatusOr<SlotState> DecodeSlotState(absl::string_view bytes) {
  ByteReader reader("slot state", bytes);
  SlotState state;
  state.offset = reader.Counter();
  state.rows = reader.Counter();
  state.id_checksum = reader.LittleEndian<uint64_t>();
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return state;
}

std::string EncodeSequence(int64_t sequence) {
  std::string out(1, kFormat);
  PutLittleEndian(&out, static_cast<uint64_t>(sequence));
  return out;
}

absl::StatusOr<int64_t> DecodeSequence(absl::string_view bytes) {
  ByteReader reader("sequence", bytes);
  const int64_t sequence = reader.Counter();
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return sequence;
}

std::string EncodeCatalogue(const Catalogue& catalogue) {
  const bool indexes = HasIndexes(catalogue);
  const bool stores = !catalogue.stores.empty();
  std::string out(1, indexes  ? kFormatWithIndexes
                     : stores ? kFormatWithStores
                              : kFormat);
  PutLittleEndian(&out, static_cast<uint64_t>(catalogue.version));
  PutLittleEndian(&out, catalogue.next_number);
  PutVarint(&out, catalogue.collections.size());
  for (const CollectionSpec& spec : catalogue.collections) {
    PutString(&out, spec.name);
    PutLittleEndian(&out, spec.number);
    PutLittleEndian(&out, static_cast<uint32_t>(spec.dimension));
    out.push_back(static_cast<char>(spec.metric));
    PutLittleEndian(&out, static_cast<uint32_t>(spec.slots));
    PutOwners(&out, spec.owner);
    if (indexes) PutIndexes(&out, spec.indexes);
  }
  if (stores || indexes) {
    PutVarint(&out, catalogue.stores.size());
    for (const std::string& store : catalogue.stores) PutString(&out, store);
  }
  return out;
}

absl::StatusOr<Catalogue> DecodeCatalogue(absl::string_view bytes) {
  ByteReader reader("catalogue", bytes, kFormatWithIndexes);
  Catalogue catalogue;
  catalogue.version = reader.Counter();
  catalogue.next_number = reader.LittleEndian<uint32_t>();
  const size_t count = reader.Count(1);
  absl::flat_hash_set<uint32_t> numbers;
  for (size_t i = 0; i < count && reader.ok(); ++i) {
    CollectionSpec spec = ReadCollection(&reader);
    if (i > 0 && spec.name <= catalogue.collections.back().name) {
      reader.Fail("collections are not in order");
    }
    if (!numbers.insert(spec.number).second) {
      reader.Fail("a collection number is used twice");
    }
    catalogue.collections.push_back(std::move(spec));
  }
  const bool indexes = reader.format() == kFormatWithIndexes;
  if (indexes && !HasIndexes(catalogue)) {
    reader.Fail("it has room for indexes, but names none");
  }
  if (indexes || reader.format() == kFormatWithStores) {
    const size_t stores = reader.Count(1);
    if (stores == 0 && !indexes) {
      reader.Fail("it has room for stores, but names none");
    }
    for (size_t i = 0; i < stores && reader.ok(); ++i) {
      catalogue.stores.push_back(reader.String());
    }
  }
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return catalogue;
}

std::string EncodeStoreId(absl::string_view id) {
  return absl::StrCat(std::string(1, kFormat), absl::HexStringToBytes(id));
}

absl::StatusOr<std::string> DecodeStoreId(absl::string_view bytes) {
  if (bytes.size() != 1 + kStoreIdBytes || bytes[0] != kFormat) {
    return absl::DataLossError(
        absl::StrCat("store id record of ", bytes.size(), " bytes instead of ",
                     1 + kStoreIdBytes, ", or of another format"));
  }
  return absl::BytesToHexString(bytes.substr(1));
}

std::string EncodeNamedRecord(const NamedRecord& record) {
  std::string out(1, kFormat);
  PutLittleEndian(&out, static_cast<uint64_t>(record.version));
  out.append(record.value);
  return out;
}

absl::StatusOr<NamedRecord> DecodeNamedRecord(absl::string_view bytes) {
  constexpr size_t kHead = 1 + sizeof(uint64_t);
  ByteReader reader("named", bytes.substr(0, std::min(kHead, bytes.size())));
  NamedRecord record;
  record.version = reader.Counter();
  if (record.version == 0) reader.Fail("it has no version");
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  record.value = std::string(bytes.substr(kHead));
  return record;
}

std::string EncodeIdentity(const ShardIdentity& identity) {
  std::string out(1, kFormat);
  PutString(&out, identity.cluster_uuid);
  PutLittleEndian(&out, static_cast<uint32_t>(identity.shard_id));
  PutLittleEndian(&out, static_cast<uint32_t>(identity.shards_total));
  PutLittleEndian(&out, static_cast<uint64_t>(identity.incarnation));
  return out;
}

absl::StatusOr<ShardIdentity> DecodeIdentity(absl::string_view bytes) {
  ByteReader reader("identity", bytes);
  ShardIdentity identity;
  identity.cluster_uuid = reader.String();
  const uint32_t shard_id = reader.LittleEndian<uint32_t>();
  const uint32_t shards_total = reader.LittleEndian<uint32_t>();
  if (shards_total > std::numeric_limits<int32_t>::max() ||
      shard_id >= shards_total) {
    reader.Fail("shard id and number of shards do not fit");
  }
  identity.shard_id = static_cast<int32_t>(shard_id);
  identity.shards_total = static_cast<int32_t>(shards_total);
  identity.incarnation = reader.Counter();
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return identity;
}

}  // namespace coterie
