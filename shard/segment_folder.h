// The folder of a shard's segment files and manifests.
//
// Used by one thread at a time. Nothing here is the truth: whatever is missing
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
#include "absl/types/span.h"
#include "shard/record_codec.h"
#include "shard/segment_disk.h"
#include "shard/segment_file.h"
#include "shard/segment_manifest.h"

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

  // --- Later ---

  // As WriteSegmentFile, under a number of its own.
  absl::StatusOr<std::shared_ptr<const SegmentFile>> WriteSegment(
      uint32_t collection, const RowShape& shape,
      absl::Span<const SegmentRow> rows, absl::FunctionRef<bool()> stop);
  // Gives the manifest owner and number, and writes it; it counts once the
  // record store has the pointer.
  absl::StatusOr<ManifestPointer> WriteManifest(SegmentManifest* manifest);
  // Removes all files but those of these names.
  absl::Status RemoveAllBut(const absl::flat_hash_set<std::string>& names);

 private:
  // Makes the folder and finds a number that no file has had.
  absl::Status Prepare();
  // Of a file that could not be finished.
  void RemoveDraft(const std::string& name);

  SegmentDisk* const disk_;
  const std::string shard_path_;
  const std::string path_;
  const ShardIdentity owner_;
  int64_t next_number_ = 1;
  bool prepared_ = false;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_FOLDER_H_
