// A file that appears under its name only when it is whole.
//
// Not thread-safe. Written under NAME.partial in the same folder; Commit makes
// it durable and renames it, replacing what was there. Destroyed before, it
// leaves nothing. Errors are INTERNAL with the file and the system's reason.

#ifndef COTERIE_CLIENT_ROWS_ATOMIC_FILE_H_
#define COTERIE_CLIENT_ROWS_ATOMIC_FILE_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coterie {

class AtomicFile {
 public:
  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  const std::string& path() const { return path_; }

  absl::Status Append(absl::string_view bytes);
  // Replaces the first bytes. REQUIRES: so many have been appended.
  absl::Status ReplaceStart(absl::string_view bytes);
  // Writes what is buffered and syncs; only Commit may follow.
  absl::Status Sync();
  // After it nothing may be called. Syncs first.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, std::FILE* file)
      : path_(std::move(path)), file_(file) {}

  std::string partial() const { return path_ + ".partial"; }
  absl::Status Failed(absl::string_view what) const;

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace coterie

#endif  // COTERIE_CLIENT_ROWS_ATOMIC_FILE_H_
