#include "server/cluster_verdict.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coterie {
namespace {

using State = ShardDescription::State;

std::string Named(const ShardProbe& probe) {
  return absl::StrCat("shard ", probe.told->shard_id, " at ", probe.address);
}

template <typename... Parts>
absl::Status Contradiction(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(parts...));
}

// Whether those that answer agree, each with itself and all together.
absl::Status CheckAnswers(const std::vector<ShardProbe>& probes,
                          absl::string_view expected_uuid, bool complete_list,
                          std::vector<int32_t>* probe_of_shard) {
  const ShardProbe* first = nullptr;
  for (size_t i = 0; i < probes.size(); ++i) {
    const ShardProbe& probe = probes[i];
    if (!probe.told.ok()) {
      continue;
    }
    const ShardDescription& shard = *probe.told;
    if (!expected_uuid.empty() && shard.cluster_uuid != expected_uuid) {
      return Contradiction(Named(probe), " belongs to cluster ",
                           shard.cluster_uuid, ", expected is ", expected_uuid);
    }
    if (first == nullptr) {
      first = &probe;
      if (complete_list &&
          shard.shards_total != static_cast<int32_t>(probes.size())) {
        return Contradiction(Named(probe), " is of a cluster of ",
                             shard.shards_total, " shards, but --shards lists ",
                             probes.size(), " addresses");
      }
      if (shard.shards_total < 1) {
        return Contradiction(Named(probe), " says it is of ",
                             shard.shards_total, " shards");
      }
      probe_of_shard->assign(static_cast<size_t>(shard.shards_total), -1);
    }
    if (shard.cluster_uuid != first->told->cluster_uuid) {
      return Contradiction(Named(probe), " belongs to cluster ",
                           shard.cluster_uuid, ", but ", Named(*first), " to ",
                           first->told->cluster_uuid);
    }
    if (shard.shards_total != first->told->shards_total) {
      return Contradiction(Named(probe), " is of a cluster of ",
                           shard.shards_total, " shards, but ", Named(*first),
                           " of one of ", first->told->shards_total);
    }
    if (shard.shard_id < 0 || shard.shard_id >= shard.shards_total) {
      return Contradiction(Named(probe), " has an id outside its cluster of ",
                           shard.shards_total, " shards");
    }
    int32_t& at = (*probe_of_shard)[static_cast<size_t>(shard.shard_id)];
    if (at >= 0) {
      return Contradiction("both ", probes[static_cast<size_t>(at)].address,
                           " and ", probe.address, " claim to be shard ",
                           shard.shard_id);
    }
    at = static_cast<int32_t>(i);
  }
  return absl::OkStatus();
}

}  // namespace

ClusterVerdict JudgeCluster(const std::vector<ShardProbe>& probes,
                            absl::string_view expected_uuid,
                            bool complete_list) {
  ClusterVerdict verdict;
  verdict.status = CheckAnswers(probes, expected_uuid, complete_list,
                                &verdict.probe_of_shard);
  if (!verdict.status.ok()) {
    verdict.probe_of_shard.clear();
    return verdict;
  }
  std::vector<std::string> wanting;
  for (size_t i = 0; i < verdict.probe_of_shard.size(); ++i) {
    const int32_t at = verdict.probe_of_shard[i];
    if (at < 0) {
      wanting.push_back(absl::StrCat("shard ", i, " is at none of them"));
      continue;
    }
    const ShardProbe& probe = probes[static_cast<size_t>(at)];
    verdict.cluster_uuid = probe.told->cluster_uuid;
    if (probe.told->state == State::kServing) {
      ++verdict.serving;
    } else {
      wanting.push_back(absl::StrCat(
          Named(probe), " is ",
          probe.told->state == State::kLoading ? "loading" : "unreachable"));
    }
  }
  if (verdict.probe_of_shard.empty() || !wanting.empty()) {
    for (const ShardProbe& probe : probes) {
      if (!probe.told.ok()) {
        wanting.push_back(absl::StrCat(
            probe.address,
            absl::IsFailedPrecondition(probe.told.status())
                ? " is refused ("
                : " does not answer (",
            absl::StatusCodeToString(probe.told.status().code()), ": ",
            std::string(probe.told.status().message()), ")"));
      }
    }
    if (probes.empty()) {
      wanting.push_back("there is no address");
    }
    verdict.status = absl::UnavailableError(
        absl::StrCat("of ", probes.size(),
                     " shard addresses: ", absl::StrJoin(wanting, "; ")));
  }
  return verdict;
}

}  // namespace coterie
