// Keeps a shard's rows in few segments, and these in files: seals frozen tails,
// merges, writes manifests and removes files that no longer count, on a thread
// of its own.
//
// Start and Stop by one thread; counts from any.
//
// The order of what reaches the disk, so that a crash between any two steps
// costs nothing: segment files; the manifest that names them; in one batch of
// the record store the pointer to the manifest and the removal of log records
// that it makes dispensable; removal of files that it does not name.
//
// If files cannot be written, rows stay in memory, in sealed segments as
// before; the cause is reported and the attempt repeated after 1 s, 2 s, ... 60
// s. If the record store fails, the keeper rests: so do writes.

#ifndef COTERIE_SHARD_SEGMENT_KEEPER_H_
#define COTERIE_SHARD_SEGMENT_KEEPER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "shard/partition.h"
#include "shard/segment.h"
#include "shard/segment_manifest.h"
#include "sync/mutex.h"

namespace coterie {

// Writes a line "shard N: ..." to stderr.
std::function<void(absl::string_view)> WarnOnStderr(int32_t shard_id);

class SegmentKeeper {
 public:
  // `warn` (null: stderr) is told of what the partition's start has cut off or
  // refused, and once of each failure that is not the last one's repetition.
  // The partition outlives the keeper, and nothing is written to it before
  // Start.
  SegmentKeeper(Partition* partition,
                std::function<void(absl::string_view)> warn);
  // Stop().
  ~SegmentKeeper();

  void Start();
  // Ends soon, leaving work for the next start. Idempotent.
  void Stop();

  // Does all that there is to do, on the caller's thread. REQUIRES: not
  // started.
  void WorkNow();

  // That the manifest which counts names.
  int64_t files() const { return files_.load(); }
  // Attempts to write files that failed.
  int64_t failures() const { return failures_.load(); }
  // Why files cannot be written; empty while they can.
  std::string trouble() const;

 private:
  using Clock = std::chrono::steady_clock;

  void Loop();
  bool stopping() const { return stopping_.load(); }
  // Merges until nothing is left, then saves. With `files`, into files.
  void Work(bool files);
  // Whether files could be written, if asked.
  bool DoMerge(const Partition::Merge& merge, bool files);
  // The merged segment; in memory if a file was not asked for or failed.
  absl::StatusOr<std::shared_ptr<Segment>> Merged(const Partition::Merge& merge,
                                                  bool files);
  // Makes the manifest say what the segments hold now.
  absl::Status Save();
  // Of the segments that are all in files; of others what was saved last.
  SegmentManifest Describe(const Partition::Coverage& coverage) const;
  // Takes it for the one that counts.
  void SetSaved(SegmentManifest manifest);
  StoreBatch Commit(const SegmentManifest& next, const ManifestPointer& pointer,
                    const Partition::Coverage& coverage);
  // Of the manifest that counts, and of what the segments are in now.
  absl::flat_hash_set<std::string> UsedNames() const;
  absl::Status RemoveUnused();
  void Note(const absl::Status& status);

  Partition* const partition_;
  const std::function<void(absl::string_view)> warn_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> files_{0};
  std::atomic<int64_t> failures_{0};

  // Of the keeper's thread.
  SegmentManifest saved_;  // the manifest that counts
  bool must_save_;         // what counts was refused at start
  bool tidied_ = false;    // since the start
  bool store_failed_ = false;
  // By collection and slot: up to where log records were removed.
  absl::flat_hash_map<uint32_t, std::vector<int64_t>> trimmed_;
  absl::Status round_;  // the first failure of this round of work
  Clock::duration pause_{};
  Clock::time_point retry_at_{};

  mutable Mutex mutex_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = true;
  std::string trouble_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_KEEPER_H_
