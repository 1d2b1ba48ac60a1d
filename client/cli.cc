#include "client/cli.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "api/version.h"
#include "client/command.h"
#include "client/errors.h"
#include "client/numbers.h"

namespace coterie {
namespace {

// Together with coteried's.
constexpr char kDefaultServer[] = "127.0.0.1:7600";

constexpr char kDescription[] =
    "Coterie: exact nearest-neighbour search, sharded, with a certificate.\n"
    "A client of coteried.";

constexpr char kExamples[] = R"(A first session, with coteried running:
  coterie import words data/words-10k.npy --text data/words-10k.txt \
      --as word --create --metric cosine
  coterie search words --near king --show word
  coterie search words --near king --profile
  coterie kmeans words -k 50 --show word
  coterie import adult data/a1a.libsvm --create --metric l2 --dim 123
  coterie train adult --label label --workers 20
  coterie describe

Each command has its own help with examples: coterie search --help
Global options may stand before or after the command.

)";

struct Globals {
  std::string server = kDefaultServer;
  std::optional<std::string> timeout;
  bool json = false;
};

struct Registered {
  CLI::App* app = nullptr;
  std::unique_ptr<Command> command;
};

std::vector<Registered> RegisterCommands(CLI::App* app) {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(NewCreateCommand());
  commands.push_back(NewImportCommand());
  commands.push_back(NewExportCommand());
  commands.push_back(NewSearchCommand());
  commands.push_back(NewGetCommand());
  commands.push_back(NewDeleteCommand());
  commands.push_back(NewCountCommand());
  commands.push_back(NewDescribeCommand());
  commands.push_back(NewDropCommand());
  commands.push_back(NewHealthCommand());
  commands.push_back(NewKMeansCommand());
  commands.push_back(NewAssignCommand());
  commands.push_back(NewClusteringsCommand());
  commands.push_back(NewTrainCommand());
  commands.push_back(NewPredictCommand());
  commands.push_back(NewModelsCommand());
  commands.push_back(NewJobsCommand());
  std::vector<Registered> registered;
  for (std::unique_ptr<Command>& command : commands) {
    CLI::App* subcommand = command->Register(app);
    subcommand->fallthrough();
    subcommand->footer(absl::StrCat(subcommand->get_footer(),
                                    "\n\nGlobal options and exit codes: "
                                    "coterie --help"));
    registered.push_back({subcommand, std::move(command)});
  }
  return registered;
}

void AddGlobals(CLI::App* app, Globals* globals) {
  app->set_version_flag("--version", absl::StrCat("coterie ", kVersion),
                        "Print the version and exit");
  app->add_option(
         "--server", globals->server,
         absl::StrCat("HOST:PORT of coteried (default: ", kDefaultServer, ")"))
      ->envname("COTERIE_SERVER");
  app->add_option("--timeout", globals->timeout,
                  "Of each call: 500ms, 30s, 2m (default: 30s; writes: 60s)");
  app->add_flag("--json", globals->json, "Print the reply as JSON");
  app->require_subcommand(1);
  app->footer(absl::StrCat(kExamples, ExitCodeHelp()));
}

std::string CommandNames(const CLI::App& app) {
  return absl::StrJoin(
      app.get_subcommands([](const CLI::App*) { return true; }), ", ",
      [](std::string* text, const CLI::App* command) {
        text->append(command->get_name());
      });
}

// Help and version are "errors" of the parser that are none.
int ReportParse(const CLI::App& app, const CLI::ParseError& error,
                const Terminal& terminal) {
  if (error.get_exit_code() == 0) {
    // Of the innermost command: the parser answers --help where it stands.
    app.exit(error, *terminal.out, *terminal.err);
    return kExitOk;
  }
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::vector<std::string> rest = app.remaining();
  if (chosen.empty() && !rest.empty()) {
    ReportError(UsageError(absl::StrCat("unknown command or option '",
                                        rest.front(), "'"),
                           absl::StrCat("Commands: ", CommandNames(app),
                                        "; see: coterie --help")),
                "", *terminal.err);
    return kExitUsage;
  }
  const std::string command =
      chosen.empty() ? "coterie" : "coterie " + chosen.front()->get_name();
  ReportError(
      UsageError(error.what(), absl::StrCat("See: ", command, " --help")), "",
      *terminal.err);
  return kExitUsage;
}

absl::Status RunCommand(Command* command, const Globals& globals,
                        const Terminal& terminal) {
  Session::Options options;
  options.server = globals.server;
  options.json = globals.json;
  if (globals.timeout.has_value()) {
    absl::StatusOr<absl::Duration> timeout = ParseTimeout(*globals.timeout);
    if (!timeout.ok()) {
      return UsageError(absl::StrCat("--timeout: ", timeout.status().message()),
                        "Like this: --timeout 30s");
    }
    options.timeout = *timeout;
  }
  absl::StatusOr<Stubs> stubs = Connect(globals.server);
  if (!stubs.ok()) {
    return UsageError(stubs.status().message(),
                      absl::StrCat("Like this: --server ", kDefaultServer,
                                   ", or COTERIE_SERVER in the environment"));
  }
  Session session(std::move(options), terminal, *std::move(stubs));
  absl::Status status = command->Run(&session);
  terminal.out->flush();
  if (status.ok() && terminal.out->fail()) {
    return WithHint(absl::DataLossError("cannot write to standard output"),
                    "Is the disk full, or the reader gone?");
  }
  return status;
}

}  // namespace

int RunCli(const std::vector<std::string>& arguments,
           const Terminal& terminal) {
  Globals globals;
  CLI::App app(kDescription, "coterie");
  AddGlobals(&app, &globals);
  const std::vector<Registered> commands = RegisterCommands(&app);
  try {
    // The parser takes them last first.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return ReportParse(app, error, terminal);
  }
  for (const Registered& registered : commands) {
    if (!registered.app->parsed()) continue;
    const absl::Status status =
        RunCommand(registered.command.get(), globals, terminal);
    if (!status.ok()) ReportError(status, globals.server, *terminal.err);
    return ExitCodeOf(status);
  }
  return kExitOther;
}

}  // namespace coterie
