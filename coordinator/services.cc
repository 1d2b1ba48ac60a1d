#include "coordinator/services.h"

#include <utility>

#include "coordinator/cluster_service.h"
#include "coordinator/clustering_service.h"
#include "coordinator/collection_service.h"
#include "coordinator/point_service.h"
#include "coordinator/search_service.h"
#include "coordinator/training_service.h"

namespace coterie {
namespace {

class AllServices final : public Services {
 public:
  AllServices(const CoordinatorSlot& slot, const RpcOptions& options,
              std::string version)
      : collections_(slot, options),
        points_(slot, options),
        search_(slot, options),
        clusterings_(slot, options),
        training_(slot, options),
        jobs_(slot, options),
        cluster_(slot, options, std::move(version)) {}

  std::vector<grpc::Service*> all() override {
    return {&collections_, &points_, &search_, &clusterings_,
            &training_,    &jobs_,   &cluster_};
  }

 private:
  CoordinatorCollectionService collections_;
  CoordinatorPointService points_;
  CoordinatorSearchService search_;
  CoordinatorClusteringService clusterings_;
  CoordinatorTrainingService training_;
  CoordinatorJobService jobs_;
  CoordinatorClusterService cluster_;
};

class FixedServices final : public Services {
 public:
  FixedServices(Coordinator* coordinator, const RpcOptions& options,
                ServiceInfo info)
      : services_(slot_, options, std::move(info.version)) {
    // The caller owns it.
    slot_.Set(std::shared_ptr<Coordinator>(coordinator, [](Coordinator*) {}),
              std::move(info.cluster_uuid));
  }

  std::vector<grpc::Service*> all() override { return services_.all(); }

 private:
  CoordinatorSlot slot_;
  AllServices services_;
};

}  // namespace

std::unique_ptr<Services> MakeServices(const CoordinatorSlot& slot,
                                       RpcOptions options,
                                       std::string version) {
  return std::make_unique<AllServices>(slot, options, std::move(version));
}

std::unique_ptr<Services> MakeServices(Coordinator* coordinator,
                                       const Limits& limits, ServiceInfo info,
                                       RpcObserver observer) {
  RpcOptions options;
  options.limits = limits;
  options.observer = std::move(observer);
  return std::make_unique<FixedServices>(coordinator, options, std::move(info));
}

}  // namespace coterie
