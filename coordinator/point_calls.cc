#include "coordinator/point_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "api/placement.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "coordinator/fan_out.h"
#include "coordinator/owner_parts.h"
#include "coordinator/shard_view.h"

namespace coterie {
namespace {

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
      [&, number = spec.number](int64_t i, Done<GetReply> got) {
        Part<GetRequest>& part = parts[static_cast<size_t>(i)];
        part.request.collection = request.collection;
        part.request.number = number;
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
