#include <CLI/App.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/printable.h"

namespace coterie {
namespace {

namespace hv1 = grpc::health::v1;

constexpr char kHelp[] = R"(Examples:
  coterie health
  coterie health alive
  coterie health shard/2 --timeout 1s

Prints SERVING with exit code 0, or what it says instead with exit code 4.
Without a name: whether the process serves. "alive": whether it answers at all,
also while it loads, drains or misses shards. A probe for container images.)";

class HealthCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("health", "Ask a server for its health");
    command->add_option("SERVICE", service_,
                        "A name of grpc.health.v1 (default: the process)");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Seconds(5));
    hv1::HealthCheckRequest request;
    request.set_service(service_);
    absl::StatusOr<hv1::HealthCheckResponse> reply = session->Call(
        session->stubs().health, &hv1::Health::StubInterface::Check, request);
    if (absl::IsNotFound(reply.status())) {
      return WithHint(
          absl::NotFoundError(absl::StrCat("the server has no health named '",
                                           Printable(service_, 60), "'")),
          "There are: none (the process), alive, shard/0, shard/1, ...");
    }
    if (!reply.ok()) return reply.status();
    const std::string state =
        hv1::HealthCheckResponse::ServingStatus_Name(reply->status());
    if (session->json()) {
      session->PrintJson(*reply);
    } else {
      session->out() << state << '\n';
    }
    if (reply->status() == hv1::HealthCheckResponse::SERVING) {
      return absl::OkStatus();
    }
    return WithHint(absl::UnavailableError(absl::StrCat("health is ", state)),
                    "Why: coterie describe, or /healthz over HTTP");
  }

 private:
  std::string service_;
};

}  // namespace

std::unique_ptr<Command> NewHealthCommand() {
  return std::make_unique<HealthCommand>();
}

}  // namespace coterie
