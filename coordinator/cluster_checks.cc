#include "coordinator/cluster_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "api/status_details.h"

namespace coterie {

absl::Status CheckIds(const std::vector<std::shared_ptr<ShardClient>>& shards) {
  if (shards.empty()) {
    return absl::FailedPreconditionError("a cluster has at least one shard");
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i]->shard_id() != static_cast<int32_t>(i)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shard ids of ", shards.size(), " shards are 0..", shards.size() - 1,
          " once each; in their place ", i, " stands ", shards[i]->shard_id(),
          " (", shards[i]->address(), ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckIdentities(const std::vector<ShardDescription>& shards) {
  for (size_t i = 0; i < shards.size(); ++i) {
    const ShardDescription& shard = shards[i];
    const int32_t id = static_cast<int32_t>(i);
    if (shard.state == ShardDescription::State::kUnreachable) {
      return WithShard(absl::UnavailableError(shard.reason), id);
    }
    if (shard.shard_id != id) {
      return WithShard(absl::FailedPreconditionError(
                           absl::StrCat("calls itself shard ", shard.shard_id)),
                       id);
    }
    if (shard.cluster_uuid != shards[0].cluster_uuid) {
      return WithShard(absl::FailedPreconditionError(absl::StrCat(
                           "belongs to cluster ", Quoted(shard.cluster_uuid),
                           ", shard 0 to ", Quoted(shards[0].cluster_uuid))),
                       id);
    }
    if (shard.shards_total != static_cast<int32_t>(shards.size())) {
      return WithShard(absl::FailedPreconditionError(absl::StrCat(
                           "is of a cluster of ", shard.shards_total,
                           " shards; ", shards.size(), " were given")),
                       id);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckVersions(const std::vector<ShardDescription>& shards,
                           int64_t version) {
  for (const ShardDescription& shard : shards) {
    if (shard.catalogue_version > version) {
      return WithShard(absl::FailedPreconditionError(absl::StrCat(
                           "has the catalogue at version ",
                           shard.catalogue_version, ", newer than shard 0's ",
                           version, ": shard 0 runs on old data")),
                       shard.shard_id);
    }
  }
  return absl::OkStatus();
}

}  // namespace coterie
