#include "coordinator/cluster_service.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "api/collections_convert.h"
#include "index/simd.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorClusterService::Describe(
    grpc::CallbackServerContext* context,
    const v1::DescribeRequest* /*request*/, v1::DescribeResponse* response) {
  auto* rpc = new UnaryCall(context, response, "ClusterService/Describe",
                            kDescribeDeadline, options_);
  response->set_version(version_);
  response->set_cluster_uuid(slot_.cluster_uuid());
  response->set_simd(std::string(SimdTargetName(ActiveSimdTarget())));
  for (const auto& [name, value] : options_.limits.Table()) {
    v1::Limit* limit = response->add_limits();
    limit->set_name(name);
    limit->set_value(value);
  }
  response->set_uptime_seconds(uptime_.Seconds());
  auto reply = rpc->Replier<std::vector<ShardDescription>>(
      [response](std::vector<ShardDescription> shards) {
        for (const ShardDescription& shard : shards) {
          EncodeShard(shard, response->add_shards());
        }
      });
  const absl::StatusOr<std::shared_ptr<Coordinator>> coordinator =
      slot_.Current();
  if (!coordinator.ok()) {
    reply(slot_.pending_shards());
    return rpc;
  }
  response->set_map_version((*coordinator)->catalogue()->version);
  (*coordinator)->Describe(rpc->call(), std::move(reply));
  return rpc;
}

}  // namespace coterie
