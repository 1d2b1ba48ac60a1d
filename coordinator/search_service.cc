#include "coordinator/search_service.h"

#include "absl/status/statusor.h"
#include "api/search_convert.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorSearchService::Search(
    grpc::CallbackServerContext* context, const v1::SearchRequest* request,
    v1::SearchResponse* response) {
  auto* rpc = new UnaryCall(context, response, "SearchService/Search",
                            kSearchDeadline, options_);
  absl::StatusOr<SearchRequest> decoded =
      DecodeSearch(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  const bool profile = decoded->profile;
  coordinator_->Search(
      *std::move(decoded), rpc->call(),
      rpc->Replier<SearchReply>([response, profile](SearchReply reply) {
        *response = EncodeSearchReply(reply, profile);
      }));
  return rpc;
}

}  // namespace coterie
