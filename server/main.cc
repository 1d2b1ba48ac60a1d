// coteried: flags, one Server, and the signals that end it.

#include <google/protobuf/stubs/logging.h>
#include <time.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "index/faiss_threads.h"
#include "server/options.h"
#include "server/server.h"

namespace coterie {
namespace {

// What draining may take beyond its own limits before it is cut short.
constexpr absl::Duration kStopSlack = absl::Milliseconds(700);

// Between two looks at a data directory that another process has.
constexpr absl::Duration kDataDirPause = absl::Milliseconds(100);

// The first signal asks the server to stop; a second ends the process at once,
// and so does time: everything acknowledged is on disk.
[[noreturn]] void HandleSignals(const sigset_t& signals,
                                const std::weak_ptr<Server>& server,
                                absl::Duration grace) {
  int signal = 0;
  sigwait(&signals, &signal);
  std::cout << "coteried: draining (signal " << signal << ")" << std::endl;
  if (const std::shared_ptr<Server> alive = server.lock()) {
    alive->RequestStop();
  }
  const timespec wait = absl::ToTimespec(grace + kStopSlack);
  if (sigtimedwait(&signals, nullptr, &wait) > 0) {
    std::cerr << "coteried: second signal, stopped at once" << std::endl;
    std::_Exit(1);
  }
  std::cerr << "coteried: draining took too long, cut short" << std::endl;
  std::_Exit(0);
}

// Server::Start, again while another process has the data directory and
// options.data_dir_wait lasts. CANCELLED if a signal comes meanwhile.
absl::StatusOr<std::unique_ptr<Server>> StartServer(
    const ServerOptions& options, const sigset_t& signals) {
  const absl::Time until = absl::Now() + options.data_dir_wait;
  for (bool told = false;; told = true) {
    absl::StatusOr<std::unique_ptr<Server>> started = Server::Start(options);
    if (!absl::IsAborted(started.status()) || absl::Now() >= until) {
      return started;
    }
    if (!told) {
      std::cerr << "coteried: data directory " << options.data_dir
                << " is in use by another coteried; waiting for it to end"
                << std::endl;
    }
    const timespec pause = absl::ToTimespec(kDataDirPause);
    if (sigtimedwait(&signals, nullptr, &pause) > 0) {
      return absl::CancelledError("stopped before it started");
    }
  }
}

int Run(const ServerOptions& options, const sigset_t& signals) {
  absl::StatusOr<std::unique_ptr<Server>> started =
      StartServer(options, signals);
  if (absl::IsCancelled(started.status())) {
    std::cout << "coteried: " << started.status().message() << std::endl;
    return 0;
  }
  if (!started.ok()) {
    std::cerr << "coteried: " << started.status().message() << std::endl;
    return 1;
  }
  const std::shared_ptr<Server> server = *std::move(started);
  std::thread(HandleSignals, signals, std::weak_ptr<Server>(server),
              options.drain_delay + options.drain)
      .detach();
  std::cout << "coteried " << Version() << " listening on " << server->address()
            << ", not serving yet" << std::endl;
  if (!server->http_address().empty()) {
    std::cout << "coteried: http on " << server->http_address() << std::endl;
  }
  absl::Status status = server->AwaitServing();
  if (status.ok()) {
    std::cout << "coteried " << Version() << " serving on " << server->address()
              << ", "
              << (options.role == ServerOptions::Role::kCoordinator
                      ? "no data of its own"
                      : "data in " + options.data_dir)
              << std::endl;
    status = server->AwaitEnd();
  }
  if (!absl::IsCancelled(status)) {
    std::cerr << "coteried: " << status.message() << std::endl;
    return 1;
  }
  if (!server->Shutdown()) {
    std::cout << "coteried: stopped while loading" << std::endl;
    std::_Exit(0);
  }
  std::cout << "coteried: stopped" << std::endl;
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  coterie::EndBlasThreads();
  // Blocked before any thread exists, so that all threads inherit the mask and
  // only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Text of a request that is not UTF-8 is the caller's fault and the caller is
  // told; protobuf would write a line about each to standard error.
  google::protobuf::SetLogHandler(nullptr);

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
  return coterie::Run(*options, signals);
}
