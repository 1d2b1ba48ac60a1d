#include "shard/segment_folder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace coterie {
namespace {

// A manifest is small beside the rows it speaks of; what is larger is none.
constexpr size_t kMostManifestBytes = size_t{1} << 30;

// The number that a file's name begins with.
std::optional<int64_t> NumberOf(absl::string_view name) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(name.substr(0, name.find('.')), &number) ||
      number >= (int64_t{1} << 60)) {
    return std::nullopt;
  }
  return number;
}

}  // namespace

SegmentFolder::SegmentFolder(SegmentDisk* disk, const std::string& shard_path,
                             const ShardIdentity& owner)
    : disk_(disk != nullptr ? disk : SegmentDisk::Machine()),
      shard_path_(shard_path),
      path_(absl::StrCat(shard_path, "/segments")),
      owner_([&] {
        ShardIdentity identity = owner;
        identity.incarnation = 0;
        return identity;
      }()) {}

absl::StatusOr<SegmentManifest> SegmentFolder::ReadManifest(
    const ManifestPointer& pointer) {
  {
    // Its number is taken, even if its file is gone.
    MutexLock lock(&numbers_->mutex);
    numbers_->next = std::max(numbers_->next, pointer.number + 1);
  }
  const std::string path =
      absl::StrCat(path_, "/", ManifestFileName(pointer.number));
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path, ": ", what));
  };
  std::string bytes;
  const absl::Status read = disk_->Read(path, [&](absl::string_view piece) {
    bytes.append(piece.data(), piece.size());
    return bytes.size() <= kMostManifestBytes
               ? absl::OkStatus()
               : damaged("it is too large for a manifest");
  });
  if (!read.ok()) return read;
  auto manifest = DecodeManifest(bytes);
  if (!manifest.ok()) return damaged(manifest.status().message());
  if (static_cast<int64_t>(bytes.size()) != pointer.bytes ||
      ManifestChecksum(bytes) != pointer.checksum) {
    return damaged("it is not the one that the store names");
  }
  if (manifest->owner != owner_ || manifest->number != pointer.number) {
    return damaged("it is another shard's");
  }
  return manifest;
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> SegmentFolder::OpenSegment(
    uint32_t collection, const RowShape& shape,
    const ManifestSegment& segment) {
  auto file =
      SegmentFile::Open(disk_, path_, {owner_, collection, segment.number});
  if (!file.ok()) return file;
  const SegmentHeader& header = (*file)->header();
  if ((*file)->checksum() != segment.checksum || header.shape != shape ||
      header.rows != segment.rows) {
    return absl::DataLossError(
        absl::StrCat(path_, "/", SegmentFileName(segment.number),
                     ": it is not the file that the manifest names"));
  }
  return file;
}

absl::Status SegmentFolder::Prepare() const {
  if (numbers_->prepared) return absl::OkStatus();
  absl::Status status = disk_->MakeFolder(path_);
  if (status.ok()) status = disk_->SyncFolder(shard_path_);
  if (!status.ok()) return status;
  const auto names = disk_->List(path_);
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::optional<int64_t> number = NumberOf(name);
    if (number.has_value()) {
      numbers_->next = std::max(numbers_->next, *number + 1);
    }
  }
  numbers_->prepared = true;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SegmentFolder::TakeNumber(bool hold) {
  MutexLock lock(&numbers_->mutex);
  const absl::Status status = Prepare();
  if (!status.ok()) return status;
  const int64_t number = numbers_->next++;
  if (hold) numbers_->held.insert(number);
  return number;
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> SegmentFolder::Write(
    int64_t number, uint32_t collection, const RowShape& shape,
    absl::Span<const SegmentRow> rows, absl::FunctionRef<bool()> stop) {
  auto file = WriteSegmentFile(disk_, path_, {owner_, collection, number},
                               shape, rows, stop);
  if (!file.ok()) RemoveDraft(SegmentFileName(number));
  return file;
}

absl::StatusOr<std::shared_ptr<const SegmentFile>> SegmentFolder::WriteSegment(
    uint32_t collection, const RowShape& shape,
    absl::Span<const SegmentRow> rows, absl::FunctionRef<bool()> stop) {
  const auto number = TakeNumber(/*hold=*/false);
  if (!number.ok()) return number.status();
  return Write(*number, collection, shape, rows, stop);
}

absl::StatusOr<std::shared_ptr<const SegmentFile>>
SegmentFolder::WriteHeldSegment(uint32_t collection, const RowShape& shape,
                                absl::Span<const SegmentRow> rows,
                                absl::FunctionRef<bool()> stop) {
  const auto number = TakeNumber(/*hold=*/true);
  if (!number.ok()) return number.status();
  auto file = Write(*number, collection, shape, rows, stop);
  if (!file.ok()) {
    MutexLock lock(&numbers_->mutex);
    numbers_->held.erase(*number);
  }
  return file;
}

void SegmentFolder::Release(const SegmentFile& segment) {
  MutexLock lock(&numbers_->mutex);
  numbers_->held.erase(segment.header().name.number);
}

bool SegmentFolder::holds() const {
  MutexLock lock(&numbers_->mutex);
  return !numbers_->held.empty();
}

absl::StatusOr<std::shared_ptr<SegmentIndex>> SegmentFolder::OpenIndex(
    const SegmentFile& segment, IndexKind kind) {
  const SegmentHeader& header = segment.header();
  return ReadIndexFile(disk_, path_, {header.name, segment.checksum(), kind},
                       header.shape, header.rows);
}

absl::Status SegmentFolder::WriteIndex(const SegmentFile& segment,
                                       const SegmentIndex& index) {
  const SegmentName& name = segment.header().name;
  const absl::Status status = WriteIndexFile(
      disk_, path_, {name, segment.checksum(), index.kind()}, index);
  if (!status.ok()) RemoveDraft(IndexFileName(name.number, index.kind()));
  return status;
}

void SegmentFolder::RemoveIndex(const SegmentFile& segment, IndexKind kind) {
  const std::string name = IndexFileName(segment.header().name.number, kind);
  disk_->Remove(absl::StrCat(path_, "/", name)).IgnoreError();
}

void SegmentFolder::RemoveDraft(const std::string& name) {
  // Of a full disk, room is wanted at once; what stays goes with later files.
  disk_->Remove(absl::StrCat(path_, "/", name, ".tmp")).IgnoreError();
}

absl::StatusOr<ManifestPointer> SegmentFolder::WriteManifest(
    SegmentManifest* manifest) {
  const auto number = TakeNumber(/*hold=*/false);
  if (!number.ok()) return number.status();
  manifest->owner = owner_;
  manifest->number = *number;
  const std::string bytes = EncodeManifest(*manifest);
  const std::string path =
      absl::StrCat(path_, "/", ManifestFileName(manifest->number));
  const std::string draft = absl::StrCat(path, ".tmp");
  const auto size = static_cast<int64_t>(bytes.size());
  auto file = disk_->Create(draft, size);
  absl::Status status = file.status();
  if (status.ok()) status = (*file)->WriteAt(0, bytes);
  if (status.ok()) status = (*file)->Sync();
  if (status.ok()) status = disk_->Rename(draft, path);
  if (status.ok()) status = disk_->SyncFolder(path_);
  if (!status.ok()) {
    RemoveDraft(ManifestFileName(manifest->number));
    return status;
  }
  return ManifestPointer{manifest->number, size, ManifestChecksum(bytes)};
}

absl::Status SegmentFolder::RemoveAllBut(
    absl::FunctionRef<absl::flat_hash_set<std::string>()> used) {
  // In this order: a file that is listed and not held then was finished before,
  // or is nobody's.
  const auto present = disk_->List(path_);
  if (absl::IsNotFound(present.status())) return absl::OkStatus();
  if (!present.ok()) return present.status();
  absl::flat_hash_set<int64_t> held;
  {
    MutexLock lock(&numbers_->mutex);
    held = numbers_->held;
  }
  const absl::flat_hash_set<std::string> names = used();
  absl::Status first;
  for (const std::string& name : *present) {
    const std::optional<int64_t> number = NumberOf(name);
    if (names.contains(name) ||
        (number.has_value() && held.contains(*number))) {
      continue;
    }
    const absl::Status status = disk_->Remove(absl::StrCat(path_, "/", name));
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace coterie
