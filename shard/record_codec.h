// The bytes a shard keeps on disk: keys and values of its records.
//
// Stateless; any thread. The format is frozen by golden bytes in the test:
// numbers in keys are big-endian, so that keys sort by collection, slot, id;
// numbers in values are little-endian; lengths and counts are LEB128 varints;
// every value starts with a format byte.
//
// Decoders take any bytes. What they accept they re-encode to the same bytes;
// anything else is DATA_LOSS saying what is wrong, never a crash, and never an
// allocation larger than the input justifies.

#ifndef COTERIE_SHARD_RECORD_CODEC_H_
#define COTERIE_SHARD_RECORD_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "api/collection.h"
#include "api/point.h"
#include "api/search.h"
#include "index/vectors.h"

namespace coterie {

// Bounds that the format itself has; api/limits may be lower, not higher.
inline constexpr int32_t kMaxSlots = 1024;

// --- Keys -------------------------------------------------------------------

// Of a row, of its attributes, and (with an offset for the id) of a log
// record: collection u32 | slot u16 | id u64.
struct RecordKey {
  uint32_t collection = 0;
  int32_t slot = 0;  // [0, kMaxSlots)
  uint64_t id = 0;

  friend bool operator==(const RecordKey&, const RecordKey&) = default;
};
std::string EncodeKey(const RecordKey& key);
absl::StatusOr<RecordKey> DecodeKey(absl::string_view bytes);

// The least key of a slot; slot == kMaxSlots: after every key of the
// collection. So a collection is [SlotStart(c, 0), SlotStart(c, kMaxSlots)).
std::string SlotStart(uint32_t collection, int32_t slot);

// Keys of the records that describe the shard. Slot states of a collection lie
// in [SlotStateKey(c, 0), SlotStateKey(c, kMaxSlots)).
std::string IdentityKey();
std::string CatalogueKey();
std::string SequenceKey();
std::string StoreIdKey();
std::string SlotStateKey(uint32_t collection, int32_t slot);

// Of a named record of a collection; those of a collection lie in
// [NamedRecordKey(c, ""), NamedRecordKey(c + 1, "")).
std::string NamedRecordKey(uint32_t collection, absl::string_view name);
// The name in such a key. REQUIRES: it is one.
absl::string_view NameInKey(absl::string_view key);

// For messages: "collection 3, slot 17, id 9007199254740993", or the bytes in
// hexadecimal if they are no such key.
std::string KeyName(absl::string_view bytes);

// --- Values -----------------------------------------------------------------

// Format byte | d x float32.
std::string EncodeVector(VectorView vector);
// Fills `out`. DATA_LOSS unless the record holds exactly out.size() components.
absl::Status DecodeVector(absl::string_view bytes, absl::Span<float> out);

// Format byte | count | (key, type, value) by ascending key; the type is the
// index of the alternative of AttributeValue.
std::string EncodeAttributes(const Attributes& attributes);
absl::StatusOr<Attributes> DecodeAttributes(absl::string_view bytes);

// Format byte | offset | rows | id checksum. The slot itself is in the key and
// 0 in what is decoded.
std::string EncodeSlotState(const SlotState& state);
absl::StatusOr<SlotState> DecodeSlotState(absl::string_view bytes);

// Format byte | sequence.
std::string EncodeSequence(int64_t sequence);
absl::StatusOr<int64_t> DecodeSequence(absl::string_view bytes);

// Owners are runs (owner, length). Accepts only catalogues whose numbers and
// names are distinct and non-empty, sorted by name. Format 2 has the names of
// stores behind the collections; format 3 has each collection's indexes behind
// its owners, and stores or none; format 1 has neither.
std::string EncodeCatalogue(const Catalogue& catalogue);
absl::StatusOr<Catalogue> DecodeCatalogue(absl::string_view bytes);

// Format byte | the bytes that the hexadecimal digits stand for (store_id.h).
inline constexpr int kStoreIdBytes = 16;
std::string EncodeStoreId(absl::string_view id);
absl::StatusOr<std::string> DecodeStoreId(absl::string_view bytes);

// Format byte | version | value.
struct NamedRecord {
  int64_t version = 0;  // >= 1
  std::string value;

  friend bool operator==(const NamedRecord&, const NamedRecord&) = default;
};
std::string EncodeNamedRecord(const NamedRecord& record);
absl::StatusOr<NamedRecord> DecodeNamedRecord(absl::string_view bytes);

// Whose store this is. `incarnation` counts openings.
struct ShardIdentity {
  std::string cluster_uuid;
  int32_t shard_id = 0;
  int32_t shards_total = 0;
  int64_t incarnation = 0;

  friend bool operator==(const ShardIdentity&, const ShardIdentity&) = default;
};
std::string EncodeIdentity(const ShardIdentity& identity);
absl::StatusOr<ShardIdentity> DecodeIdentity(absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_SHARD_RECORD_CODEC_H_
