// The data directory of one process: whose it is, and that nobody else has it.
//
// Layout: LOCK (held while open), CLUSTER (uuid, number of shards and, if only
// one of them is here, which; text), shard-0000/ ... (one RocksDB each). Not
// thread-safe; opened once at start.

#ifndef COTERIE_SERVER_DATA_DIR_H_
#define COTERIE_SERVER_DATA_DIR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coterie {

// What a process expects of its data directory.
struct DataDirRequest {
  // 0: as stored, or `default_shards` when new.
  int32_t shards = 0;
  int32_t default_shards = 1;
  // The one shard kept here; -1: all of them.
  int32_t shard_id = -1;
  // Empty: as stored, or a random one when new and all shards are here.
  std::string cluster_uuid;
};

class DataDir {
 public:
  // Creates the directory on first use, takes its lock and reads or writes
  // CLUSTER. ABORTED: another process holds the lock, at present.
  // FAILED_PRECONDITION: the directory was made for another cluster, shard or
  // number of shards, or it is new, for one shard, and no uuid is given.
  // DATA_LOSS: CLUSTER is unreadable while shard folders exist.
  // PERMISSION_DENIED and others as the system says.
  static absl::StatusOr<DataDir> Open(const std::string& path,
                                      const DataDirRequest& request);

  DataDir(DataDir&& other) noexcept;
  DataDir& operator=(DataDir&&) = delete;
  DataDir(const DataDir&) = delete;
  // Gives the lock back.
  ~DataDir();

  const std::string& cluster_uuid() const { return cluster_uuid_; }
  int32_t shards() const { return shards_; }
  std::string ShardPath(int32_t shard_id) const;

 private:
  DataDir(std::string path, int lock_fd)
      : path_(std::move(path)), lock_fd_(lock_fd) {}
  absl::Status ReadOrCreateCluster(const DataDirRequest& request);
  absl::Status CreateCluster(const std::string& file,
                             const DataDirRequest& request);
  absl::Status ReadCluster(const std::string& file);
  absl::Status CheckCluster(const DataDirRequest& request) const;

  std::string path_;
  int lock_fd_;
  std::string cluster_uuid_;
  int32_t shards_ = 0;
  int32_t shard_id_ = -1;
};

}  // namespace coterie

#endif  // COTERIE_SERVER_DATA_DIR_H_
