#include <CLI/App.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/collections.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"

namespace coterie {
namespace {

constexpr char kHelp[] = R"(Examples:
  coterie drop words
  coterie drop words --yes

Asks first on a terminal. Elsewhere --yes is required: there is no undo.)";

class DropCommand : public Command {
 public:
  CLI::App* Register(CLI::App* app) override {
    CLI::App* command =
        app->add_subcommand("drop", "Drop a collection and all its points");
    command->add_option("NAME", collection_, "Collection")->required();
    command->add_flag("--yes,-y", yes_, "Do not ask");
    command->footer(kHelp);
    return command;
  }

  absl::Status Run(Session* session) override {
    session->set_default_timeout(absl::Seconds(60));
    if (!yes_) {
      absl::Status agreed = Ask(*session);
      if (!agreed.ok()) return agreed;
    }
    v1::DeleteCollectionRequest request;
    request.set_name(collection_);
    absl::StatusOr<v1::DeleteCollectionResponse> response = session->Call(
        session->stubs().collections,
        &v1::CollectionService::StubInterface::DeleteCollection, request);
    if (!response.ok()) return NothingToDo(response.status());
    if (session->json()) {
      session->PrintJson(*response);
    } else {
      session->out() << "dropped " << collection_ << " with "
                     << Plural(response->points_deleted(), "point") << '\n';
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status NothingToDo(absl::Status status) {
    if (!absl::IsNotFound(status)) return status;
    return WithHint(std::move(status),
                    "Nothing to do; what there is: coterie describe");
  }

  absl::Status Ask(const Session& session) const {
    if (!session.terminal().in_is_terminal) {
      return UsageError("drop asks first, and standard input is not a terminal",
                        absl::StrCat("To drop without asking: coterie drop ",
                                     collection_, " --yes"));
    }
    absl::StatusOr<v1::GetCollectionResponse> found =
        GetCollection(session, collection_);
    if (!found.ok()) return NothingToDo(found.status());
    session.err() << "Drop " << collection_ << " and its "
                  << Plural(found->stats().points(), "point")
                  << "? There is no undo. [y/N] " << std::flush;
    std::string answer;
    std::getline(*session.terminal().in, answer);
    answer = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
    if (answer == "y" || answer == "yes") return absl::OkStatus();
    return WithHint(
        absl::CancelledError(absl::StrCat("did not drop ", collection_)),
        "Answer y to drop it");
  }

  std::string collection_;
  bool yes_ = false;
};

}  // namespace

std::unique_ptr<Command> NewDropCommand() {
  return std::make_unique<DropCommand>();
}

}  // namespace coterie
