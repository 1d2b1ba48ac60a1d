// Collections, as coterie.v1.CollectionService (api/v1/collections.proto has
// the contract). Thread-safe; the slot outlives it.

#ifndef COTERIE_COORDINATOR_COLLECTION_SERVICE_H_
#define COTERIE_COORDINATOR_COLLECTION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "api/rpc_call.h"
#include "api/v1/collections.grpc.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class CoordinatorCollectionService final
    : public v1::CollectionService::CallbackService {
 public:
  CoordinatorCollectionService(const CoordinatorSlot& slot, RpcOptions options)
      : slot_(slot), options_(std::move(options)) {}

  grpc::ServerUnaryReactor* CreateCollection(
      grpc::CallbackServerContext* context,
      const v1::CreateCollectionRequest* request,
      v1::CreateCollectionResponse* response) override;
  grpc::ServerUnaryReactor* GetCollection(
      grpc::CallbackServerContext* context,
      const v1::GetCollectionRequest* request,
      v1::GetCollectionResponse* response) override;
  grpc::ServerUnaryReactor* ListCollections(
      grpc::CallbackServerContext* context,
      const v1::ListCollectionsRequest* request,
      v1::ListCollectionsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteCollection(
      grpc::CallbackServerContext* context,
      const v1::DeleteCollectionRequest* request,
      v1::DeleteCollectionResponse* response) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_COLLECTION_SERVICE_H_
