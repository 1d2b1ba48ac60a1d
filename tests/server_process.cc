#include "tests/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace coterie {
namespace {

constexpr char kBinary[] = "server/coteried";
constexpr char kServing[] = "serving on ";

// Reads until the line that names the address; empty if the output ends first.
std::string ReadAddress(int output) {
  std::string text;
  char byte = 0;
  while (read(output, &byte, 1) == 1) {
    text.push_back(byte);
    const size_t at = text.find(kServing);
    if (at == std::string::npos) continue;
    const size_t begin = at + sizeof(kServing) - 1;
    const size_t end = text.find_first_of(", \n", begin);
    if (end != std::string::npos) return text.substr(begin, end - begin);
  }
  return "";
}

}  // namespace

ServerProcess::ServerProcess(const std::string& data_dir,
                             const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {kBinary, "--listen=127.0.0.1:0",
                                        "--http=", "--data_dir=" + data_dir};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return;
  process_ = fork();
  if (process_ == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    execv(kBinary, argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  output_ = pipe_ends[0];
  address_ = ReadAddress(output_);
}

ServerProcess::~ServerProcess() { Kill(); }

int64_t ServerProcess::ResidentBytes() const {
  std::ifstream statm("/proc/" + std::to_string(process_) + "/statm");
  int64_t pages = 0;
  int64_t resident = 0;
  statm >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void ServerProcess::Signal(int signal) const { kill(process_, signal); }

int ServerProcess::AwaitExit() {
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void ServerProcess::Kill() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  if (output_ >= 0) {
    close(output_);
    output_ = -1;
  }
}

}  // namespace coterie
