// The data directory of one process: whose it is, and that nobody else has it.
//
// Layout: LOCK (held while open), CLUSTER (uuid and number of shards, text),
// shard-0000/ ... (one RocksDB each). Not thread-safe; opened once at start.

#ifndef COTERIE_SERVER_DATA_DIR_H_
#define COTERIE_SERVER_DATA_DIR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace coterie {

class DataDir {
 public:
  // Creates the directory on first use, takes its lock and reads or writes
  // CLUSTER. `shards` 0 means: as stored, or `default_shards` when new.
  // FAILED_PRECONDITION: another process holds the lock, or the directory was
  // made with another number of shards. DATA_LOSS: CLUSTER is unreadable
  // while shard folders exist. PERMISSION_DENIED and others as the system says.
  static absl::StatusOr<DataDir> Open(const std::string& path, int32_t shards,
                                      int32_t default_shards);

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
  absl::Status ReadOrCreateCluster(int32_t shards, int32_t default_shards);

  std::string path_;
  int lock_fd_;
  std::string cluster_uuid_;
  int32_t shards_ = 0;
};

}  // namespace coterie

#endif  // COTERIE_SERVER_DATA_DIR_H_
