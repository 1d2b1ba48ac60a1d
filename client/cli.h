// The `coterie` command line: parses, runs one subcommand, reports.
//
// Not thread-safe. Everything it touches but the server and the files named on
// the command line is in its arguments; of the environment it reads
// COTERIE_SERVER.

#ifndef COTERIE_CLIENT_CLI_H_
#define COTERIE_CLIENT_CLI_H_

#include <string>
#include <vector>

#include "client/session.h"

namespace coterie {

// `arguments` without the program's name. Returns the exit code
// (client/errors.h); results are on terminal.out, errors, progress and
// questions on terminal.err.
int RunCli(const std::vector<std::string>& arguments, const Terminal& terminal);

}  // namespace coterie

#endif  // COTERIE_CLIENT_CLI_H_
