#include "tests/health_client.h"

#include <grpcpp/generic/generic_stub.h>

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "api/grpc_status.h"

namespace coterie {
namespace {

// HealthCheckRequest{string service = 1}.
grpc::ByteBuffer Encode(const std::string& service) {
  std::string bytes;
  if (!service.empty()) {
    bytes += '\x0a';
    bytes += static_cast<char>(service.size());
    bytes += service;
  }
  grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// HealthCheckResponse{enum status = 1}.
std::string Decode(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  if (!buffer.DumpToSingleSlice(&slice).ok() || slice.size() < 2) {
    return "UNKNOWN";
  }
  return slice.begin()[1] == 1   ? "SERVING"
         : slice.begin()[1] == 2 ? "NOT_SERVING"
                                 : "UNKNOWN";
}

}  // namespace

std::string CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& service) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(5));
  grpc::CompletionQueue queue;
  auto rpc = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                   Encode(service), &queue);
  rpc->StartCall();
  grpc::ByteBuffer reply;
  grpc::Status status;
  rpc->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return status.ok() ? Decode(reply)
                     : absl::StatusCodeToString(FromGrpcStatus(status).code());
}

}  // namespace coterie
