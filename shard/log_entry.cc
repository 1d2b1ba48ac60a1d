#include "shard/log_entry.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "index/metric.h"

namespace coterie {
namespace {

absl::Status CheckPoint(const Point& point, const CollectionSpec& spec,
                        size_t index) {
  const std::string field = absl::StrCat("points[", index, "].vector");
  if (static_cast<int64_t>(point.vector.size()) != spec.dimension) {
    return InvalidField(
        field, absl::StrCat("dimension ", point.vector.size(), " of point ",
                            point.id, ", but collection '", spec.name,
                            "' has dimension ", spec.dimension));
  }
  const absl::Status status = ValidateVector(spec.metric, point.vector);
  return status.ok() ? status : InvalidField(field, status.message());
}

// Splits a batch into one part for each slot. FAILED_PRECONDITION naming id,
// slot and owner if a point is not this shard's.
class SlotGrouper {
 public:
  SlotGrouper(const CollectionSpec& spec, int32_t shard_id)
      : spec_(spec), shard_id_(shard_id), index_(spec.owner.size(), -1) {
    entry_.collection = spec.number;
  }

  absl::StatusOr<SlotMutations*> Part(PointId id) {
    const int32_t slot = SlotOf(id, spec_.slots);
    const int32_t owner = spec_.owner[static_cast<size_t>(slot)];
    if (owner != shard_id_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "point ", id, " of collection '", spec_.name, "' is in slot ", slot,
          ", which belongs to shard ", owner, ", not to shard ", shard_id_));
    }
    int32_t& index = index_[static_cast<size_t>(slot)];
    if (index < 0) {
      index = static_cast<int32_t>(entry_.slots.size());
      entry_.slots.push_back({slot, {}, {}});
    }
    return &entry_.slots[static_cast<size_t>(index)];
  }

  LogEntry Take() { return std::move(entry_); }

 private:
  const CollectionSpec& spec_;
  const int32_t shard_id_;
  std::vector<int32_t> index_;  // by slot: its part, -1 if there is none
  LogEntry entry_;
};

absl::Status CheckRequest(const WriteBatch& batch) {
  if (!batch.updates.empty() &&
      !(batch.upserts.empty() && batch.deletes.empty())) {
    return absl::InvalidArgumentError(
        "a write has updates of attributes or upserts and deletes, not both");
  }
  if (!batch.request_id.has_value()) return absl::OkStatus();
  const auto bytes = static_cast<int64_t>(batch.request_id->client_id.size());
  if (bytes < 1 || bytes > kMostClientIdBytes) {
    return InvalidField(
        "request_id.client_id",
        absl::StrCat(bytes, " bytes are not in 1..", kMostClientIdBytes));
  }
  if (batch.request_id->sequence < 0) {
    return InvalidField(
        "request_id.sequence",
        absl::StrCat(batch.request_id->sequence, " is negative"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LogEntry> EntryOf(WriteBatch batch, const CollectionSpec& spec,
                                 int32_t shard_id) {
  const absl::Status sound = CheckRequest(batch);
  if (!sound.ok()) return sound;
  SlotGrouper grouper(spec, shard_id);
  for (size_t i = 0; i < batch.upserts.size(); ++i) {
    const absl::Status status = CheckPoint(batch.upserts[i], spec, i);
    if (!status.ok()) return status;
    const auto part = grouper.Part(batch.upserts[i].id);
    if (!part.ok()) return part.status();
    (*part)->upserts.push_back(std::move(batch.upserts[i]));
  }
  for (const PointId id : batch.deletes) {
    const auto part = grouper.Part(id);
    if (!part.ok()) return part.status();
    (*part)->deletes.push_back(id);
  }
  for (AttributeUpdate& update : batch.updates) {
    const auto part = grouper.Part(update.id);
    if (!part.ok()) return part.status();
    (*part)->updates.push_back(std::move(update));
  }
  LogEntry entry = grouper.Take();
  entry.mode = batch.mode;
  entry.request = std::move(batch.request_id);
  return entry;
}

}  // namespace coterie
