#include "server/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

constexpr char kHeader[] = "coterie cluster 1";

absl::Status FromErrno(int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, what);
}

// RFC 4122 version 4.
std::string NewUuid() {
  std::random_device device;
  uint64_t hi = (uint64_t{device()} << 32) | device();
  uint64_t lo = (uint64_t{device()} << 32) | device();
  hi = (hi & ~0xF000ULL) | 0x4000ULL;
  lo = (lo & ~(0xC000ULL << 48)) | (0x8000ULL << 48);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", hi >> 32,
                         (hi >> 16) & 0xFFFF, hi & 0xFFFF, lo >> 48,
                         lo & 0xFFFFFFFFFFFFULL);
}

// Written aside, synced and renamed: the file is whole or absent.
absl::Status WriteDurably(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return FromErrno(errno, absl::StrCat("cannot write ", temporary));
  }
  const bool ok = write(fd, text.data(), text.size()) ==
                      static_cast<ssize_t>(text.size()) &&
                  fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (!ok) {
    return FromErrno(error, absl::StrCat("cannot write ", temporary));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return FromErrno(errno, absl::StrCat("cannot rename ", temporary));
  }
  const int dir = open(fs::path(path).parent_path().c_str(),
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {
    fsync(dir);
    close(dir);
  }
  return absl::OkStatus();
}

bool HasShardFolders(const std::string& path) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().filename().string().rfind("shard-", 0) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<DataDir> DataDir::Open(const std::string& path, int32_t shards,
                                      int32_t default_shards) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    return FromErrno(error.value(),
                     absl::StrCat("cannot create the data directory ", path));
  }
  const std::string lock = path + "/LOCK";
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    return FromErrno(errno, absl::StrCat("cannot open ", lock));
  }
  DataDir dir(path, fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data directory ", path,
        " is in use by another coteried; stop it, or choose another with "
        "--data_dir"));
  }
  if (absl::Status s = dir.ReadOrCreateCluster(shards, default_shards);
      !s.ok()) {
    return s;
  }
  return dir;
}

DataDir::DataDir(DataDir&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      cluster_uuid_(std::move(other.cluster_uuid_)),
      shards_(other.shards_) {}

DataDir::~DataDir() {
  if (lock_fd_ >= 0) {
    close(lock_fd_);  // releases the flock
  }
}

std::string DataDir::ShardPath(int32_t shard_id) const {
  return absl::StrFormat("%s/shard-%04d", path_, shard_id);
}

absl::Status DataDir::ReadOrCreateCluster(int32_t shards,
                                          int32_t default_shards) {
  const std::string file = path_ + "/CLUSTER";
  if (!fs::exists(file)) {
    if (HasShardFolders(path_)) {
      return absl::DataLossError(absl::StrCat(
          file,
          " is missing although shard folders are here; restore it, or "
          "move the folders away to start empty"));
    }
    cluster_uuid_ = NewUuid();
    shards_ = shards > 0 ? shards : default_shards;
    return WriteDurably(file, absl::StrCat(kHeader, "\nuuid ", cluster_uuid_,
                                           "\nshards ", shards_, "\n"));
  }
  std::ifstream in(file);
  std::string header;
  std::string uuid_key;
  std::string shards_key;
  std::string count;
  std::getline(in, header);
  in >> uuid_key >> cluster_uuid_ >> shards_key >> count;
  if (!in || header != kHeader || uuid_key != "uuid" ||
      cluster_uuid_.size() != 36 || shards_key != "shards" ||
      !absl::SimpleAtoi(count, &shards_) || shards_ < 1) {
    return absl::DataLossError(absl::StrCat(file, " is damaged: expected '",
                                            kHeader,
                                            "', a uuid and a number of "
                                            "shards"));
  }
  if (shards > 0 && shards != shards_) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", path_, " was made with ", shards_,
                     " shards, but --local_shards=", shards,
                     "; leave the flag out, or choose another --data_dir"));
  }
  return absl::OkStatus();
}

}  // namespace coterie
