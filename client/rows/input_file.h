// Opening input files. Stateless; any thread.

#ifndef COTERIE_CLIENT_ROWS_INPUT_FILE_H_
#define COTERIE_CLIENT_ROWS_INPUT_FILE_H_

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace coterie {

// A file at its beginning. `bytes` is how many it holds.
struct InputFile {
  std::unique_ptr<std::istream> stream;
  int64_t bytes = 0;
  // For messages.
  std::string name;
};

// INVALID_ARGUMENT naming the file if there is none, it cannot be read or it
// is not a regular one: a pipe has no size and cannot be read twice.
absl::StatusOr<InputFile> OpenInputFile(const std::string& path);

// These bytes as a file.
InputFile InputFromBytes(std::string bytes, std::string name);

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_INPUT_FILE_H_
