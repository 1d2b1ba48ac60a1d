// How a fake shard writes.

#include <set>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "coordinator/fake_shard_client.h"

namespace coterie {

absl::Status FakeShardClient::CheckWrite(const CollectionSpec& spec,
                                         const WriteBatch& batch) const {
  for (const Point& point : batch.upserts) {
    if (!Owns(spec, point.id)) {
      return absl::FailedPreconditionError(
          absl::StrCat("id ", point.id, " is of another shard's slot"));
    }
    if (static_cast<int64_t>(point.vector.size()) != spec.dimension) {
      return absl::InvalidArgumentError(
          absl::StrCat("id ", point.id, " has another dimension"));
    }
  }
  return absl::OkStatus();
}

void FakeShardClient::RunUpdate(const AttributeUpdate& update,
                                AttributeMode mode, Rows* rows,
                                WriteReply* reply) {
  auto row = rows->find(update.id);
  if (row == rows->end()) {
    reply->missing.push_back(update.id);
    return;
  }
  Attributes& attributes = row->second.attributes;
  if (mode == AttributeMode::kReplace) {
    attributes.clear();
  }
  for (const auto& [key, value] : update.attributes) {
    attributes[key] = value;
  }
  ++reply->updated;
}

absl::StatusOr<WriteReply> FakeShardClient::RunWrite(const WriteBatch& batch) {
  MutexLock lock(&mu_);
  absl::StatusOr<const CollectionSpec*> found =
      Find(batch.collection, batch.number);
  if (!found.ok()) {
    return found.status();
  }
  const CollectionSpec& spec = **found;
  absl::Status sound = CheckWrite(spec, batch);
  if (!sound.ok()) {
    return sound;
  }
  Rows& rows = rows_[spec.number];
  WriteReply reply;
  std::set<int32_t> slots;  // that apply the request now
  const auto is_new = [&](PointId id) {
    if (!batch.request_id.has_value()) {
      return true;
    }
    const int32_t slot = SlotOf(id, spec.slots);
    auto [last, first] = applied_.try_emplace(
        {spec.number, slot, batch.request_id->client_id}, -1);
    if (last->second < batch.request_id->sequence) {
      last->second = batch.request_id->sequence;
      slots.insert(slot);
    }
    if (slots.count(slot) == 1) {
      return true;
    }
    ++reply.duplicates;
    return false;
  };
  for (const Point& point : batch.upserts) {
    if (is_new(point.id)) {
      rows[point.id] = point;
      ++reply.upserted;
    }
  }
  for (PointId id : batch.deletes) {
    if (is_new(id)) {
      reply.deleted += static_cast<int64_t>(rows.erase(id));
    }
  }
  for (auto row = rows.begin(); row != rows.end();) {
    const bool gone =
        !batch.delete_where.empty() &&
        Admits(batch.delete_where, row->first, row->second.attributes) &&
        is_new(row->first);
    reply.deleted += gone ? 1 : 0;
    row = gone ? rows.erase(row) : std::next(row);
  }
  for (const AttributeUpdate& update : batch.updates) {
    if (is_new(update.id)) {
      RunUpdate(update, batch.mode, &rows, &reply);
    }
  }
  reply.sequence = ++sequence_;
  return reply;
}

}  // namespace coterie
