#include "coordinator/collection_service.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "api/collections_convert.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorCollectionService::CreateCollection(
    grpc::CallbackServerContext* context,
    const v1::CreateCollectionRequest* request,
    v1::CreateCollectionResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/CreateCollection",
                    kCollectionDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<CollectionSpec> decoded =
      DecodeCollection(request->collection(), options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->CreateCollection(
      *std::move(decoded), rpc->call(),
      rpc->Replier<CollectionSpec>([response](CollectionSpec spec) {
        EncodeCollection(spec, response->mutable_collection());
      }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorCollectionService::GetCollection(
    grpc::CallbackServerContext* context,
    const v1::GetCollectionRequest* request,
    v1::GetCollectionResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/GetCollection",
                    kCollectionDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status name = ValidateCollectionName(request->name(), options_.limits);
  if (!name.ok()) {
    return rpc->Refuse(name);
  }
  coordinator->GetCollection(
      request->name(), rpc->call(),
      rpc->Replier<CollectionDescription>(
          [response](CollectionDescription found) {
            EncodeCollection(found.spec, response->mutable_collection());
            EncodeStats(found.spec, found.shards, response->mutable_stats());
          }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorCollectionService::ListCollections(
    grpc::CallbackServerContext* context,
    const v1::ListCollectionsRequest* request,
    v1::ListCollectionsResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/ListCollections",
                    kCollectionDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  coordinator->ListCollections(
      rpc->call(), rpc->Replier<std::vector<CollectionSpec>>(
                       [response](std::vector<CollectionSpec> specs) {
                         for (const CollectionSpec& spec : specs) {
                           EncodeCollection(spec, response->add_collections());
                         }
                       }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorCollectionService::DeleteCollection(
    grpc::CallbackServerContext* context,
    const v1::DeleteCollectionRequest* request,
    v1::DeleteCollectionResponse* response) {
  auto* rpc =
      new UnaryCall(context, response, "CollectionService/DeleteCollection",
                    kCollectionDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status name = ValidateCollectionName(request->name(), options_.limits);
  if (!name.ok()) {
    return rpc->Refuse(name);
  }
  coordinator->DeleteCollection(
      request->name(), rpc->call(),
      rpc->Replier<int64_t>([response](int64_t points) {
        response->set_points_deleted(points);
      }));
  return rpc;
}

}  // namespace coterie
