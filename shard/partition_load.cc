#include "shard/partition_load.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "index/metric.h"
#include "shard/log_codec.h"

namespace coterie {
namespace {

// Beyond every key of every family.
std::string AfterAll() { return std::string(16, '\xff'); }

absl::Status Damaged(absl::string_view what, const absl::Status& why) {
  return absl::DataLossError(absl::StrCat(what, ": ", why.message()));
}

// The value of one describing record, if it is there.
absl::StatusOr<std::optional<std::string>> ReadMeta(RecordStore* store,
                                                    std::string key) {
  auto values = store->Read(Family::kMeta, {std::move(key)}, nullptr);
  if (!values.ok()) return values.status();
  return std::move(values->front());
}

absl::StatusOr<bool> HasRecords(RecordStore* store) {
  for (const Family family : {Family::kMeta, Family::kRows}) {
    const auto cursor = store->Walk(family, "", AfterAll(), nullptr);
    if (!cursor->status().ok()) return cursor->status();
    if (cursor->Valid()) return true;
  }
  return false;
}

std::string OwnerName(const ShardIdentity& identity) {
  return absl::StrCat("shard ", identity.shard_id, " of ",
                      identity.shards_total, " of cluster '",
                      identity.cluster_uuid, "'");
}

// --- Slot states, rows and log, in this order -------------------------------

// What the slot states say, to be compared with what is found.
using StoredSlots = absl::flat_hash_map<uint32_t, std::vector<SlotState>>;

absl::StatusOr<StoredSlots> LoadSlots(const CollectionStates& states,
                                      RecordStore* store) {
  StoredSlots stored;
  for (const auto& [number, state] : states) {
    std::vector<SlotState>& slots = stored[number];
    slots.resize(static_cast<size_t>(state->spec().slots));
    std::vector<std::string> keys;
    for (int32_t slot = 0; slot < state->spec().slots; ++slot) {
      keys.push_back(SlotStateKey(number, slot));
    }
    const auto values = store->Read(Family::kMeta, keys, nullptr);
    if (!values.ok()) return values.status();
    int64_t rows = 0;
    for (size_t slot = 0; slot < keys.size(); ++slot) {
      if (!(*values)[slot].has_value()) continue;
      const auto decoded = DecodeSlotState(*(*values)[slot]);
      if (!decoded.ok()) {
        return Damaged(absl::StrCat("collection ", number, ", slot ", slot),
                       decoded.status());
      }
      slots[slot] = *decoded;
      state->SetOffset(static_cast<int32_t>(slot), decoded->offset);
      rows += std::min(decoded->rows, int64_t{1} << 40);
    }
    state->StartLoad(rows);
  }
  return stored;
}

absl::Status LoadRow(absl::string_view key, absl::string_view value,
                     const CollectionStates& states,
                     std::vector<float>* vector) {
  const auto decoded = DecodeKey(key);
  if (!decoded.ok()) return decoded.status();
  const auto found = states.find(decoded->collection);
  if (found == states.end()) {
    return absl::DataLossError("it belongs to no collection");
  }
  CollectionState& state = *found->second;
  const CollectionSpec& spec = state.spec();
  if (decoded->slot != SlotOf(decoded->id, spec.slots) ||
      !state.Owns(decoded->slot)) {
    return absl::DataLossError("it lies in a slot where it does not belong");
  }
  vector->resize(static_cast<size_t>(spec.dimension));
  absl::Status status = DecodeVector(value, absl::MakeSpan(*vector));
  if (status.ok()) status = ValidateVector(spec.metric, *vector);
  if (status.ok()) state.Load(decoded->id, *vector);
  return status;
}

absl::Status LoadRows(const CollectionStates& states, RecordStore* store) {
  std::vector<float> vector;
  const auto cursor = store->Walk(Family::kRows, "", AfterAll(), nullptr);
  for (; cursor->Valid(); cursor->Next()) {
    const absl::Status status =
        LoadRow(cursor->key(), cursor->value(), states, &vector);
    if (!status.ok()) {
      return Damaged(absl::StrCat("row (", KeyName(cursor->key()), ")"),
                     status);
    }
  }
  for (const auto& [number, state] : states) state->FinishLoad();
  return cursor->status();
}

// Every slot holds the rows, and its log ends at the offset, that its state
// says.
absl::Status CompareSlots(const CollectionStates& states,
                          const StoredSlots& stored,
                          const StoredSlots& logged) {
  for (const auto& [number, slots] : stored) {
    const CollectionState& state = *states.at(number);
    for (int32_t i = 0; i < state.spec().slots; ++i) {
      const SlotState& expected = slots[static_cast<size_t>(i)];
      const SlotState& found = state.slot(i);
      const int64_t log_end = logged.at(number)[static_cast<size_t>(i)].offset;
      if (found.rows == expected.rows &&
          found.id_checksum == expected.id_checksum &&
          log_end == expected.offset) {
        continue;
      }
      return absl::DataLossError(absl::StrCat(
          "collection '", state.spec().name, "' (", number, "), slot ", i,
          ": its state says ", expected.rows, " rows, id checksum ",
          expected.id_checksum, ", offset ", expected.offset,
          "; the store holds ", found.rows, " rows, id checksum ",
          found.id_checksum, ", log up to ", log_end));
    }
  }
  return absl::OkStatus();
}

// The last offset of each slot's log, as slot states.
absl::StatusOr<StoredSlots> LoadLog(const CollectionStates& states,
                                    int64_t sequence, RecordStore* store) {
  StoredSlots logged;
  for (const auto& [number, state] : states) {
    logged[number].resize(static_cast<size_t>(state->spec().slots));
  }
  const auto cursor = store->Walk(Family::kLog, "", AfterAll(), nullptr);
  for (; cursor->Valid(); cursor->Next()) {
    const std::string name =
        absl::StrCat("log record (", KeyName(cursor->key()), ")");
    const auto key = DecodeKey(cursor->key());
    if (!key.ok()) return Damaged(name, key.status());
    const auto record = DecodeLogRecord(cursor->value());
    if (!record.ok()) return Damaged(name, record.status());
    const auto slots = logged.find(key->collection);
    if (slots == logged.end() ||
        static_cast<size_t>(key->slot) >= slots->second.size()) {
      return absl::DataLossError(absl::StrCat(name, ": it belongs to nothing"));
    }
    if (record->sequence > sequence) {
      return absl::DataLossError(absl::StrCat(name, ": its sequence is ",
                                              record->sequence,
                                              ", the shard's is ", sequence));
    }
    slots->second[static_cast<size_t>(key->slot)].offset =
        static_cast<int64_t>(key->id);
  }
  if (!cursor->status().ok()) return cursor->status();
  return logged;
}

absl::Status LoadRequest(absl::string_view key, absl::string_view value,
                         const CollectionStates& states) {
  auto decoded = DecodeRequestKey(key);
  if (!decoded.ok()) return decoded.status();
  const auto request = DecodeAppliedRequest(value);
  if (!request.ok()) return request.status();
  const auto found = states.find(decoded->collection);
  if (found == states.end() || decoded->slot >= found->second->spec().slots) {
    return absl::DataLossError("it belongs to nothing");
  }
  const int64_t offset = found->second->slot(decoded->slot).offset;
  if (request->offset < 1 || request->offset > offset) {
    return absl::DataLossError(absl::StrCat("its offset is ", request->offset,
                                            ", the slot's is ", offset));
  }
  found->second->requests().Load(decoded->slot, std::move(decoded->client_id),
                                 *request);
  return absl::OkStatus();
}

absl::Status LoadRequests(const CollectionStates& states, RecordStore* store) {
  const auto cursor =
      store->Walk(Family::kMeta, SlotRequestsStart(0, 0),
                  SlotRequestsStart(~uint32_t{0}, kMaxSlots), nullptr);
  for (; cursor->Valid(); cursor->Next()) {
    const absl::Status status =
        LoadRequest(cursor->key(), cursor->value(), states);
    if (!status.ok()) {
      return Damaged(absl::StrCat("request (", KeyName(cursor->key()), ")"),
                     status);
    }
  }
  return cursor->status();
}

}  // namespace

absl::StatusOr<ShardIdentity> ClaimIdentity(const ShardIdentity& expected,
                                            RecordStore* store) {
  const auto record = ReadMeta(store, IdentityKey());
  if (!record.ok()) return record.status();
  ShardIdentity identity = expected;
  identity.incarnation = 0;
  if (record->has_value()) {
    auto stored = DecodeIdentity(**record);
    if (!stored.ok()) return Damaged("identity", stored.status());
    identity.incarnation = stored->incarnation;
    if (identity != *stored) {
      return absl::FailedPreconditionError(
          absl::StrCat("the folder belongs to ", OwnerName(*stored),
                       ", but this is ", OwnerName(expected)));
    }
  } else {
    const auto used = HasRecords(store);
    if (!used.ok()) return used.status();
    if (*used) {
      return absl::DataLossError("there are records, but no identity");
    }
  }
  ++identity.incarnation;
  StoreBatch batch;
  batch.Put(Family::kMeta, IdentityKey(), EncodeIdentity(identity));
  const absl::Status status = store->Write(batch);
  if (!status.ok()) return status;
  return identity;
}

absl::StatusOr<LoadedPartition> LoadPartition(int32_t shard_id,
                                              const SegmentTuning& tuning,
                                              RecordStore* store) {
  LoadedPartition loaded;
  const auto catalogue = ReadMeta(store, CatalogueKey());
  if (!catalogue.ok()) return catalogue.status();
  if (catalogue->has_value()) {
    auto decoded = DecodeCatalogue(**catalogue);
    if (!decoded.ok()) return Damaged("catalogue", decoded.status());
    loaded.catalogue = std::move(*decoded);
  }
  const auto sequence = ReadMeta(store, SequenceKey());
  if (!sequence.ok()) return sequence.status();
  if (sequence->has_value()) {
    const auto decoded = DecodeSequence(**sequence);
    if (!decoded.ok()) return Damaged("sequence", decoded.status());
    loaded.sequence = *decoded;
  }
  for (const CollectionSpec& spec : loaded.catalogue.collections) {
    loaded.states[spec.number] =
        std::make_unique<CollectionState>(spec, shard_id, tuning);
  }
  const auto stored = LoadSlots(loaded.states, store);
  if (!stored.ok()) return stored.status();
  absl::Status status = LoadRows(loaded.states, store);
  if (!status.ok()) return status;
  const auto logged = LoadLog(loaded.states, loaded.sequence, store);
  if (!logged.ok()) return logged.status();
  status = CompareSlots(loaded.states, *stored, *logged);
  if (status.ok()) status = LoadRequests(loaded.states, store);
  if (!status.ok()) return status;
  return loaded;
}

}  // namespace coterie
