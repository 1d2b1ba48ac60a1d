// The folder of a shard's segment files and manifests.
//
// Used by one thread at a time, but for what is said to be for another as well.
// Nothing here is the truth: whatever is missing
// or damaged is made again from the record store. A file that a manifest names
// is removed only when a later manifest, which does not, counts.

#ifndef COTERIE_SHARD_SEGMENT_FOLDER_H_
#define COTERIE_SHARD_SEGMENT_FOLDER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "shard/record_codec.h"
#include "shard/segment_disk.h"
#include "shard/segment_file.h"
#include "shard/segment_index.h"
#include "shard/segment_manifest.h"
#include "sync/mutex.h"

namespace coterie {

class SegmentFolder {
 public:
  // Of the shard whose record store lies in `shard_path`; the folder is
  // "segments" in it. A null disk is the machine's, others outlive it.
  SegmentFolder(SegmentDisk* disk, const std::string& shard_path,
                const ShardIdentity& owner);

  const std::string& path() const { return path_; }

  // --- At start ---

  // The manifest that `pointer` names. DATA_LOSS naming the file if it is
  // damaged or another one.
  absl::StatusOr<SegmentManifest> ReadManifest(const ManifestPointer& pointer);
  // A segment that a manifest names. DATA_LOSS naming the file likewise.
  absl::StatusOr<std::shared_ptr<const SegmentFile>> OpenSegment(
      uint32_t collection, const RowShape& shape,
      const ManifestSegment& segment);

  // The structure of this kind over a segment of the folder. NOT_FOUND if there
  // is none, DATA_LOSS naming the file if it is damaged.
  absl::StatusOr<std::shared_ptr<SegmentIndex>> OpenIndex(
      const SegmentFile& segment, IndexKind kind);

  // --- Later ---

  // As WriteSegmentFile, under a number of its own.
  absl::StatusOr<std::shared_ptr<const SegmentFile>> WriteSegment(
      uint32_t collection, const RowShape& shape,
      absl::Span<const SegmentRow> rows, absl::FunctionRef<bool()> stop);
  // The same from a second thread. The file, finished or not, is left alone by
  // RemoveAllBut until it is released; an error releases it.
  absl::StatusOr<std::shared_ptr<const SegmentFile>> WriteHeldSegment(
      uint32_t collection, const RowShape& shape,
      absl::Span<const SegmentRow> rows, absl::FunctionRef<bool()> stop);
  void Release(const SegmentFile& segment);
  // Whether any is held. Any thread.
  bool holds() const;
  // As WriteIndexFile, from the second thread.
  absl::Status WriteIndex(const SegmentFile& segment,
                          const SegmentIndex& index);
  // Likewise, removes such a file of a segment that counts no more.
  void RemoveIndex(const SegmentFile& segment, IndexKind kind);
  // Gives the manifest owner and number, and writes it; it counts once the
  // record store has the pointer.
  absl::StatusOr<ManifestPointer> WriteManifest(SegmentManifest* manifest);
  // Removes all files but those that are held and those of the names that
  // `used` gives. It is asked after it was seen what is held: what is released
  // since is for it to name.
  absl::Status RemoveAllBut(
      absl::FunctionRef<absl::flat_hash_set<std::string>()> used);

 private:
  // What two threads use.
  struct Numbers {
    Mutex mutex;
    int64_t next ABSL_GUARDED_BY(mutex) = 1;
    bool prepared ABSL_GUARDED_BY(mutex) = false;
    absl::flat_hash_set<int64_t> held ABSL_GUARDED_BY(mutex);
  };

  // A number that no file has had; makes the folder at first.
  absl::StatusOr<int64_t> TakeNumber(bool hold);
  absl::Status Prepare() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(numbers_->mutex);
  absl::StatusOr<std::shared_ptr<const SegmentFile>> Write(
      int64_t number, uint32_t collection, const RowShape& shape,
      absl::Span<const SegmentRow> rows, absl::FunctionRef<bool()> stop);
  // Of a file that could not be finished.
  void RemoveDraft(const std::string& name);

  SegmentDisk* const disk_;
  const std::string shard_path_;
  const std::string path_;
  const ShardIdentity owner_;
  std::unique_ptr<Numbers> numbers_ = std::make_unique<Numbers>();
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_FOLDER_H_
