#include "coordinator/point_service.h"

#include <memory>

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
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<WriteBatch> decoded = DecodeUpsert(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->Upsert(*std::move(decoded), rpc->call(),
                      rpc->Replier<WriteReply>([response](WriteReply reply) {
                        response->set_upserted(reply.upserted);
                        response->set_duplicates(reply.duplicates);
                      }));
  return rpc;
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
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<WriteBatch> decoded =
      DecodeSetAttributes(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->SetAttributes(
      *std::move(decoded), rpc->call(),
      rpc->Replier<WriteReply>([response](const WriteReply& reply) {
        *response = EncodeSetAttributesReply(reply);
      }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorPointService::Delete(
    grpc::CallbackServerContext* context, const v1::DeleteRequest* request,
    v1::DeleteResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Delete",
                            kWriteDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<WriteBatch> decoded = DecodeDelete(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  if (request->dry_run()) {
    coordinator->Count(
        CountRequest{decoded->collection, std::move(decoded->delete_where)},
        rpc->call(), rpc->Replier<CountReply>([response](CountReply reply) {
          response->set_deleted(reply.count);
        }));
    return rpc;
  }
  coordinator->Delete(*std::move(decoded), rpc->call(),
                      rpc->Replier<WriteReply>([response](WriteReply reply) {
                        response->set_deleted(reply.deleted);
                        response->set_duplicates(reply.duplicates);
                      }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorPointService::Get(
    grpc::CallbackServerContext* context, const v1::GetRequest* request,
    v1::GetResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Get",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<GetRequest> decoded = DecodeGet(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->Get(*std::move(decoded), rpc->call(),
                   rpc->Replier<GetReply>([response](GetReply reply) {
                     *response = EncodeGetReply(reply);
                   }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorPointService::Count(
    grpc::CallbackServerContext* context, const v1::CountRequest* request,
    v1::CountResponse* response) {
  auto* rpc = new UnaryCall(context, response, "PointService/Count",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<CountRequest> decoded = DecodeCount(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->Count(*std::move(decoded), rpc->call(),
                     rpc->Replier<CountReply>([response](CountReply reply) {
                       response->set_count(reply.count);
                     }));
  return rpc;
}

grpc::ServerWriteReactor<v1::ScanResponse>* CoordinatorPointService::Scan(
    grpc::CallbackServerContext* context, const v1::ScanRequest* request) {
  auto* rpc =
      new ScanCall<v1::ScanResponse>(context, "PointService/Scan", options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<ScanRequest> decoded = DecodeScan(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  return rpc->Run(coordinator->Scan(*std::move(decoded), rpc->call()),
                  [](const ScanPage& page, v1::ScanResponse* response) {
                    for (const Point& point : page.points) {
                      EncodePoint(point, response->add_points());
                    }
                  });
}

}  // namespace coterie
