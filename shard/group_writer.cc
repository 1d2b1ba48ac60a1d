#include "shard/group_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "shard/log_codec.h"
#include "shard/record_codec.h"

namespace coterie {
namespace {

bool HasUpdates(const LogEntry& entry) {
  return std::any_of(
      entry.slots.begin(), entry.slots.end(),
      [](const SlotMutations& slot) { return !slot.updates.empty(); });
}

absl::Status CheckSet(PointId id, const Attributes& attributes,
                      const Limits& limits) {
  const std::string field = absl::StrCat("attributes of point ", id);
  const auto count = static_cast<int64_t>(attributes.size());
  if (count > limits.attributes_per_point) {
    return OverLimit(field, count, "attributes_per_point",
                     limits.attributes_per_point);
  }
  const int64_t bytes = AttributeBytes(attributes);
  if (bytes > limits.attribute_set_bytes) {
    return OverLimit(field, bytes, "attribute_set_bytes",
                     limits.attribute_set_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

GroupWriter::GroupWriter(absl::Span<const LogEntry* const> entries,
                         int64_t sequence, const Limits& limits,
                         CollectionStates* states, RecordStore* store)
    : sequence_(sequence),
      limits_(limits),
      states_(states),
      store_(store),
      reads_(std::any_of(
          entries.begin(), entries.end(), [](const LogEntry* entry) {
            return !entry->where.empty() ||
                   (entry->mode == AttributeMode::kMerge && HasUpdates(*entry));
          })) {}

absl::StatusOr<WriteReply> GroupWriter::Apply(const LogEntry& entry) {
  auto updates = Resolve(entry);
  if (!updates.ok()) return updates.status();
  const auto spared = Spared(entry);
  if (!spared.ok()) return spared.status();
  WriteReply reply;
  std::vector<const SlotMutations*> slots;
  for (const SlotMutations& slot : entry.slots) {
    if (IsRepeat(entry, slot)) {
      reply.duplicates += static_cast<int64_t>(
          slot.upserts.size() + slot.deletes.size() + slot.updates.size());
    } else {
      slots.push_back(&slot);
    }
  }
  if (!slots.empty()) ++sequence_;
  for (const SlotMutations* slot : slots) {
    ApplySlot(entry, *slot, *spared, &*updates, &reply);
  }
  reply.missing = std::move(updates->missing);
  reply.sequence = sequence_;
  return reply;
}

bool GroupWriter::IsRepeat(const LogEntry& entry,
                           const SlotMutations& slot) const {
  return entry.request.has_value() && states_->at(entry.collection)
                                          ->requests()
                                          .Applied(slot.slot, *entry.request);
}

// --- Attributes -------------------------------------------------------------

absl::StatusOr<GroupWriter::Updates> GroupWriter::Resolve(
    const LogEntry& entry) const {
  Updates updates;
  const CollectionState& state = *states_->at(entry.collection);
  std::vector<PointId> ids;
  std::vector<std::string> keys;
  for (const SlotMutations& slot : entry.slots) {
    if (slot.updates.empty() || IsRepeat(entry, slot)) continue;
    for (const AttributeUpdate& update : slot.updates) {
      if (!state.Contains(update.id)) {
        updates.missing.push_back(update.id);
        continue;
      }
      updates.attributes[update.id];
      ids.push_back(update.id);
      keys.push_back(EncodeKey({entry.collection, slot.slot, update.id}));
    }
  }
  if (entry.mode == AttributeMode::kMerge && !ids.empty()) {
    const absl::Status status = ReadStored(ids, keys, &updates);
    if (!status.ok()) return status;
  }
  for (const SlotMutations& slot : entry.slots) {
    for (const AttributeUpdate& update : slot.updates) {
      const auto found = updates.attributes.find(update.id);
      if (found == updates.attributes.end()) continue;
      for (const auto& [key, value] : update.attributes) {
        found->second[key] = value;
      }
      const absl::Status status = CheckSet(update.id, found->second, limits_);
      if (!status.ok()) return status;
    }
  }
  return updates;
}

absl::StatusOr<absl::flat_hash_set<PointId>> GroupWriter::Spared(
    const LogEntry& entry) const {
  absl::flat_hash_set<PointId> spared;
  if (entry.where.empty()) return spared;
  const CollectionState& state = *states_->at(entry.collection);
  Updates now;
  std::vector<PointId> ids;
  std::vector<std::string> keys;
  for (const SlotMutations& slot : entry.slots) {
    // As it was when the filter was asked.
    if (state.slot(slot.slot).offset == slot.seen_offset) continue;
    for (const PointId id : slot.deletes) {
      if (!state.Contains(id)) continue;
      ids.push_back(id);
      keys.push_back(EncodeKey({entry.collection, slot.slot, id}));
    }
  }
  const absl::Status status = ReadStored(ids, keys, &now);
  if (!status.ok()) return status;
  for (const auto& [id, attributes] : now.attributes) {
    if (!Admits(entry.where, id, attributes)) spared.insert(id);
  }
  return spared;
}

absl::Status GroupWriter::ReadStored(const std::vector<PointId>& ids,
                                     const std::vector<std::string>& keys,
                                     Updates* updates) const {
  const auto values = store_->Read(Family::kAttributes, keys, nullptr);
  if (!values.ok()) return values.status();
  for (size_t i = 0; i < ids.size(); ++i) {
    Attributes& attributes = updates->attributes[ids[i]];
    const auto written = written_.find(keys[i]);
    if (written != written_.end()) {
      attributes = written->second;
      continue;
    }
    const std::optional<std::string>& value = (*values)[i];
    auto stored = value.has_value()
                      ? DecodeAttributes(*value)
                      : absl::DataLossError("it has a row, but no attributes");
    if (!stored.ok()) {
      return absl::DataLossError(absl::StrCat(
          "attributes (", KeyName(keys[i]), "): ", stored.status().message()));
    }
    attributes = std::move(*stored);
  }
  return absl::OkStatus();
}

void GroupWriter::PutAttributes(const std::string& key,
                                const Attributes& attributes) {
  batch_.Put(Family::kAttributes, key, EncodeAttributes(attributes));
  if (reads_) written_[key] = attributes;
}

// --- Slots ------------------------------------------------------------------

void GroupWriter::ApplySlot(const LogEntry& entry, const SlotMutations& slot,
                            const absl::flat_hash_set<PointId>& spared,
                            Updates* updates, WriteReply* reply) {
  CollectionState& state = *states_->at(entry.collection);
  LogRecord record;
  record.sequence = sequence_;
  record.request = entry.request;
  const auto key_of = [&](uint64_t id) {
    return EncodeKey({entry.collection, slot.slot, id});
  };
  for (const Point& point : slot.upserts) {
    state.Upsert(point.id, point.vector, sequence_, point.attributes);
    const std::string key = key_of(point.id);
    batch_.Put(Family::kRows, key, EncodeVector(point.vector));
    PutAttributes(key, point.attributes);
    record.upserted.push_back(point.id);
  }
  for (const PointId id : slot.deletes) {
    if (spared.contains(id) || !state.Delete(id, sequence_)) continue;
    batch_.Delete(Family::kRows, key_of(id));
    batch_.Delete(Family::kAttributes, key_of(id));
    record.deleted.push_back(id);
  }
  for (const AttributeUpdate& update : slot.updates) {
    const auto found = updates->attributes.find(update.id);
    if (found == updates->attributes.end()) continue;
    state.SetAttributes(update.id, found->second);
    PutAttributes(key_of(update.id), found->second);
    record.updated.push_back(update.id);
  }
  reply->upserted += static_cast<int64_t>(record.upserted.size());
  reply->deleted += static_cast<int64_t>(record.deleted.size());
  reply->updated += static_cast<int64_t>(record.updated.size());

  const auto points = static_cast<int64_t>(
      record.upserted.size() + record.deleted.size() + record.updated.size());
  const int64_t offset =
      state.AdvanceOffset(slot.slot, std::max<int64_t>(points, 1));
  // Kept until segment files hold what it says (shard/segment_keeper.h).
  batch_.Put(Family::kLog, key_of(static_cast<uint64_t>(offset)),
             EncodeLogRecord(record));
  NoteRequest(entry, slot.slot, offset);
  touched_[entry.collection].insert(slot.slot);
}

void GroupWriter::NoteRequest(const LogEntry& entry, int32_t slot,
                              int64_t offset) {
  if (!entry.request.has_value()) return;
  const RequestId& request = *entry.request;
  const std::optional<std::string> displaced =
      states_->at(entry.collection)->requests().Note(slot, request, offset);
  batch_.Put(Family::kMeta,
             EncodeRequestKey({entry.collection, slot, request.client_id}),
             EncodeAppliedRequest({request.sequence, offset}));
  if (displaced.has_value()) {
    batch_.Delete(Family::kMeta,
                  EncodeRequestKey({entry.collection, slot, *displaced}));
  }
}

// --- The group --------------------------------------------------------------

const StoreBatch& GroupWriter::Finish() {
  for (const auto& [number, slots] : touched_) {
    for (const int32_t slot : slots) {
      batch_.Put(Family::kMeta, SlotStateKey(number, slot),
                 EncodeSlotState(states_->at(number)->slot(slot)));
    }
  }
  batch_.Put(Family::kMeta, SequenceKey(), EncodeSequence(sequence_));
  return batch_;
}

std::vector<uint32_t> GroupWriter::collections() const {
  std::vector<uint32_t> numbers;
  for (const auto& [number, slots] : touched_) numbers.push_back(number);
  return numbers;
}

}  // namespace coterie
