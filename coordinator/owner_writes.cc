#include "coordinator/owner_writes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/placement.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "api/write_outcome.h"
#include "coordinator/fan_out.h"
#include "coordinator/owner_parts.h"
#include "index/metric.h"

namespace coterie {
namespace {

// Of a list of n items with ids: neither empty nor too long, no id twice.
absl::Status CheckItems(absl::string_view list, size_t n, const Limits& limits,
                        absl::FunctionRef<PointId(size_t)> id_of) {
  if (n == 0) {
    return InvalidField(list, "is empty");
  }
  if (static_cast<int64_t>(n) > limits.points_per_upsert) {
    return OverLimit(list, static_cast<int64_t>(n), "points_per_upsert",
                     limits.points_per_upsert);
  }
  absl::flat_hash_map<PointId, size_t> first;
  first.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    const PointId id = id_of(i);
    auto [it, inserted] = first.emplace(id, i);
    if (!inserted) {
      return InvalidField(
          absl::StrCat(list, "[", i, "].id"),
          absl::StrCat(id, " is the id of ", list, "[", it->second, "] too"));
    }
  }
  return absl::OkStatus();
}

// What goes to a shard, for the report of a failure.
WriteOutcome::Part PartOf(const Part<WriteBatch>& part,
                          const CollectionSpec& spec) {
  WriteOutcome::Part out;
  out.shard = part.shard;
  const WriteBatch& batch = part.request;
  out.items = static_cast<int64_t>(batch.upserts.size() + batch.deletes.size() +
                                   batch.updates.size());
  absl::flat_hash_set<int32_t> slots;
  const auto add = [&](PointId id) { slots.insert(SlotOf(id, spec.slots)); };
  for (const Point& point : batch.upserts) {
    add(point.id);
  }
  for (PointId id : batch.deletes) {
    add(id);
  }
  for (const AttributeUpdate& update : batch.updates) {
    add(update.id);
  }
  for (int32_t s = 0; s < spec.slots && !batch.delete_where.empty(); ++s) {
    if (spec.owner[static_cast<size_t>(s)] == part.shard) slots.insert(s);
  }
  out.slots.assign(slots.begin(), slots.end());
  std::sort(out.slots.begin(), out.slots.end());
  return out;
}

absl::Status Extended(const absl::Status& status, absl::string_view more) {
  absl::Status extended(status.code(), absl::StrCat(status.message(), more));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    extended.SetPayload(url, payload);
  });
  return extended;
}

// The failure of `shard`, with what became of all parts.
absl::Status PartialFailure(const absl::Status& failure, int32_t shard,
                            const WriteOutcome& outcome) {
  int64_t items = 0;
  std::vector<std::string> applied;
  std::vector<std::string> unknown;
  for (const WriteOutcome::Part& part : outcome.parts) {
    items += part.items;
    (part.code == absl::StatusCode::kOk ? applied : unknown)
        .push_back(absl::StrCat(part.items, " on shard ", part.shard));
  }
  absl::Status status = Extended(
      failure,
      absl::StrCat("; of ", items, " items applied: ",
                   applied.empty() ? "none" : absl::StrJoin(applied, ", "),
                   "; not acknowledged: ", absl::StrJoin(unknown, ", "),
                   "; the same request may be sent again"));
  AttachOutcome(&status, outcome);
  return WithShard(std::move(status), shard);
}

absl::StatusOr<WriteReply> SumWrites(
    WriteOutcome outcome, std::vector<absl::StatusOr<WriteReply>> replies) {
  WriteReply sum;
  int64_t failed = -1;
  for (size_t i = 0; i < replies.size(); ++i) {
    outcome.parts[i].code = replies[i].status().code();
    if (!replies[i].ok()) {
      failed = failed < 0 ? static_cast<int64_t>(i) : failed;
      continue;
    }
    sum.upserted += replies[i]->upserted;
    sum.deleted += replies[i]->deleted;
    sum.updated += replies[i]->updated;
    sum.duplicates += replies[i]->duplicates;
    sum.missing.insert(sum.missing.end(), replies[i]->missing.begin(),
                       replies[i]->missing.end());
    sum.sequence = std::max(sum.sequence, replies[i]->sequence);
  }
  if (failed < 0) {
    return sum;
  }
  const auto at = static_cast<size_t>(failed);
  return PartialFailure(replies[at].status(), outcome.parts[at].shard, outcome);
}

// Puts the ids that shards did not find into the order of the request.
void OrderMissing(const std::vector<PointId>& asked, WriteReply* reply) {
  const absl::flat_hash_set<PointId> missing(reply->missing.begin(),
                                             reply->missing.end());
  reply->missing.clear();
  std::copy_if(asked.begin(), asked.end(), std::back_inserter(reply->missing),
               [&](PointId id) { return missing.contains(id); });
}

std::vector<Part<WriteBatch>> Split(const ShardSet& shards,
                                    const CollectionSpec& spec,
                                    WriteBatch batch) {
  Parts<WriteBatch> split(spec, static_cast<int64_t>(shards->size()));
  for (Point& point : batch.upserts) {
    split.For(point.id).upserts.push_back(std::move(point));
  }
  std::sort(batch.deletes.begin(), batch.deletes.end());
  batch.deletes.erase(std::unique(batch.deletes.begin(), batch.deletes.end()),
                      batch.deletes.end());
  for (PointId id : batch.deletes) {
    split.For(id).deletes.push_back(id);
  }
  for (AttributeUpdate& update : batch.updates) {
    split.For(update.id).updates.push_back(std::move(update));
  }
  // Any shard may have what the filter admits.
  for (int32_t s = 0; s < spec.slots && !batch.delete_where.empty(); ++s) {
    split.ForSlot(s).delete_where = batch.delete_where;
  }
  std::vector<Part<WriteBatch>> parts = split.Take();
  for (Part<WriteBatch>& part : parts) {
    part.request.collection = batch.collection;
    part.request.number = spec.number;
    part.request.mode = batch.mode;
    part.request.request_id = batch.request_id;
  }
  return parts;
}

}  // namespace

absl::Status CheckUpsert(const WriteBatch& batch, const Limits& limits) {
  if (!batch.deletes.empty() || !batch.updates.empty()) {
    return absl::InvalidArgumentError("an upsert carries only points");
  }
  return CheckItems("points", batch.upserts.size(), limits,
                    [&](size_t i) { return batch.upserts[i].id; });
}

absl::Status CheckUpdates(const WriteBatch& batch, const Limits& limits) {
  if (!batch.deletes.empty() || !batch.upserts.empty()) {
    return absl::InvalidArgumentError("updates come alone");
  }
  return CheckItems("updates", batch.updates.size(), limits,
                    [&](size_t i) { return batch.updates[i].id; });
}

absl::Status CheckVectors(const CollectionSpec& spec, const WriteBatch& batch) {
  for (size_t i = 0; i < batch.upserts.size(); ++i) {
    const std::vector<float>& vector = batch.upserts[i].vector;
    const std::string field = absl::StrCat("points[", i, "].vector");
    if (static_cast<int64_t>(vector.size()) != spec.dimension) {
      return InvalidField(
          field,
          absl::StrCat("has ", vector.size(), " components; collection ",
                       Quoted(spec.name), " has dimension ", spec.dimension));
    }
    absl::Status valid = ValidateVector(spec.metric, vector);
    if (!valid.ok()) {
      return InvalidField(field, valid.message());
    }
  }
  return absl::OkStatus();
}

void WriteToOwners(const ShardSet& shards, const CollectionSpec& spec,
                   WriteBatch batch, CallContext call, Done<WriteReply> done) {
  std::vector<PointId> asked;
  for (const AttributeUpdate& update : batch.updates) {
    asked.push_back(update.id);
  }
  std::vector<Part<WriteBatch>> parts = Split(shards, spec, std::move(batch));
  WriteOutcome outcome;
  for (const Part<WriteBatch>& part : parts) {
    outcome.parts.push_back(PartOf(part, spec));
  }
  FanOut<WriteReply>(
      static_cast<int64_t>(parts.size()),
      [&](int64_t i, Done<WriteReply> written) {
        Part<WriteBatch>& part = parts[static_cast<size_t>(i)];
        (*shards)[static_cast<size_t>(part.shard)]->Write(
            std::move(part.request), call, std::move(written));
      },
      [outcome = std::move(outcome), asked = std::move(asked),
       done = std::move(done)](
          std::vector<absl::StatusOr<WriteReply>> replies) mutable {
        auto sum = SumWrites(std::move(outcome), std::move(replies));
        if (sum.ok()) {
          OrderMissing(asked, &*sum);
        }
        done(std::move(sum));
      });
}

}  // namespace coterie
