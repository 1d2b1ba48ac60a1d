#include "coordinator/collection_service.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/collection.h"
#include "api/collections_convert.h"
#include "api/limits.h"

namespace coterie {
namespace {

absl::StatusOr<CollectionSpec> DecodeCreation(
    const v1::CreateCollectionRequest& request, const Limits& limits) {
  return DecodeCollection(request.collection(), limits);
}

template <typename Request>
absl::StatusOr<std::string> DecodeItsName(const Request& request,
                                          const Limits& limits) {
  const absl::Status valid = ValidateCollectionName(request.name(), limits);
  if (!valid.ok()) return valid;
  return request.name();
}

// Asks for all there are.
struct All {};

absl::StatusOr<All> DecodeAll(const v1::ListCollectionsRequest& /*request*/,
                              const Limits& /*limits*/) {
  return All{};
}

}  // namespace

grpc::ServerUnaryReactor* CoordinatorCollectionService::CreateCollection(
    grpc::CallbackServerContext* context,
    const v1::CreateCollectionRequest* request,
    v1::CreateCollectionResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/CreateCollection",
                    kCollectionDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeCreation,
      [rpc, response](Coordinator& coordinator, CollectionSpec spec) {
        coordinator.CreateCollection(
            std::move(spec), rpc->call(),
            rpc->Replier<CollectionSpec>([response](CollectionSpec created) {
              EncodeCollection(created, response->mutable_collection());
            }));
      });
}

grpc::ServerUnaryReactor* CoordinatorCollectionService::GetCollection(
    grpc::CallbackServerContext* context,
    const v1::GetCollectionRequest* request,
    v1::GetCollectionResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/GetCollection",
                    kCollectionDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits,
      DecodeItsName<v1::GetCollectionRequest>,
      [rpc, response](Coordinator& coordinator, const std::string& name) {
        coordinator.GetCollection(
            name, rpc->call(),
            rpc->Replier<CollectionDescription>(
                [response](CollectionDescription found) {
                  EncodeCollection(found.spec, response->mutable_collection());
                  EncodeStats(found.spec, found.shards,
                              response->mutable_stats());
                }));
      });
}

grpc::ServerUnaryReactor* CoordinatorCollectionService::ListCollections(
    grpc::CallbackServerContext* context,
    const v1::ListCollectionsRequest* request,
    v1::ListCollectionsResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/ListCollections",
                    kCollectionDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeAll,
                [rpc, response](Coordinator& coordinator, All /*all*/) {
                  coordinator.ListCollections(
                      rpc->call(),
                      rpc->Replier<std::vector<CollectionSpec>>(
                          [response](std::vector<CollectionSpec> specs) {
                            for (const CollectionSpec& spec : specs) {
                              EncodeCollection(spec,
                                               response->add_collections());
                            }
                          }));
                });
}

grpc::ServerUnaryReactor* CoordinatorCollectionService::DeleteCollection(
    grpc::CallbackServerContext* context,
    const v1::DeleteCollectionRequest* request,
    v1::DeleteCollectionResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/DeleteCollection",
                    kCollectionDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits,
      DecodeItsName<v1::DeleteCollectionRequest>,
      [rpc, response](Coordinator& coordinator, const std::string& name) {
        coordinator.DeleteCollection(
            name, rpc->call(),
            rpc->Replier<int64_t>([response](int64_t points) {
              response->set_points_deleted(points);
            }));
      });
}

}  // namespace coterie
