// coteried as a process of its own, for tests that kill it.
//
// Not thread-safe. The binary is server/coteried in the test's data.

#ifndef COTERIE_TESTS_SERVER_PROCESS_H_
#define COTERIE_TESTS_SERVER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace coterie {

class ServerProcess {
 public:
  // All in one, on a port of the system's choice, with its data in a folder.
  // Returns when the port is open; the collections may still be loading.
  // `flags` are added. Empty address() if it does not start.
  ServerProcess(const std::string& data_dir,
                const std::vector<std::string>& flags = {});
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  // Kill().
  ~ServerProcess();

  const std::string& address() const { return address_; }

  // SIGKILL; returns when the process is gone. Idempotent.
  void Kill();

 private:
  pid_t process_ = -1;
  int output_ = -1;
  std::string address_;
};

}  // namespace coterie

#endif  // COTERIE_TESTS_SERVER_PROCESS_H_
