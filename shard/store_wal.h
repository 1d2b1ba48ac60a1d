// Damage to a store's write-ahead logs and to the manifest, which is a log too,
// found before RocksDB reads them, and named by file and byte.
//
// RocksDB ends a log, as if a crash had cut it there, at a header of zeros, at
// a record of a recycled log, and in the last block at a record that reaches
// beyond it, and drops what follows in silence. Each may be one damaged bit or
// sector, with acknowledged writes behind it. Whatever else is wrong fails a
// checksum. The format: RocksDB's db/log_format.h.

#ifndef COTERIE_SHARD_STORE_WAL_H_
#define COTERIE_SHARD_STORE_WAL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace coterie {

// One log, block by block. Not thread-safe. O(bytes).
class WalCheck {
 public:
  static constexpr int64_t kBlockBytes = 32768;

  // The next block; a shorter one, which may be empty, is the last. DATA_LOSS
  // naming the place. REQUIRES: the last one was of kBlockBytes.
  absl::Status Add(absl::string_view block);

  // After the last block: how many bytes at its end are of a record that was
  // cut short.
  int64_t torn_bytes() const { return whole_ ? 0 : size_ - begin_; }

 private:
  absl::Status AddRecords(absl::string_view block, int64_t offset);
  // In a log's last block, a record that reaches beyond it.
  absl::Status CheckCut(absl::string_view rest, int64_t offset);

  int64_t size_ = 0;
  int64_t begin_ = 0;   // of the record that was met last
  bool whole_ = true;   // it is
  int64_t zeros_ = -1;  // from here on there may be nothing else
};

// Checks the logs of the store in `folder`, and its manifest. DATA_LOSS naming
// file and place; UNAVAILABLE naming the file if it cannot be read. What was
// cut at the end of a write-ahead log, in words; empty if nothing was.
absl::StatusOr<std::string> CheckStoreLogs(rocksdb::Env* env,
                                           const std::string& folder);

}  // namespace coterie

#endif  // COTERIE_SHARD_STORE_WAL_H_
