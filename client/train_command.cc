#include <CLI/App.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/sgd_output.h"

namespace coterie {
namespace {

using Method = v1::SgdMethod;

constexpr char kHelp[] = R"(Examples:
  coterie train a1a --label label --method isega --workers 20 --updates 6000
  coterie train a1a --label label --method ef21 --top-k 1 --target-loss 0.4
  coterie train pixels --label digit --model softmax --classes 10 --method sgd
    --batch 16 --workers 4 --step 0.01
  coterie train a1a --label label --asynchronous --plot loss.png
  coterie train pixels --label digit --model mlp --classes 10 --hidden 256
    --step 0.1 --batch 64 --micro-batches 8

Trains on the points as they are now, on the shards: points stay where they are.
Workers are parts of the points, however many shards carry them; methods differ
in what workers send. The model is stored as --name (default: MODEL-METHOD) and
is what "coterie predict" asks. Interrupt with Ctrl-C and go on later, with the
same result, by: coterie jobs COLLECTION NAME --resume.)";

const std::map<std::string, Method::Preset>& Methods() {
  static const auto* names = new std::map<std::string, Method::Preset>{
      {"gd", Method::GRADIENT_DESCENT},
      {"sgd", Method::SGD},
      {"ibcd", Method::IBCD},
      {"ibgd", Method::IBGD},
      {"isgd", Method::ISGD},
      {"isaga", Method::ISAGA},
      {"isaga-shared", Method::ISAGA_SHARED},
      {"isega", Method::ISEGA},
      {"accelerated", Method::ACCELERATED},
      {"async-proximal", Method::ASYNCHRONOUS_PROXIMAL},
      {"ef21", Method::EF21}};
  return *names;
}

const std::map<std::string, Method::Compressor>& Compressors() {
  static const auto* names = new std::map<std::string, Method::Compressor>{
      {"none", Method::NONE},       {"block", Method::RANDOM_BLOCK},
      {"perm", Method::PERM_BLOCK}, {"whole", Method::WHOLE_OR_NOTHING},
      {"top-k", Method::TOP_K},     {"qsgd", Method::QSGD},
      {"fp16", Method::FP16},       {"bf16", Method::BF16}};
  return *names;
}

const std::map<std::string, Method::Feedback>& Feedbacks() {
  static const auto* names = new std::map<std::string, Method::Feedback>{
      {"plain", Method::PLAIN},
      {"shift", Method::SHIFT},
      {"ef21", Method::FEEDBACK_EF21}};
  return *names;
}

template <typename T>
std::string Names(const std::map<std::string, T>& choices) {
  return absl::StrJoin(choices, ", ", [](std::string* out, const auto& choice) {
    out->append(choice.first);
  });
}

// The choice of that name; 0 for none.
template <typename T>
absl::StatusOr<T> Choose(const char* flag, const std::string& text,
                         const std::map<std::string, T>& choices) {
  if (text.empty()) return T{};
  const auto found = choices.find(text);
  if (found != choices.end()) return found->second;
  return UsageError(absl::StrCat(flag, ": '", text, "' is none of them"),
                    absl::StrCat("One of: ", Names(choices)));
}

class TrainCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("train", "Train a model on a collection's points");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_option("--label", label_, "Attribute that is the label")
        ->required();
    command->add_option("--name", name_, "Of the model");
    RegisterModel(command);
    RegisterMethod(command);
    command->add_option("--updates", updates_, "At most (default: 1000)");
    command->add_option("--target-loss", target_loss_, "Stops at this loss");
    command->add_option("--held-out", held_out_,
                        "Share of points to measure on, not trained on");
    command->add_option("--measure-every", measure_every_,
                        "Updates (default: at the end)");
    command->add_option("--seed", seed_, "Of random draws (default: 0)");
    command->add_flag("--skip-missing", skip_missing_,
                      "Leave points without label out");
    command->add_option("--plot", plot_, "Loss and bytes as a PNG file");
    command->add_flag(
        "--replace", replace_,
        "A model of this --name is replaced (without --name always)");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Hours(24));
    if (method_.empty()) {
      // What is exact, where a model is cut.
      method_ = !micro_batches_.has_value() ? "isega"
                : batch_ > 0                ? "sgd"
                                            : "gd";
    }
    const absl::StatusOr<v1::TrainSgdRequest> request = MakeRequest();
    if (!request.ok()) return request.status();
    const absl::StatusOr<TrainedRun> run = TrainAndShow(*session, *request);
    if (!run.ok()) return Advise(run.status(), request->name());
    if (!plot_.empty()) {
      const absl::Status plotted = WriteSgdPlot(
          absl::StrCat(request->name(), " on ", request->collection()),
          run->reports, plot_);
      if (!plotted.ok()) return plotted;
    }
    if (session->json()) {
      session->PrintJson(run->model);
    } else {
      PrintModel(*session, run->model);
      if (!plot_.empty()) session->out() << "plot: " << plot_ << '\n';
    }
    return absl::OkStatus();
  }

 private:
  void RegisterModel(CLI::App* command) {
    command->add_option("--model", model_,
                        "linear, logistic (default), softmax or mlp");
    command->add_option("--classes", classes_, "Of softmax and mlp");
    command->add_option("--hidden", hidden_, "Units of the mlp");
    command->add_flag("--intercept", intercept_, "Learn a constant, too");
    command->add_option("--l2", l2_, "Penalty (default: 0.00025)");
    command->add_option("--l1", l1_, "Penalty (default: 0)");
  }

  void RegisterMethod(CLI::App* command) {
    command->add_option("--method", method_,
                        absl::StrCat(Names(Methods()),
                                     " (default: isega; with --micro-batches "
                                     "gd, or sgd with --batch)"));
    command->add_option("--compressor", compressor_, Names(Compressors()));
    command->add_option("--feedback", feedback_, Names(Feedbacks()));
    command->add_option("--workers", workers_, "Parts of the points");
    command->add_option("--batch", batch_, "Rows a worker draws for an update");
    command->add_option("--block-fraction", block_fraction_,
                        "Share of a gradient sent (default: 1/workers)");
    command->add_option("--top-k", top_k_, "Values sent by top-k");
    command->add_option("--levels", levels_, "Of qsgd");
    command->add_option("--refresh-every", refresh_every_,
                        "isaga: updates between points to resume from");
    command->add_option("--step", step_, "Constant (default: by theory)");
    command->add_option("--decay", decay_, "Step / (1 + decay x updates)");
    command->add_flag("--asynchronous", asynchronous_,
                      "Each shard's answer is an update");
    command->add_option("--bound", bound_,
                        "The same, at most so many ahead of the slowest shard");
    command->add_option("--buffered", buffered_,
                        "So many shards' answers are an update");
    command->add_option("--backup", backup_,
                        "Shards of a round not to wait for");
    command->add_option("--micro-batches", micro_batches_,
                        "mlp: its two layers on different shards; rows cross "
                        "in so many pieces");
    command->add_option("--back-copies", back_copies_,
                        "Of the second layer, then (default: 1)");
    command->add_flag("--float64", float64_, "Numbers travel as float64");
  }

  absl::Status SetModel(v1::SgdModelSpec* spec) const {
    if (model_ == "linear") {
      spec->mutable_linear();
    } else if (model_ == "logistic") {
      spec->mutable_logistic();
    } else if (model_ == "softmax") {
      spec->mutable_softmax()->set_classes(classes_);
    } else if (model_ == "mlp") {
      spec->mutable_mlp()->set_classes(classes_);
      spec->mutable_mlp()->set_hidden(hidden_);
    } else {
      return UsageError(absl::StrCat("--model: '", model_, "' is none"),
                        "One of: linear, logistic, softmax, mlp");
    }
    spec->set_intercept(intercept_);
    spec->set_l2(l2_);
    spec->set_l1(l1_);
    return absl::OkStatus();
  }

  absl::Status SetMethod(Method* method) const {
    const auto preset = Choose("--method", method_, Methods());
    if (!preset.ok()) return preset.status();
    const auto compressor = Choose("--compressor", compressor_, Compressors());
    if (!compressor.ok()) return compressor.status();
    const auto feedback = Choose("--feedback", feedback_, Feedbacks());
    if (!feedback.ok()) return feedback.status();
    method->set_preset(*preset);
    method->set_compressor(*compressor);
    method->set_feedback(*feedback);
    method->set_block_fraction(block_fraction_);
    method->set_top_k(top_k_);
    method->set_levels(levels_);
    return absl::OkStatus();
  }

  absl::Status SetMode(v1::SgdModeSpec* mode) const {
    const int modes = (asynchronous_ ? 1 : 0) + (bound_.has_value() ? 1 : 0) +
                      (buffered_ > 0 ? 1 : 0) + (backup_ > 0 ? 1 : 0);
    if (modes > 1) {
      return UsageError(
          "--asynchronous, --bound, --buffered and --backup exclude each other",
          "See: coterie train --help");
    }
    if (asynchronous_) mode->mutable_asynchronous();
    if (bound_.has_value()) {
      mode->mutable_stale_synchronous()->set_bound(*bound_);
    }
    if (buffered_ > 0) mode->mutable_buffered()->set_answers(buffered_);
    if (backup_ > 0) mode->mutable_backup()->set_shards(backup_);
    return absl::OkStatus();
  }

  absl::StatusOr<v1::TrainSgdRequest> MakeRequest() const {
    v1::TrainSgdRequest request;
    request.set_collection(collection_);
    request.set_label_attribute(label_);
    absl::Status status = SetModel(request.mutable_model());
    if (status.ok()) status = SetMethod(request.mutable_method());
    if (!status.ok()) return status;
    // A name made up is the command's to use again.
    request.set_name(name_.empty() ? absl::StrCat(model_, "-", method_)
                                   : name_);
    request.set_replace(replace_ || name_.empty());
    status = SetMode(request.mutable_mode());
    if (!status.ok()) return status;
    if (decay_ > 0 && !step_.has_value()) {
      return UsageError("--decay needs a --step that decays",
                        "Like this: --step 0.1 --decay 0.01");
    }
    if (decay_ > 0) {
      request.mutable_step_rule()->mutable_inverse()->set_step(*step_);
      request.mutable_step_rule()->mutable_inverse()->set_decay(decay_);
    } else if (step_.has_value()) {
      request.mutable_step_rule()->mutable_constant()->set_step(*step_);
    }
    if (micro_batches_.has_value()) {
      request.mutable_partition()->mutable_model_parallel()->set_micro_batches(
          *micro_batches_);
      request.mutable_partition()->mutable_model_parallel()->set_back_copies(
          back_copies_);
    } else if (back_copies_ != 0) {
      return UsageError("--back-copies goes with --micro-batches",
                        "Like this: --micro-batches 8 --back-copies 2");
    }
    request.set_num_workers(workers_);
    request.set_batch(batch_);
    request.set_float64(float64_);
    request.set_max_updates(updates_);
    if (target_loss_.has_value()) request.set_target_loss(*target_loss_);
    request.set_held_out(held_out_);
    request.set_evaluate_every(measure_every_);
    request.set_refresh_every(refresh_every_);
    request.set_seed(seed_);
    request.set_skip_missing(skip_missing_);
    return request;
  }

  absl::Status Advise(const absl::Status& status,
                      const std::string& name) const {
    if (absl::IsAlreadyExists(status)) {
      return WithHint(status, "Replace it with --replace, or --name another");
    }
    if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
        absl::IsUnavailable(status)) {
      return WithHint(
          status, absl::StrCat("Go on with: coterie jobs ", collection_, " ",
                               name, " --resume"));
    }
    if (absl::IsOutOfRange(status)) {
      return WithHint(status, "The step is too large: give a smaller --step");
    }
    return status;
  }

  std::string collection_;
  std::string label_;
  std::string name_;
  std::string model_ = "logistic";
  int32_t classes_ = 2;
  int32_t hidden_ = 32;
  bool intercept_ = false;
  double l2_ = 2.5e-4;
  double l1_ = 0;
  std::string method_;
  std::string compressor_;
  std::string feedback_;
  int32_t workers_ = 1;
  int64_t batch_ = 0;
  double block_fraction_ = 0;
  int64_t top_k_ = 0;
  int32_t levels_ = 0;
  int64_t refresh_every_ = 0;
  std::optional<double> step_;
  double decay_ = 0;
  bool asynchronous_ = false;
  std::optional<int64_t> bound_;
  int32_t buffered_ = 0;
  int32_t backup_ = 0;
  std::optional<int32_t> micro_batches_;
  int32_t back_copies_ = 0;
  bool float64_ = false;
  int64_t updates_ = 0;
  std::optional<double> target_loss_;
  double held_out_ = 0;
  int64_t measure_every_ = 0;
  uint64_t seed_ = 0;
  bool skip_missing_ = false;
  std::string plot_;
  bool replace_ = false;
};

}  // namespace

std::unique_ptr<Command> NewTrainCommand() {
  return std::make_unique<TrainCommand>();
}

}  // namespace coterie
