// Search over all shards, as coterie.v1.SearchService (api/v1/search.proto has
// the contract). Thread-safe; the slot outlives it.

#ifndef COTERIE_COORDINATOR_SEARCH_SERVICE_H_
#define COTERIE_COORDINATOR_SEARCH_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "api/rpc_call.h"
#include "api/v1/search.grpc.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class CoordinatorSearchService final
    : public v1::SearchService::CallbackService {
 public:
  CoordinatorSearchService(const CoordinatorSlot& slot, RpcOptions options)
      : slot_(slot), options_(std::move(options)) {}

  grpc::ServerUnaryReactor* Search(grpc::CallbackServerContext* context,
                                   const v1::SearchRequest* request,
                                   v1::SearchResponse* response) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_SEARCH_SERVICE_H_
