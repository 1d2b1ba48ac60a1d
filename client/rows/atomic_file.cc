#include "client/rows/atomic_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  AtomicFile file(path, nullptr);
  file.file_ = std::fopen(file.partial().c_str(), "wb");
  if (file.file_ == nullptr) return file.Failed("written");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, nullptr)) {}

AtomicFile::~AtomicFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(partial().c_str());
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size()) {
    return absl::OkStatus();
  }
  return Failed("written");
}

absl::Status AtomicFile::ReplaceStart(absl::string_view bytes) {
  if (std::fseek(file_, 0, SEEK_SET) != 0) return Failed("written");
  return Append(bytes);
}

absl::Status AtomicFile::Sync() {
  if (std::fflush(file_) == 0 && fsync(fileno(file_)) == 0) {
    return absl::OkStatus();
  }
  return Failed("written");
}

absl::Status AtomicFile::Commit() {
  absl::Status status = Sync();
  if (!status.ok()) return status;
  if (std::rename(partial().c_str(), path_.c_str()) != 0) {
    return Failed("renamed into place");
  }
  std::fclose(std::exchange(file_, nullptr));
  return absl::OkStatus();
}

absl::Status AtomicFile::Failed(absl::string_view what) const {
  return absl::InternalError(
      absl::StrCat(path_, ": cannot be ", what, ": ", std::strerror(errno)));
}

}  // namespace coterie
