// How a failed command ends: its exit code, and two lines on stderr, what
// happened and what to do. Stateless; any thread.

#ifndef COTERIE_CLIENT_ERRORS_H_
#define COTERIE_CLIENT_ERRORS_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace coterie {

// Part of the command line's contract: scripts depend on them.
enum ExitCode : int {
  kExitOk = 0,
  // The command line itself is wrong; nothing was sent.
  kExitUsage = 1,
  // NOT_FOUND: no such collection, id or text.
  kExitNotFound = 2,
  // INVALID_ARGUMENT, OUT_OF_RANGE, ALREADY_EXISTS, FAILED_PRECONDITION, or an
  // input file that cannot be used.
  kExitInvalid = 3,
  // UNAVAILABLE or DEADLINE_EXCEEDED: server or shard did not answer.
  kExitUnreachable = 4,
  // RESOURCE_EXHAUSTED: busy, or a reply over the limit.
  kExitOverloaded = 5,
  // Anything else.
  kExitOther = 6,
};

// The table above as text for --help.
std::string ExitCodeHelp();

// A mistake in the command line, with what to do about it. Exit code 1.
absl::Status UsageError(absl::string_view message, absl::string_view hint);

// The status with advice; an OK status, or one that has advice, is unchanged.
absl::Status WithHint(absl::Status status, absl::string_view hint);

// The same code and details (field, shard, retry, advice), other words.
absl::Status WithMessage(const absl::Status& status, absl::string_view message);

ExitCode ExitCodeOf(const absl::Status& status);

// Prints an error in two lines:
//   coterie: collection "words" does not exist (NOT_FOUND)
//     Create it first: coterie create words --dim 100 --metric cosine
// The first has the server's message and, unless the message names them,
// field and shard. The second is the status's advice or one that fits its
// code; `server` is the address that was called. REQUIRES: not OK.
void ReportError(const absl::Status& status, absl::string_view server,
                 std::ostream& err);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ERRORS_H_
