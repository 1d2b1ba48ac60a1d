#include "client/rows/input_file.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {

absl::StatusOr<InputFile> OpenInputFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": no such file"));
  }
  if (error || status.type() != std::filesystem::file_type::regular) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file",
                     error ? absl::StrCat(" (", error.message(), ")") : ""));
  }
  InputFile file;
  file.name = path;
  file.bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  auto stream = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (error || !stream->is_open()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be read (permissions?)"));
  }
  file.stream = std::move(stream);
  return file;
}

InputFile InputFromBytes(std::string bytes, std::string name) {
  InputFile file;
  file.bytes = static_cast<int64_t>(bytes.size());
  file.stream = std::make_unique<std::istringstream>(std::move(bytes));
  file.name = std::move(name);
  return file;
}

}  // namespace coterie
