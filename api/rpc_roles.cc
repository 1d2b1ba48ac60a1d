#include "api/rpc_roles.h"

#include <algorithm>

namespace coterie {
namespace {

constexpr RpcRoleEntry kRoles[] = {
    {"coterie.v1.ClusterService/Describe", RpcRole::kRead},
    {"coterie.v1.ClusteringService/Assign", RpcRole::kRead},
    {"coterie.v1.ClusteringService/DeleteClustering", RpcRole::kWrite},
    {"coterie.v1.ClusteringService/GetClustering", RpcRole::kRead},
    {"coterie.v1.ClusteringService/ListClusterings", RpcRole::kRead},
    {"coterie.v1.ClusteringService/TrainKMeans", RpcRole::kWrite},
    {"coterie.v1.CollectionService/CreateCollection", RpcRole::kAdmin},
    {"coterie.v1.CollectionService/DeleteCollection", RpcRole::kAdmin},
    {"coterie.v1.CollectionService/GetCollection", RpcRole::kRead},
    {"coterie.v1.CollectionService/ListCollections", RpcRole::kRead},
    {"coterie.v1.JobService/CancelJob", RpcRole::kWrite},
    {"coterie.v1.JobService/GetJob", RpcRole::kRead},
    {"coterie.v1.JobService/ListJobs", RpcRole::kRead},
    {"coterie.v1.JobService/ResumeJob", RpcRole::kWrite},
    {"coterie.v1.JobService/WatchJob", RpcRole::kRead},
    {"coterie.v1.PointService/Count", RpcRole::kRead},
    {"coterie.v1.PointService/Delete", RpcRole::kWrite},
    {"coterie.v1.PointService/Get", RpcRole::kRead},
    {"coterie.v1.PointService/Scan", RpcRole::kRead},
    {"coterie.v1.PointService/SetAttributes", RpcRole::kWrite},
    {"coterie.v1.PointService/Upsert", RpcRole::kWrite},
    {"coterie.v1.PointService/UpsertStream", RpcRole::kWrite},
    {"coterie.v1.SearchService/Search", RpcRole::kRead},
    {"coterie.v1.ShardService/BeginJob", RpcRole::kInternal},
    {"coterie.v1.ShardService/CollectionStats", RpcRole::kInternal},
    {"coterie.v1.ShardService/Count", RpcRole::kInternal},
    {"coterie.v1.ShardService/Describe", RpcRole::kInternal},
    {"coterie.v1.ShardService/Echo", RpcRole::kInternal},
    {"coterie.v1.ShardService/EndJob", RpcRole::kInternal},
    {"coterie.v1.ShardService/Get", RpcRole::kInternal},
    {"coterie.v1.ShardService/KMeansStep", RpcRole::kInternal},
    {"coterie.v1.ShardService/LabelRows", RpcRole::kInternal},
    {"coterie.v1.ShardService/PutCatalogue", RpcRole::kInternal},
    {"coterie.v1.ShardService/PutRecord", RpcRole::kInternal},
    {"coterie.v1.ShardService/ReadCatalogue", RpcRole::kInternal},
    {"coterie.v1.ShardService/ReadRecords", RpcRole::kInternal},
    {"coterie.v1.ShardService/Scan", RpcRole::kInternal},
    {"coterie.v1.ShardService/Search", RpcRole::kInternal},
    {"coterie.v1.ShardService/SgdStep", RpcRole::kInternal},
    {"coterie.v1.ShardService/SgdSteps", RpcRole::kInternal},
    {"coterie.v1.ShardService/Write", RpcRole::kInternal},
    {"coterie.v1.TrainingService/DeleteModel", RpcRole::kWrite},
    {"coterie.v1.TrainingService/GetModel", RpcRole::kRead},
    {"coterie.v1.TrainingService/ListModels", RpcRole::kRead},
    {"coterie.v1.TrainingService/Predict", RpcRole::kRead},
    {"coterie.v1.TrainingService/TrainSgd", RpcRole::kWrite},
};

}  // namespace

absl::Span<const RpcRoleEntry> RpcRoles() { return kRoles; }

std::optional<RpcRole> RoleOf(absl::string_view method) {
  const auto* end = std::end(kRoles);
  const auto* it =
      std::lower_bound(std::begin(kRoles), end, method,
                       [](const RpcRoleEntry& entry, absl::string_view wanted) {
                         return entry.method < wanted;
                       });
  if (it == end || it->method != method) return std::nullopt;
  return it->role;
}

}  // namespace coterie
