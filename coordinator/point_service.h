// Points of all shards, as coterie.v1.PointService (api/v1/points.proto has the
// contract). Thread-safe; the slot outlives it.

#ifndef COTERIE_COORDINATOR_POINT_SERVICE_H_
#define COTERIE_COORDINATOR_POINT_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "api/rpc_call.h"
#include "api/v1/points.grpc.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class CoordinatorPointService final : public v1::PointService::CallbackService {
 public:
  CoordinatorPointService(const CoordinatorSlot& slot, RpcOptions options)
      : slot_(slot), options_(std::move(options)) {}

  grpc::ServerUnaryReactor* Upsert(grpc::CallbackServerContext* context,
                                   const v1::UpsertRequest* request,
                                   v1::UpsertResponse* response) override;
  grpc::ServerBidiReactor<v1::UpsertStreamRequest, v1::UpsertStreamResponse>*
  UpsertStream(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* SetAttributes(
      grpc::CallbackServerContext* context,
      const v1::SetAttributesRequest* request,
      v1::SetAttributesResponse* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const v1::DeleteRequest* request,
                                   v1::DeleteResponse* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const v1::GetRequest* request,
                                v1::GetResponse* response) override;
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext* context,
                                  const v1::CountRequest* request,
                                  v1::CountResponse* response) override;
  grpc::ServerWriteReactor<v1::ScanResponse>* Scan(
      grpc::CallbackServerContext* context,
      const v1::ScanRequest* request) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_POINT_SERVICE_H_
