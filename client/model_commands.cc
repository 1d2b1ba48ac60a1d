// coterie models and coterie predict.

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"
#include "client/point_text.h"
#include "client/sgd_output.h"
#include "client/stored_results.h"
#include "client/table.h"

namespace coterie {
namespace {

constexpr char kModelsHelp[] = R"(Examples:
  coterie models a1a
  coterie models a1a logistic-isega
  coterie --json models a1a logistic-isega --parameters
  coterie models a1a logistic-isega --delete

Without a model: the names of all. --delete removes it and its job.)";

constexpr char kPredictHelp[] = R"(Examples:
  coterie predict a1a logistic-isega --id 17 --id 18
  coterie predict a1a logistic-isega --vector=0.1,-0.2,...

What a model that was trained here says of points. Logistic: the probability of
label 1; softmax and mlp: of each class; linear: the value.)";

class ModelsCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("models", "List, show and delete trained models");
    command->add_option("COLLECTION", collection_, "Collection")->required();
    command->add_option("MODEL", name_, "This model");
    command->add_flag("--parameters", parameters_, "With its parameters");
    command->add_flag("--delete", delete_, "Remove it");
    command->footer(kModelsHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    if (name_.empty() && (parameters_ || delete_)) {
      return UsageError("name the model",
                        "Like this: coterie models a1a logistic-isega");
    }
    if (name_.empty()) return List(*session);
    return delete_ ? Delete(*session) : Get(*session);
  }

 private:
  absl::Status List(const Session& session) const {
    return ListNames<v1::ListModelsRequest>(
        session, session.stubs().training,
        &v1::TrainingService::StubInterface::ListModels, collection_);
  }

  absl::Status Get(const Session& session) const {
    v1::GetModelRequest request;
    request.set_collection(collection_);
    request.set_name(name_);
    request.set_with_parameters(parameters_);
    const auto model =
        session.Call(session.stubs().training,
                     &v1::TrainingService::StubInterface::GetModel, request);
    if (!model.ok()) return model.status();
    if (session.json()) {
      session.PrintJson(*model);
      return absl::OkStatus();
    }
    PrintModel(session, *model);
    if (parameters_) {
      session.out() << absl::StrJoin(model->parameters(), " ",
                                     [](std::string* out, double value) {
                                       absl::StrAppendFormat(out, "%.17g",
                                                             value);
                                     })
                    << '\n';
    }
    return absl::OkStatus();
  }

  absl::Status Delete(const Session& session) const {
    return DeleteNamed<v1::DeleteModelRequest>(
        session, session.stubs().training,
        &v1::TrainingService::StubInterface::DeleteModel, collection_, name_);
  }

  std::string collection_;
  std::string name_;
  bool parameters_ = false;
  bool delete_ = false;
};

class PredictCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("predict", "Ask a trained model about points");
    command->add_option("COLLECTION", collection_, "Collection")->required();
    command->add_option("MODEL", model_, "Of coterie train")->required();
    command->add_option("--id", ids_, "A stored point; repeat for more")
        ->allow_extra_args(false);
    command->add_option("--vector", vector_, "A new one: \"0.1,-0.2,...\"");
    command->footer(kPredictHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    if (ids_.empty() == !vector_.has_value()) {
      return UsageError(
          "give points by --id or one by --vector",
          "Like this: coterie predict a1a logistic-isega --id 17");
    }
    v1::PredictRequest request;
    request.set_collection(collection_);
    request.set_model(model_);
    for (const std::string& text : ids_) {
      const absl::StatusOr<uint64_t> id = ParsePointId(text);
      if (!id.ok()) {
        return UsageError(absl::StrCat("--id: ", id.status().message()),
                          "Like this: --id 17");
      }
      request.add_ids(*id);
    }
    if (vector_.has_value()) {
      const absl::StatusOr<std::vector<float>> vector = ParseVector(*vector_);
      if (!vector.ok()) {
        return UsageError(vector.status().message(),
                          "Like this: --vector=0.1,-0.2,0.3");
      }
      *request.add_vectors() = PackVector(*vector);
    }
    const auto response =
        session->Call(session->stubs().training,
                      &v1::TrainingService::StubInterface::Predict, request);
    if (!response.ok()) return response.status();
    if (session->json()) {
      session->PrintJson(*response);
      return absl::OkStatus();
    }
    Table table({{"point"}, {"label"}, {"outputs", Align::kLeft}});
    for (int i = 0; i < response->predictions_size(); ++i) {
      const v1::Prediction& prediction = response->predictions(i);
      const std::string name =
          ids_.empty() ? "vector" : ids_[static_cast<size_t>(i)];
      if (prediction.outputs().empty()) {
        table.AddRow({name, "none", ""});
        continue;
      }
      table.AddRow({name, absl::StrFormat("%.6g", prediction.label()),
                    absl::StrJoin(prediction.outputs(), " ",
                                  [](std::string* out, double value) {
                                    absl::StrAppendFormat(out, "%.4g", value);
                                  })});
    }
    table.Print(session->out());
    return absl::OkStatus();
  }

 private:
  std::string collection_;
  std::string model_;
  std::vector<std::string> ids_;
  std::optional<std::string> vector_;
};

}  // namespace

std::unique_ptr<Command> NewModelsCommand() {
  return std::make_unique<ModelsCommand>();
}
std::unique_ptr<Command> NewPredictCommand() {
  return std::make_unique<PredictCommand>();
}

}  // namespace coterie
