#include "coordinator/search_service.h"

#include <memory>

#include "absl/status/statusor.h"
#include "api/search_convert.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorSearchService::Search(
    grpc::CallbackServerContext* context, const v1::SearchRequest* request,
    v1::SearchResponse* response) {
  auto* rpc = new UnaryCall(context, response, "SearchService/Search",
                            kSearchDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<SearchRequest> decoded =
      DecodeSearch(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  const bool profile = decoded->profile;
  coordinator->Search(
      *std::move(decoded), rpc->call(),
      rpc->Replier<SearchReply>([response, profile](SearchReply reply) {
        *response = EncodeSearchReply(reply, profile);
      }));
  return rpc;
}

}  // namespace coterie
