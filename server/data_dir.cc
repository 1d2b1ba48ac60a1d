#include "server/data_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/cluster_uuid.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

constexpr char kHeader[] = "coterie cluster 1";

absl::Status FromErrno(int error, absl::string_view what) {
  return absl::ErrnoToStatus(error, what);
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

absl::StatusOr<DataDir> DataDir::Open(const std::string& path,
                                      const DataDirRequest& request) {
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
    return absl::AbortedError(absl::StrCat(
        "data directory ", path,
        " is in use by another coteried; stop it, or choose another with "
        "--data_dir"));
  }
  if (absl::Status s = dir.ReadOrCreateCluster(request); !s.ok()) {
    return s;
  }
  return dir;
}

DataDir::DataDir(DataDir&& other) noexcept
    : path_(std::move(other.path_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      cluster_uuid_(std::move(other.cluster_uuid_)),
      shards_(other.shards_),
      shard_id_(other.shard_id_) {}

DataDir::~DataDir() {
  if (lock_fd_ >= 0) {
    close(lock_fd_);  // releases the flock
  }
}

std::string DataDir::ShardPath(int32_t shard_id) const {
  return absl::StrFormat("%s/shard-%04d", path_, shard_id);
}

absl::Status DataDir::ReadOrCreateCluster(const DataDirRequest& request) {
  const std::string file = path_ + "/CLUSTER";
  if (!fs::exists(file)) {
    return CreateCluster(file, request);
  }
  if (absl::Status s = ReadCluster(file); !s.ok()) {
    return s;
  }
  return CheckCluster(request);
}

absl::Status DataDir::CreateCluster(const std::string& file,
                                    const DataDirRequest& request) {
  if (HasShardFolders(path_)) {
    return absl::DataLossError(absl::StrCat(
        file,
        " is missing although shard folders are here; restore it, or "
        "move the folders away to start empty"));
  }
  if (request.shard_id >= 0 && request.cluster_uuid.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data directory ", path_,
        " is new, and a shard of its own cannot guess its cluster; give all "
        "of them the same --cluster=NAME (or --cluster_uuid)"));
  }
  cluster_uuid_ =
      request.cluster_uuid.empty() ? NewClusterUuid() : request.cluster_uuid;
  shards_ = request.shards > 0 ? request.shards : request.default_shards;
  shard_id_ = request.shard_id;
  std::string text = absl::StrCat(kHeader, "\nuuid ", cluster_uuid_,
                                  "\nshards ", shards_, "\n");
  if (shard_id_ >= 0) {
    absl::StrAppend(&text, "shard ", shard_id_, "\n");
  }
  return WriteDurably(file, text);
}

absl::Status DataDir::ReadCluster(const std::string& file) {
  std::ifstream in(file);
  std::string header;
  std::string uuid_key;
  std::string shards_key;
  std::string count;
  std::getline(in, header);
  in >> uuid_key >> cluster_uuid_ >> shards_key >> count;
  bool sound = in && header == kHeader && uuid_key == "uuid" &&
               IsClusterUuid(cluster_uuid_) && shards_key == "shards" &&
               absl::SimpleAtoi(count, &shards_) && shards_ >= 1;
  std::string shard_key;
  std::string shard;
  if (sound && in >> shard_key) {
    sound = in >> shard && shard_key == "shard" &&
            absl::SimpleAtoi(shard, &shard_id_) && shard_id_ >= 0 &&
            shard_id_ < shards_;
  }
  if (sound) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(file, " is damaged: expected '", kHeader,
                   "', a uuid, a number of shards and, for one shard, which"));
}

absl::Status DataDir::CheckCluster(const DataDirRequest& request) const {
  const auto made_with = [this](const auto&... what) {
    return absl::FailedPreconditionError(
        absl::StrCat("data directory ", path_, " was made ", what...,
                     "; or choose another --data_dir"));
  };
  if (shard_id_ != request.shard_id) {
    const auto flags = [](int32_t id) {
      return id < 0 ? std::string("--role=all")
                    : absl::StrCat("--role=shard --shard_id=", id);
    };
    return made_with("with ", flags(shard_id_), ", not ",
                     flags(request.shard_id), "; correct the flags");
  }
  if (request.shards > 0 && request.shards != shards_) {
    return made_with(
        "with ", shards_, " shards, but ",
        request.shard_id < 0 ? "--local_shards=" : "--shards_total=",
        request.shards, "; correct the flag, or leave it out");
  }
  if (!request.cluster_uuid.empty() && request.cluster_uuid != cluster_uuid_) {
    return made_with("for cluster ", cluster_uuid_,
                     ", but the flags name cluster ", request.cluster_uuid,
                     "; correct --cluster or --cluster_uuid");
  }
  return absl::OkStatus();
}

}  // namespace coterie
