#include "coordinator/point_service.h"

#include "absl/status/statusor.h"
#include "api/points_convert.h"
#include "api/scan_call.h"
#include "coordinator/upsert_stream.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorPointService::Upsert(
    grpc::CallbackServerContext* context, const v1::UpsertRequest* request,
    v1::UpsertResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Upsert",
                            kWriteDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeUpsert,
                [rpc, response](Coordinator& coordinator, WriteBatch decoded) {
                  coordinator.Upsert(
                      std::move(decoded), rpc->call(),
                      rpc->Replier<WriteReply>([response](WriteReply reply) {
                        response->set_upserted(reply.upserted);
                        response->set_duplicates(reply.duplicates);
                      }));
                });
}

grpc::ServerBidiReactor<v1::UpsertStreamRequest, v1::UpsertStreamResponse>*
CoordinatorPointService::UpsertStream(grpc::CallbackServerContext* context) {
  return StartUpsertStream(context, slot_, options_);
}

grpc::ServerUnaryReactor* CoordinatorPointService::SetAttributes(
    grpc::CallbackServerContext* context,
    const v1::SetAttributesRequest* request,
    v1::SetAttributesResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/SetAttributes",
                            kWriteDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeSetAttributes,
      [rpc, response](Coordinator& coordinator, WriteBatch decoded) {
        coordinator.SetAttributes(
            std::move(decoded), rpc->call(),
            rpc->Replier<WriteReply>([response](const WriteReply& reply) {
              *response = EncodeSetAttributesReply(reply);
            }));
      });
}

grpc::ServerUnaryReactor* CoordinatorPointService::Delete(
    grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
    v1::DeleteResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Delete",
                            kWriteDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeDelete,
      [rpc, request, response](Coordinator& coordinator, WriteBatch decoded) {
        if (request->dry_run()) {
          coordinator.Count(
              CountRequest{decoded.collection, std::move(decoded.delete_where)},
              rpc->call(),
              rpc->Replier<CountReply>([response](CountReply reply) {
                response->set_deleted(reply.count);
              }));
          return;
        }
        coordinator.Delete(
            std::move(decoded), rpc->call(),
            rpc->Replier<WriteReply>([response](WriteReply reply) {
              response->set_deleted(reply.deleted);
              response->set_duplicates(reply.duplicates);
            }));
      });
}

grpc::ServerUnaryReactor* CoordinatorPointService::Get(
    grpc::CallbackServerContext* context, const v1::GetRequest* request,
    v1::GetResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Get",
                            kReadDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeGet,
                [rpc, response](Coordinator& coordinator, GetRequest decoded) {
                  coordinator.Get(
                      std::move(decoded), rpc->call(),
                      rpc->Replier<GetReply>([response](GetReply reply) {
                        *response = EncodeGetReply(reply);
                      }));
                });
}

grpc::ServerUnaryReactor* CoordinatorPointService::Count(
    grpc::CallbackServerContext* context, const v1::CountRequest* request,
    v1::CountResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Count",
                            kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeCount,
      [rpc, response](Coordinator& coordinator, CountRequest decoded) {
        coordinator.Count(
            std::move(decoded), rpc->call(),
            rpc->Replier<CountReply>([response](CountReply reply) {
              response->set_count(reply.count);
            }));
      });
}

grpc::ServerWriteReactor<v1::ScanResponse>* CoordinatorPointService::Scan(
    grpc::CallbackServerContext* context, const v1::ScanRequest* request) {
  auto* rpc =
      new ScanCall<v1::ScanResponse>(context, "PointService/Scan", options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeScan,
                [rpc](Coordinator& coordinator, ScanRequest decoded) {
                  rpc->Run(coordinator.Scan(std::move(decoded), rpc->call()),
                           [](const ScanPage& page, v1::ScanResponse* out) {
                             for (const Point& point : page.points) {
                               EncodePoint(point, out->add_points());
                             }
                           });
                });
}

}  // namespace coterie
