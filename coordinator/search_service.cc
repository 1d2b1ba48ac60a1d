#include "coordinator/search_service.h"

#include "absl/status/statusor.h"
#include "api/search_convert.h"

namespace coterie {

grpc::ServerUnaryReactor* CoordinatorSearchService::Search(
    grpc::CallbackServerContext* context, const v1::SearchRequest* request,
    v1::SearchResponse* response) {
  auto* rpc = new UnaryCall(context, response, "SearchService/Search",
                            kSearchDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeSearch,
      [rpc, response](Coordinator& coordinator, SearchRequest decoded) {
        const bool profile = decoded.profile;
        coordinator.Search(
            std::move(decoded), rpc->call(),
            rpc->Replier<SearchReply>([response, profile](SearchReply reply) {
              *response = EncodeSearchReply(reply, profile);
            }));
      });
}

}  // namespace coterie
