#include "coordinator/cluster_service.h"

#include <cstdint>
#include <string>
#include <vector>

#include "api/collections_convert.h"
#include "index/simd.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorClusterService::Describe(
    grpc::CallbackServerContext* context,
    const v1::DescribeRequest* /*request*/, v1::DescribeResponse* response) {
  auto* rpc = new UnaryCall(context, response, "ClusterService/Describe",
                            kDescribeDeadline, options_);
  response->set_version(info_.version);
  response->set_cluster_uuid(info_.cluster_uuid);
  response->set_map_version(coordinator_->catalogue()->version);
  response->set_simd(std::string(SimdTargetName(ActiveSimdTarget())));
  for (const auto& [name, value] : options_.limits.Table()) {
    v1::Limit* limit = response->add_limits();
    limit->set_name(name);
    limit->set_value(value);
  }
  response->set_uptime_seconds(uptime_.Seconds());
  coordinator_->Describe(rpc->call(),
                         rpc->Replier<std::vector<ShardDescription>>(
                             [response](std::vector<ShardDescription> shards) {
                               for (const ShardDescription& shard : shards) {
                                 EncodeShard(shard, response->add_shards());
                               }
                             }));
  return rpc;
}

}  // namespace coterie
