// The few things that segment files need of a disk, so that tests can fail any
// of them.
//
// A SegmentDisk is thread-safe; a file that is being written belongs to one
// thread; a mapping may be shared. Errors name the path: RESOURCE_EXHAUSTED if
// the disk is full, NOT_FOUND if there is no such file, UNAVAILABLE otherwise.

#ifndef COTERIE_SHARD_SEGMENT_DISK_H_
#define COTERIE_SHARD_SEGMENT_DISK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coterie {

// Bytes of a file, in memory as they are read. They stay readable when the file
// is removed; its space is given back with the last mapping. A disk that fails
// to read them later ends the process (SIGBUS).
class FileMapping {
 public:
  FileMapping(const char* data, size_t size) : data_(data), size_(size) {}
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  const char* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives the memory of what was read back; it is read again when used.
  void Forget() const;

 private:
  const char* const data_;
  const size_t size_;
};

// A file that is being written.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual absl::Status WriteAt(int64_t offset, absl::string_view bytes) = 0;
  // What was written is on the disk.
  virtual absl::Status Sync() = 0;
  // Shows what is written before and after.
  virtual absl::StatusOr<std::shared_ptr<const FileMapping>> Map() = 0;
};

class SegmentDisk {
 public:
  virtual ~SegmentDisk() = default;

  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Names of the files in a folder.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) = 0;
  // A file of this size, in place of one of the same name; its room on the disk
  // is taken at once. REQUIRES: bytes >= 1.
  virtual absl::StatusOr<std::unique_ptr<NewFile>> Create(
      const std::string& path, int64_t bytes) = 0;
  virtual absl::Status Rename(const std::string& from,
                              const std::string& to) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;
  // Names made, changed and removed in the folder are on the disk.
  virtual absl::Status SyncFolder(const std::string& path) = 0;

  // Reads a file from its beginning, piece by piece, as it is on the disk.
  virtual absl::Status Read(
      const std::string& path,
      absl::FunctionRef<absl::Status(absl::string_view)> piece) = 0;
  virtual absl::StatusOr<std::shared_ptr<const FileMapping>> Map(
      const std::string& path) = 0;

  // The machine's; lives for ever.
  static SegmentDisk* Machine();
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_DISK_H_
