#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "api/collections_convert.h"
#include "api/shard_convert.h"
#include "api/shard_reply_check.h"

namespace coterie {
namespace {

absl::StatusOr<ShardDescription::State> DecodeState(
    v1::ShardDescription::State state) {
  switch (state) {
    case v1::ShardDescription::SERVING:
      return ShardDescription::State::kServing;
    case v1::ShardDescription::LOADING:
      return ShardDescription::State::kLoading;
    case v1::ShardDescription::UNREACHABLE:
      return ShardDescription::State::kUnreachable;
    default:
      return Misfit(absl::StrCat("state ", static_cast<int>(state)));
  }
}

absl::StatusOr<std::vector<QueueState>> DecodeQueues(
    const v1::ShardDescription& shard) {
  std::vector<QueueState> queues;
  for (const v1::ShardQueue& encoded : shard.queues()) {
    // The classes have the same order on the wire, from 1.
    const int work_class = static_cast<int>(encoded.work_class()) - 1;
    if (work_class < 0 || work_class >= kWorkClasses) {
      return Misfit(absl::StrCat("queues.work_class is ",
                                 static_cast<int>(encoded.work_class())));
    }
    for (const QueueState& queue : queues) {
      if (static_cast<int>(queue.work_class) == work_class) {
        return Misfit("queues has a class twice");
      }
    }
    absl::Status status = CheckCounts({{"queues.length", encoded.length()},
                                       {"queues.capacity", encoded.capacity()},
                                       {"queues.refused", encoded.refused()},
                                       {"queues.taken", encoded.taken()}});
    if (status.ok()) {
      status = CheckSeconds("queues.wait_seconds", encoded.wait_seconds());
    }
    if (!status.ok()) return status;
    queues.push_back({static_cast<WorkClass>(work_class), encoded.length(),
                      encoded.capacity(), encoded.refused(), encoded.taken(),
                      encoded.wait_seconds()});
  }
  return queues;
}

}  // namespace

void EncodeShardReply(const ShardDescription& shard,
                      v1::DescribeShardResponse* out) {
  EncodeShard(shard, out->mutable_shard());
  out->mutable_shard()->clear_address();
  out->set_cluster_uuid(shard.cluster_uuid);
  out->set_shards_total(shard.shards_total);
  out->set_catalogue_version(shard.catalogue_version);
  out->set_store_id(shard.store_id);
}

absl::StatusOr<ShardDescription> DecodeShardReply(
    const v1::DescribeShardResponse& response) {
  const v1::ShardDescription& s = response.shard();
  const absl::Status status = CheckCounts(
      {{"shard_id", response.header().shard_id()},
       {"shards_total", response.shards_total()},
       {"catalogue_version", response.catalogue_version()},
       {"incarnation", s.incarnation()},
       {"sequence", s.sequence()},
       {"points", s.points()},
       {"memory_bytes", s.memory_bytes()},
       {"queue_length", s.queue_length()},
       {"queue_capacity", s.queue_capacity()},
       {"threads", s.threads()},
       {"segment_files.in_use", s.segment_files().in_use()},
       {"segment_files.refused", s.segment_files().refused()},
       {"segment_files.write_failures", s.segment_files().write_failures()}});
  if (!status.ok()) return status;
  const auto state = DecodeState(s.state());
  if (!state.ok()) return state.status();
  ShardDescription shard;
  shard.shard_id = response.header().shard_id();
  shard.state = *state;
  shard.reason = s.reason();
  shard.cluster_uuid = response.cluster_uuid();
  shard.shards_total = response.shards_total();
  shard.catalogue_version = response.catalogue_version();
  shard.store_id = response.store_id();
  shard.incarnation = s.incarnation();
  shard.sequence = s.sequence();
  shard.points = s.points();
  shard.memory_bytes = s.memory_bytes();
  shard.queue_length = s.queue_length();
  shard.queue_capacity = s.queue_capacity();
  shard.threads = s.threads();
  shard.segment_files = {s.segment_files().in_use(),
                         s.segment_files().refused(),
                         s.segment_files().write_failures()};
  auto queues = DecodeQueues(s);
  if (!queues.ok()) return queues.status();
  shard.queues = *std::move(queues);
  return shard;
}

}  // namespace coterie
