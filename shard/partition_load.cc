#include "shard/partition_load.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/collection_load.h"
#include "shard/log_codec.h"

namespace coterie {
namespace {

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
                                              RecordStore* store,
                                              SegmentFolder* folder) {
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
  absl::Status status =
      LoadCollections(shard_id, tuning, store, folder, &loaded);
  if (status.ok()) status = LoadRequests(loaded.states, store);
  if (!status.ok()) return status;
  return loaded;
}

}  // namespace coterie
