// Runs the command line in this process against a fake server.
// Not thread-safe.

#ifndef COTERIE_CLIENT_CLI_FIXTURE_H_
#define COTERIE_CLIENT_CLI_FIXTURE_H_

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli.h"
#include "client/fake_server.h"
#include "client/npy_bytes.h"
#include "gtest/gtest.h"

namespace coterie {

class CliFixture : public testing::Test {
 protected:
  struct Result {
    int code = -1;
    std::string out;
    std::string err;
  };

  // `typed` is standard input, of a terminal if there is any.
  static Result RunRaw(const std::vector<std::string>& arguments,
                       const std::string& typed = "") {
    std::istringstream in(typed);
    std::ostringstream out;
    std::ostringstream err;
    Terminal terminal;
    terminal.in = &in;
    terminal.out = &out;
    terminal.err = &err;
    terminal.in_is_terminal = !typed.empty();
    Result result;
    result.code = RunCli(arguments, terminal);
    result.out = out.str();
    result.err = err.str();
    return result;
  }

  Result Run(std::vector<std::string> arguments,
             const std::string& typed = "") const {
    arguments.push_back("--server=" + server_.address());
    return RunRaw(arguments, typed);
  }

  // Runs what has to succeed.
  Result Must(std::vector<std::string> arguments) const {
    Result result = Run(std::move(arguments));
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }

  static std::string WriteFile(const std::string& name,
                               const std::string& bytes) {
    const std::string path = testing::TempDir() + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  // Collection "plane": ids 0..5 at (0,0) (1,0) .. (5,0), word a..f.
  void MakePlane() const {
    std::vector<float> values;
    std::string words;
    for (int i = 0; i < 6; ++i) {
      values.insert(values.end(), {static_cast<float>(i), 0});
      words += std::string(1, static_cast<char>('a' + i)) + "\n";
    }
    Must({"import", "plane", WriteFile("plane.npy", NpyMatrix(6, 2, values)),
          "--text", WriteFile("plane.txt", words), "--as", "word", "--create",
          "--metric", "l2"});
  }

  FakeServer server_;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_CLI_FIXTURE_H_
