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

absl::Status CheckIdentities(const std::vector<ShardDescription>& shards,
                             bool partial) {
  const ShardDescription* first = nullptr;
  absl::Status silent;
  for (size_t i = 0; i < shards.size(); ++i) {
    const ShardDescription& shard = shards[i];
    const int32_t id = static_cast<int32_t>(i);
    if (shard.state == ShardDescription::State::kUnreachable) {
      silent.Update(WithShard(absl::UnavailableError(shard.reason), id));
      if (!partial) {
        return silent;
      }
      continue;
    }
    if (first == nullptr) {
      first = &shard;
    }
    if (shard.shard_id != id) {
      return WithShard(absl::FailedPreconditionError(
                           absl::StrCat("calls itself shard ", shard.shard_id)),
                       id);
    }
    if (shard.cluster_uuid != first->cluster_uuid) {
      return WithShard(
          absl::FailedPreconditionError(absl::StrCat(
              "belongs to cluster ", Quoted(shard.cluster_uuid), ", shard ",
              first->shard_id, " to ", Quoted(first->cluster_uuid))),
          id);
    }
    if (shard.shards_total != static_cast<int32_t>(shards.size())) {
      return WithShard(absl::FailedPreconditionError(absl::StrCat(
                           "is of a cluster of ", shard.shards_total,
                           " shards; ", shards.size(), " were given")),
                       id);
    }
  }
  return first == nullptr ? silent : absl::OkStatus();
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

std::vector<std::string> StoresOf(const std::vector<ShardDescription>& shards) {
  std::vector<std::string> stores;
  for (const ShardDescription& shard : shards) {
    if (shard.store_id.empty()) {
      return {};
    }
    stores.push_back(shard.store_id);
  }
  return stores;
}

absl::Status AnotherStore(const ShardDescription& shard,
                          absl::string_view known) {
  return WithShard(
      absl::FailedPreconditionError(absl::StrCat(
          "runs on store ", shard.store_id, ", which has ", shard.points,
          " points, but the cluster knows it by store ", known,
          ": its disk was lost, replaced or mixed up. Bring the old one back; "
          "or, to give up what only it held, start a coordinator with "
          "--accept_stores=",
          shard.shard_id, "=", shard.store_id)),
      shard.shard_id);
}

absl::Status CheckStores(const std::vector<ShardDescription>& shards,
                         const Catalogue& catalogue,
                         const std::map<int32_t, std::string>& accepted) {
  if (catalogue.collections.empty()) {
    return absl::OkStatus();
  }
  for (const ShardDescription& shard : shards) {
    const auto i = static_cast<size_t>(shard.shard_id);
    if (i >= catalogue.stores.size() || catalogue.stores[i].empty() ||
        shard.store_id.empty() || catalogue.stores[i] == shard.store_id) {
      continue;
    }
    const auto may = accepted.find(shard.shard_id);
    if (may != accepted.end() && may->second == shard.store_id) {
      continue;
    }
    return AnotherStore(shard, catalogue.stores[i]);
  }
  return absl::OkStatus();
}

}  // namespace coterie
