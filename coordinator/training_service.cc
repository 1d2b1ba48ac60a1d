#include "coordinator/training_service.h"

#include <memory>
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
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<SgdRequest> decoded =
      DecodeTrainSgd(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  return SendEvents(
      rpc, coordinator->jobs().Train(*std::move(decoded), rpc->call()));
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::Predict(
    grpc::CallbackServerContext* context, const v1::PredictRequest* request,
    v1::PredictResponse* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/Predict",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::StatusOr<PredictRequest> decoded =
      DecodePredict(*request, options_.limits);
  if (!decoded.ok()) {
    return rpc->Refuse(decoded.status());
  }
  coordinator->jobs().Predict(
      *std::move(decoded), rpc->call(),
      rpc->Replier<std::vector<Prediction>>(
          [response](std::vector<Prediction> predictions) {
            EncodePredictions(predictions, response);
          }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::SgdModel* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/GetModel",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().GetModel(
      request->collection(), request->name(), rpc->call(),
      rpc->Replier<TrainedModel>(
          [response,
           with_parameters = request->with_parameters()](TrainedModel model) {
            EncodeTrainedModel(model, with_parameters, response);
          }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/ListModels",
                            kReadDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named =
      ValidateCollectionReference(request->collection(), options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().ListResults(
      JobKind::kSgd, request->collection(), rpc->call(),
      rpc->Replier<std::vector<std::string>>(
          [response](std::vector<std::string> names) {
            for (std::string& name : names) {
              response->add_names(std::move(name));
            }
          }));
  return rpc;
}

grpc::ServerUnaryReactor* CoordinatorTrainingService::DeleteModel(
    grpc::CallbackServerContext* context, const v1::DeleteModelRequest* request,
    v1::DeleteModelResponse* response) {
  auto* rpc = new UnaryCall(context, response, "TrainingService/DeleteModel",
                            kWriteDeadline, options_);
  const std::shared_ptr<Coordinator> coordinator = Admit(rpc, *request, slot_);
  if (coordinator == nullptr) {
    return rpc;
  }
  absl::Status named = CheckNames(*request, options_.limits);
  if (!named.ok()) {
    return rpc->Refuse(named);
  }
  coordinator->jobs().DeleteResult(JobKind::kSgd, request->collection(),
                                   request->name(), rpc->call(),
                                   rpc->Replier<bool>([](bool) {}));
  return rpc;
}

}  // namespace coterie
