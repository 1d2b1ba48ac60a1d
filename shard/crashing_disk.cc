#include "shard/crashing_disk.h"

#include <filesystem>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace coterie {

namespace fs = std::filesystem;

class CrashingFile final : public NewFile {
 public:
  CrashingFile(CrashingDisk* disk, std::string path,
               std::unique_ptr<NewFile> file)
      : disk_(disk), path_(std::move(path)), file_(std::move(file)) {}

  absl::Status WriteAt(int64_t offset, absl::string_view bytes) override {
    const absl::Status status = disk_->Change();
    // Cut short where it crashed.
    const absl::Status written = file_->WriteAt(
        offset, status.ok() ? bytes : bytes.substr(0, bytes.size() / 2));
    return status.ok() ? written : status;
  }

  absl::Status Sync() override {
    const absl::Status status = disk_->Change();
    if (!status.ok()) return status;
    // The machine's own memory will do: it goes on.
    disk_->unsynced_.erase(path_);
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const FileMapping>> Map() override {
    return file_->Map();
  }

 private:
  CrashingDisk* const disk_;
  const std::string path_;
  const std::unique_ptr<NewFile> file_;
};

absl::Status CrashingDisk::Change() {
  ++changes_;
  if (left_ == 0) return absl::UnavailableError("the disk has crashed");
  if (left_ > 0 && --left_ == 0) {
    return absl::UnavailableError("the disk crashes now");
  }
  return absl::OkStatus();
}

void CrashingDisk::LosePower() {
  for (auto name = names_.rbegin(); name != names_.rend(); ++name) {
    const auto& [from, to] = *name;
    if (!fs::exists(to)) continue;
    if (from.empty()) {
      fs::remove(to);
    } else {
      fs::rename(to, from);
    }
  }
  names_.clear();
  for (const std::string& path : unsynced_) {
    if (!fs::exists(path)) continue;
    const auto size = fs::file_size(path);
    fs::resize_file(path, 0);
    fs::resize_file(path, size);
  }
  unsynced_.clear();
}

absl::Status CrashingDisk::MakeFolder(const std::string& path) {
  const absl::Status status = Change();
  return status.ok() ? Machine()->MakeFolder(path) : status;
}

absl::StatusOr<std::vector<std::string>> CrashingDisk::List(
    const std::string& folder) {
  return Machine()->List(folder);
}

absl::StatusOr<std::unique_ptr<NewFile>> CrashingDisk::Create(
    const std::string& path, int64_t bytes) {
  if (full_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make room for ", path));
  }
  const absl::Status status = Change();
  if (!status.ok()) return status;
  auto file = Machine()->Create(path, bytes);
  if (!file.ok()) return file;
  unsynced_.insert(path);
  names_.emplace_back("", path);
  return std::make_unique<CrashingFile>(this, path, *std::move(file));
}

absl::Status CrashingDisk::Rename(const std::string& from,
                                  const std::string& to) {
  const absl::Status status = Change();
  if (!status.ok()) return status;
  names_.emplace_back(from, to);
  if (unsynced_.erase(from) > 0) unsynced_.insert(to);
  return Machine()->Rename(from, to);
}

absl::Status CrashingDisk::Remove(const std::string& path) {
  const absl::Status status = Change();
  if (!status.ok()) return status;
  unsynced_.erase(path);
  return Machine()->Remove(path);
}

absl::Status CrashingDisk::SyncFolder(const std::string& /*path*/) {
  const absl::Status status = Change();
  if (!status.ok()) return status;
  names_.clear();
  return absl::OkStatus();
}

absl::Status CrashingDisk::Read(
    const std::string& path,
    absl::FunctionRef<absl::Status(absl::string_view)> piece) {
  return Machine()->Read(path, piece);
}

absl::StatusOr<std::shared_ptr<const FileMapping>> CrashingDisk::Map(
    const std::string& path) {
  return Machine()->Map(path);
}

}  // namespace coterie
