#include "coordinator/point_calls.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/placement.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "coordinator/fan_out.h"
#include "coordinator/shard_view.h"
#include "index/metric.h"

namespace coterie {
namespace {

// A request's part for one shard.
template <typename Request>
struct Part {
  int32_t shard = 0;
  Request request;
};

// Finds or makes the part of an id's owner; parts come out by shard.
template <typename Request>
class Parts {
 public:
  Parts(const CollectionSpec& spec, int64_t shards)
      : spec_(spec), by_shard_(static_cast<size_t>(shards)) {}

  Request& For(PointId id) {
    const int32_t slot = SlotOf(id, spec_.slots);
    const int32_t shard = spec_.owner[static_cast<size_t>(slot)];
    std::unique_ptr<Request>& part = by_shard_[static_cast<size_t>(shard)];
    if (part == nullptr) {
      part = std::make_unique<Request>();
    }
    return *part;
  }

  std::vector<Part<Request>> Take() {
    std::vector<Part<Request>> parts;
    for (size_t s = 0; s < by_shard_.size(); ++s) {
      if (by_shard_[s] != nullptr) {
        parts.push_back({static_cast<int32_t>(s), std::move(*by_shard_[s])});
      }
    }
    return parts;
  }

 private:
  const CollectionSpec& spec_;
  std::vector<std::unique_ptr<Request>> by_shard_;
};

// How many of a write's items go to a shard.
struct Load {
  int32_t shard = 0;
  int64_t items = 0;
};

absl::Status Extended(const absl::Status& status, absl::string_view more) {
  absl::Status extended(status.code(), absl::StrCat(status.message(), more));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    extended.SetPayload(url, payload);
  });
  return extended;
}

absl::StatusOr<WriteReply> SumWrites(
    const std::vector<Load>& loads,
    std::vector<absl::StatusOr<WriteReply>> replies) {
  WriteReply sum;
  const absl::Status* failure = nullptr;
  int32_t failed_shard = 0;
  int64_t items = 0;
  std::vector<std::string> applied;
  std::vector<std::string> unknown;
  for (size_t i = 0; i < replies.size(); ++i) {
    items += loads[i].items;
    const std::string part =
        absl::StrCat(loads[i].items, " on shard ", loads[i].shard);
    if (replies[i].ok()) {
      applied.push_back(part);
      sum.upserted += replies[i]->upserted;
      sum.deleted += replies[i]->deleted;
      sum.sequence = std::max(sum.sequence, replies[i]->sequence);
      continue;
    }
    unknown.push_back(part);
    if (failure == nullptr) {
      failure = &replies[i].status();
      failed_shard = loads[i].shard;
    }
  }
  if (failure == nullptr) {
    return sum;
  }
  return WithShard(
      Extended(
          *failure,
          absl::StrCat("; of ", items, " items applied: ",
                       applied.empty() ? "none" : absl::StrJoin(applied, ", "),
                       "; not acknowledged: ", absl::StrJoin(unknown, ", "),
                       "; the same request may be sent again")),
      failed_shard);
}

// Puts the shards' answers into the order of `ids`.
absl::StatusOr<OwnersGetReply> InOrder(
    const std::vector<PointId>& ids, const std::vector<int32_t>& shards,
    std::vector<absl::StatusOr<GetReply>> replies) {
  OwnersGetReply out;
  absl::flat_hash_map<PointId, Point> found;
  for (size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].ok()) {
      return WithShard(replies[i].status(), shards[i]);
    }
    out.links.emplace_back(shards[i], replies[i]->link);
    for (Point& point : replies[i]->points) {
      const PointId id = point.id;
      found.insert_or_assign(id, std::move(point));
    }
  }
  absl::flat_hash_map<PointId, int64_t> uses;
  for (PointId id : ids) {
    ++uses[id];
  }
  for (PointId id : ids) {
    auto it = found.find(id);
    if (it == found.end()) {
      out.reply.missing.push_back(id);
    } else if (--uses[id] == 0) {
      out.reply.points.push_back(std::move(it->second));
    } else {
      out.reply.points.push_back(it->second);
    }
  }
  return out;
}

}  // namespace

absl::Status CheckBatch(const WriteBatch& batch, const Limits& limits) {
  const int64_t n = static_cast<int64_t>(batch.upserts.size());
  if (n == 0) {
    return InvalidField("points", "is empty");
  }
  if (n > limits.points_per_upsert) {
    return OverLimit("points", n, "points_per_upsert",
                     limits.points_per_upsert);
  }
  if (!batch.deletes.empty()) {
    return absl::InvalidArgumentError("an upsert carries no deletes");
  }
  absl::flat_hash_map<PointId, int64_t> first;
  first.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const PointId id = batch.upserts[static_cast<size_t>(i)].id;
    auto [it, inserted] = first.emplace(id, i);
    if (!inserted) {
      return InvalidField(
          absl::StrCat("points[", i, "].id"),
          absl::StrCat(id, " is the id of points[", it->second, "] too"));
    }
  }
  return absl::OkStatus();
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
  std::vector<Part<WriteBatch>> parts = split.Take();
  std::vector<Load> loads;
  for (const Part<WriteBatch>& part : parts) {
    loads.push_back(
        {part.shard, static_cast<int64_t>(part.request.upserts.size() +
                                          part.request.deletes.size())});
  }
  FanOut<WriteReply>(
      static_cast<int64_t>(parts.size()),
      [&](int64_t i, Done<WriteReply> written) {
        Part<WriteBatch>& part = parts[static_cast<size_t>(i)];
        part.request.collection = batch.collection;
        (*shards)[static_cast<size_t>(part.shard)]->Write(
            std::move(part.request), call, std::move(written));
      },
      [loads, done = std::move(done)](
          std::vector<absl::StatusOr<WriteReply>> replies) mutable {
        done(SumWrites(loads, std::move(replies)));
      });
}

void GetFromOwners(const ShardSet& shards, const CollectionSpec& spec,
                   GetRequest request, CallContext call,
                   Done<OwnersGetReply> done) {
  Parts<GetRequest> split(spec, static_cast<int64_t>(shards->size()));
  std::vector<PointId> distinct = request.ids;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (PointId id : distinct) {
    const int32_t slot = SlotOf(id, spec.slots);
    if (spec.owner[static_cast<size_t>(slot)] == kElsewhere) {
      done(absl::FailedPreconditionError(absl::StrCat(
          "id ", id, " belongs to slot ", slot, " of ", Quoted(spec.name),
          ", which another shard holds; ask a coordinator")));
      return;
    }
    split.For(id).ids.push_back(id);
  }
  std::vector<Part<GetRequest>> parts = split.Take();
  std::vector<int32_t> asked;
  for (const Part<GetRequest>& part : parts) {
    asked.push_back(part.shard);
  }
  FanOut<GetReply>(
      static_cast<int64_t>(parts.size()),
      [&](int64_t i, Done<GetReply> got) {
        Part<GetRequest>& part = parts[static_cast<size_t>(i)];
        part.request.collection = request.collection;
        part.request.with_vectors = request.with_vectors;
        part.request.with_attributes = request.with_attributes;
        (*shards)[static_cast<size_t>(part.shard)]->Get(std::move(part.request),
                                                        call, std::move(got));
      },
      [ids = request.ids, asked, done = std::move(done)](
          std::vector<absl::StatusOr<GetReply>> replies) mutable {
        done(InOrder(ids, asked, std::move(replies)));
      });
}

void CountOnAll(const ShardSet& shards, const CountRequest& request,
                CallContext call, Done<CountReply> done) {
  FanOut<CountReply>(
      static_cast<int64_t>(shards->size()),
      [&](int64_t i, Done<CountReply> counted) {
        (*shards)[static_cast<size_t>(i)]->Count(request, call,
                                                 std::move(counted));
      },
      [done = std::move(done)](
          std::vector<absl::StatusOr<CountReply>> replies) mutable {
        CountReply sum;
        for (size_t i = 0; i < replies.size(); ++i) {
          if (!replies[i].ok()) {
            done(WithShard(replies[i].status(), static_cast<int32_t>(i)));
            return;
          }
          sum.count += replies[i]->count;
        }
        done(sum);
      });
}

}  // namespace coterie
