#include "shard/segment_disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status Failure(absl::string_view what, absl::string_view path,
                     int error) {
  const std::string message =
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(message);
  }
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::UnavailableError(message);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  bool ok() const { return number_ >= 0; }

 private:
  const int number_;
};

absl::StatusOr<std::shared_ptr<const FileMapping>> MapDescriptor(
    int file, size_t bytes, const std::string& path) {
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return Failure("map", path, errno);
  return std::make_shared<const FileMapping>(static_cast<const char*>(at),
                                             bytes);
}

class MachineFile final : public NewFile {
 public:
  MachineFile(int file, int64_t bytes, std::string path)
      : file_(file), bytes_(bytes), path_(std::move(path)) {}

  absl::Status WriteAt(int64_t offset, absl::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written =
          pwrite(file_.get(), bytes.data(), bytes.size(), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Failure("write", path_, errno);
      bytes.remove_prefix(static_cast<size_t>(written));
      offset += written;
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (fdatasync(file_.get()) != 0) return Failure("sync", path_, errno);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const FileMapping>> Map() override {
    return MapDescriptor(file_.get(), static_cast<size_t>(bytes_), path_);
  }

 private:
  const Descriptor file_;
  const int64_t bytes_;
  const std::string path_;
};

class MachineDisk final : public SegmentDisk {
 public:
  absl::Status MakeFolder(const std::string& path) override {
    if (mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      return Failure("make folder", path, errno);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override {
    DIR* const open = opendir(folder.c_str());
    if (open == nullptr) return Failure("list", folder, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(open)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    const int error = errno;
    closedir(open);
    if (error != 0) return Failure("list", folder, error);
    return names;
  }

  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path,
                                                  int64_t bytes) override {
    const int file =
        open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return Failure("create", path, errno);
    auto created = std::make_unique<MachineFile>(file, bytes, path);
    // Not writing into a mapping nor beyond what is reserved: a full disk is
    // then an error code, not a signal.
    const int error = posix_fallocate(file, 0, bytes);
    if (error != 0) return Failure("make room for", path, error);
    return created;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) != 0) {
      return Failure("rename", from, errno);
    }
    return absl::OkStatus();
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) != 0) return Failure("remove", path, errno);
    return absl::OkStatus();
  }

  absl::Status SyncFolder(const std::string& path) override {
    const Descriptor folder(
        open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.ok()) return Failure("open", path, errno);
    if (fsync(folder.get()) != 0) return Failure("sync", path, errno);
    return absl::OkStatus();
  }

  absl::Status Read(
      const std::string& path,
      absl::FunctionRef<absl::Status(absl::string_view)> piece) override {
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.ok()) return Failure("open", path, errno);
    std::string buffer(kPieceBytes, '\0');
    for (;;) {
      const ssize_t got = read(file.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failure("read", path, errno);
      if (got == 0) return absl::OkStatus();
      const absl::Status status =
          piece(absl::string_view(buffer.data(), static_cast<size_t>(got)));
      if (!status.ok()) return status;
    }
  }

  absl::StatusOr<std::shared_ptr<const FileMapping>> Map(
      const std::string& path) override {
    const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.ok()) return Failure("open", path, errno);
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return Failure("look at", path, errno);
    if (info.st_size == 0) {
      return absl::DataLossError(absl::StrCat(path, " is empty"));
    }
    return MapDescriptor(file.get(), static_cast<size_t>(info.st_size), path);
  }
};

}  // namespace

FileMapping::~FileMapping() { munmap(const_cast<char*>(data_), size_); }

void FileMapping::Forget() const {
  madvise(const_cast<char*>(data_), size_, MADV_DONTNEED);  // a hint
}

SegmentDisk* SegmentDisk::Machine() {
  static MachineDisk* const machine = new MachineDisk;
  return machine;
}

}  // namespace coterie
