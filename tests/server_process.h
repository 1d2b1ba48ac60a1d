// coteried as a process of its own, for tests that kill it.
//
// Not thread-safe. The binary is server/coteried in the test's data.

#ifndef COTERIE_TESTS_SERVER_PROCESS_H_
#define COTERIE_TESTS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace coterie {

class ServerProcess {
 public:
  // On a port of the system's choice, with its data in a folder; all in one
  // unless `flags`, which are added, say otherwise. Returns when it serves.
  // Empty address() if it does not start.
  ServerProcess(const std::string& data_dir,
                const std::vector<std::string>& flags = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  // Kill().
  ~ServerProcess();

  const std::string& address() const { return address_; }

  // Memory of the process now; 0 if it cannot be read.
  int64_t ResidentBytes() const;

  // Sends a signal, e.g. SIGSTOP. REQUIRES: not killed.
  void Signal(int signal) const;

  // Returns when the process has ended: its exit code, -1 if a signal ended it.
  // REQUIRES: not killed.
  int AwaitExit();

  // SIGKILL; returns when the process is gone. Idempotent.
  void Kill();

 private:
  pid_t process_ = -1;
  int output_ = -1;
  std::string address_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_SERVER_PROCESS_H_
