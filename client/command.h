// A subcommand of `coterie`, and the list of them.
//
// Not thread-safe. Registered once, then run at most once. Parsing fills the
// command's own fields; everything it does to the world goes through the
// session, so tests run it against any server and any streams.

#ifndef COTERIE_CLIENT_COMMAND_H_
#define COTERIE_CLIENT_COMMAND_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/session.h"

namespace CLI {
class App;
}  // namespace CLI

namespace coterie {

class Command {
 public:
  virtual ~Command() = default;

  // Adds the subcommand with its options and help to `app`, and returns it.
  // This object outlives `app`'s parsing.
  virtual CLI::App* Register(CLI::App* app) = 0;

  // Does what the parsed command line says. Results go to session->out(); an
  // error is returned, never printed.
  virtual absl::Status Run(Session* session) = 0;
};

std::unique_ptr<Command> NewCreateCommand();
std::unique_ptr<Command> NewImportCommand();
std::unique_ptr<Command> NewExportCommand();
std::unique_ptr<Command> NewSearchCommand();
std::unique_ptr<Command> NewGetCommand();
std::unique_ptr<Command> NewDeleteCommand();
std::unique_ptr<Command> NewCountCommand();
std::unique_ptr<Command> NewDescribeCommand();
std::unique_ptr<Command> NewDropCommand();
std::unique_ptr<Command> NewHealthCommand();
std::unique_ptr<Command> NewKMeansCommand();
std::unique_ptr<Command> NewAssignCommand();
std::unique_ptr<Command> NewClusteringsCommand();
std::unique_ptr<Command> NewJobsCommand();
std::unique_ptr<Command> NewTrainCommand();
std::unique_ptr<Command> NewModelsCommand();
std::unique_ptr<Command> NewPredictCommand();

}  // namespace coterie

#endif  // COTERIE_CLIENT_COMMAND_H_
