// coteried: flags, one Server, and the signals that end it.

#include <csignal>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/statusor.h"
#include "server/options.h"
#include "server/server.h"

int main(int argc, char** argv) {
  // Blocked before any thread exists, so that all threads inherit the mask and
  // only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  absl::SetProgramUsageMessage(coterie::UsageMessage());
  absl::FlagsUsageConfig usage;
  usage.version_string = [] { return "coteried " + coterie::Version() + "\n"; };
  absl::SetFlagsUsageConfig(usage);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::cerr << "coteried: unexpected argument '" << rest[1]
              << "'; see coteried --help\n";
    return 2;
  }
  absl::StatusOr<coterie::ServerOptions> options = coterie::OptionsFromFlags();
  if (!options.ok()) {
    std::cerr << "coteried: " << options.status().message() << "\n";
    return 2;
  }
  absl::StatusOr<std::unique_ptr<coterie::Server>> server =
      coterie::Server::Start(*options);
  if (!server.ok()) {
    std::cerr << "coteried: " << server.status().message() << "\n";
    return 1;
  }
  std::cout << "coteried " << coterie::Version() << " serving on "
            << (*server)->address() << ", data in " << options->data_dir
            << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  std::cout << "coteried: draining (signal " << signal << ")" << std::endl;
  (*server)->Shutdown();
  std::cout << "coteried: stopped" << std::endl;
  return 0;
}
