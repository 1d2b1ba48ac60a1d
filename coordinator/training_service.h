// Models, as coterie.v1.TrainingService (api/v1/training.proto has the
// contract). Thread-safe; the slot outlives it.

#ifndef COTERIE_COORDINATOR_TRAINING_SERVICE_H_
#define COTERIE_COORDINATOR_TRAINING_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <utility>

#include "api/rpc_call.h"
#include "api/v1/training.grpc.pb.h"
#include "coordinator/coordinator_slot.h"

namespace coterie {

class CoordinatorTrainingService final
    : public v1::TrainingService::CallbackService {
 public:
  CoordinatorTrainingService(const CoordinatorSlot& slot, RpcOptions options)
      : slot_(slot), options_(std::move(options)) {}

  grpc::ServerWriteReactor<v1::TrainSgdResponse>* TrainSgd(
      grpc::CallbackServerContext* context,
      const v1::TrainSgdRequest* request) override;
  grpc::ServerUnaryReactor* Predict(grpc::CallbackServerContext* context,
                                    const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::SgdModel* response) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteModel(
      grpc::CallbackServerContext* context,
      const v1::DeleteModelRequest* request,
      v1::DeleteModelResponse* response) override;

 private:
  const CoordinatorSlot& slot_;
  const RpcOptions options_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_TRAINING_SERVICE_H_
