#include "coordinator/training_service.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "api/collection.h"
#include "api/job_messages.h"
#include "api/training.h"
#include "api/training_convert.h"
#include "coordinator/job_call.h"
#include "coordinator/jobs.h"

namespace coterie {

grpc::ServerWriteReactor<v1::TrainSgdResponse>*
CoordinatorTrainingService::TrainSgd(grpc::CallbackServerContext* context,
                                     const v1::TrainSgdRequest* request) {
  auto* rpc = new JobCall<v1::TrainSgdResponse>(
      context, "TrainingService/TrainSgd", options_, absl::InfiniteDuration());
  return Handle(rpc, *request, slot_, options_.limits, DecodeTrainSgd,
                [rpc](Coordinator& coordinator, SgdRequest decoded) {
                  SendEvents(rpc, coordinator.jobs().Train(std::move(decoded),
                                                           rpc->call()));
                });
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::Predict(
    grpc::CallbackServerContext* context, const v1::PredictRequest* request,
    v1::PredictResponse* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/Predict",
                            kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodePredict,
      [rpc, response](Coordinator& coordinator, PredictRequest decoded) {
        coordinator.jobs().Predict(
            std::move(decoded), rpc->call(),
            rpc->Replier<std::vector<Prediction>>(
                [response](std::vector<Prediction> predictions) {
                  EncodePredictions(predictions, response);
                }));
      });
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::SgdModel* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/GetModel",
                            kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeName{},
      [rpc, request, response](Coordinator& coordinator, const JobName& of) {
        coordinator.jobs().GetModel(
            of.collection, of.name, rpc->call(),
            rpc->Replier<TrainedModel>(
                [response, with_parameters =
                               request->with_parameters()](TrainedModel model) {
                  EncodeTrainedModel(model, with_parameters, response);
                }));
      });
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/ListModels",
                            kReadDeadline, options_);
  return Handle(
      rpc, *request, slot_, options_.limits, DecodeCollectionReference{},
      [rpc, response](Coordinator& coordinator, const std::string& collection) {
        coordinator.jobs().ListResults(JobKind::kSgd, collection, rpc->call(),
                                       NamesReplier(rpc, response));
      });
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::DeleteModel(
    grpc::CallbackServerContext* context, const v1::DeleteModelRequest* request,
    v1::DeleteModelResponse* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/DeleteModel",
                            kWriteDeadline, options_);
  return Handle(rpc, *request, slot_, options_.limits, DecodeName{},
                [rpc](Coordinator& coordinator, const JobName& of) {
                  coordinator.jobs().DeleteResult(
                      JobKind::kSgd, of.collection, of.name, rpc->call(),
                      rpc->Replier<bool>([](bool) {}));
                });
}

}  // namespace coterie
