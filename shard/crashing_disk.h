// A disk for segment files, in tests, that stops in the middle of what it is
// asked, as it looks to a process that is killed or a machine that loses its
// power; and one that is full.
//
// Used by one thread at a time. Files lie on the machine's disk.

#ifndef COTERIE_SHARD_CRASHING_DISK_H_
#define COTERIE_SHARD_CRASHING_DISK_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/segment_disk.h"

namespace coterie {

class CrashingDisk final : public SegmentDisk {
 public:
  // The next `changes` changes happen; the one after them only half, if it is a
  // write; then nothing works. Negative: everything works.
  void CrashAfter(int64_t changes) { left_ = changes; }
  bool crashed() const { return left_ == 0; }
  // Undoes what was not synced: content of files, and names in the folder.
  void LosePower();
  // Whether creating files fails for want of room.
  void SetFull(bool full) { full_ = full; }
  int64_t changes() const { return changes_; }

  absl::Status MakeFolder(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override;
  absl::StatusOr<std::unique_ptr<NewFile>> Create(const std::string& path,
                                                  int64_t bytes) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status SyncFolder(const std::string& path) override;
  absl::Status Read(
      const std::string& path,
      absl::FunctionRef<absl::Status(absl::string_view)> piece) override;
  absl::StatusOr<std::shared_ptr<const FileMapping>> Map(
      const std::string& path) override;

 private:
  friend class CrashingFile;

  // Whether a change still happens.
  absl::Status Change();

  int64_t left_ = -1;
  bool full_ = false;
  int64_t changes_ = 0;
  std::set<std::string> unsynced_;  // files whose content may be lost
  // Names since the last sync of a folder, newest last: from (empty: made), to.
  std::vector<std::pair<std::string, std::string>> names_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_CRASHING_DISK_H_
