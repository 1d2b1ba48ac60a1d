#include "coordinator/services.h"

#include <utility>

#include "coordinator/collection_service.h"
#include "coordinator/point_service.h"
#include "coordinator/search_service.h"

namespace coterie {
namespace {

class AllServices final : public Services {
 public:
  AllServices(Coordinator* coordinator, const RpcOptions& options,
              ServiceInfo info)
      : collections_(coordinator, options),
        points_(coordinator, options),
        search_(coordinator, options),
        cluster_(coordinator, options, std::move(info)) {}

  std::vector<grpc::Service*> all() override {
    return {&collections_, &points_, &search_, &cluster_};
  }

 private:
  CoordinatorCollectionService collections_;
  CoordinatorPointService points_;
  CoordinatorSearchService search_;
  CoordinatorClusterService cluster_;
};

}  // namespace

std::unique_ptr<Services> MakeServices(Coordinator* coordinator,
                                       const Limits& limits, ServiceInfo info,
                                       RpcObserver observer) {
  return std::make_unique<AllServices>(
      coordinator, RpcOptions{limits, std::move(observer)}, std::move(info));
}

}  // namespace coterie
