#include "shard/faulty_disk.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "shard/store_medium.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

namespace fs = std::filesystem;

using rocksdb::DirFsyncOptions;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

std::string FolderOf(const std::string& path) {
  return fs::path(path).lexically_normal().parent_path().string();
}

std::string Normal(const std::string& path) {
  std::string normal = fs::path(path).lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

std::string ContentOf(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// What the disk has in its cache and not yet on its platter.
class Cache {
 public:
  // Why a write cannot be done.
  IOStatus MayWrite() {
    MutexLock lock(&mu_);
    return Power();
  }

  IOStatus Append(const std::string& path, int64_t bytes) {
    MutexLock lock(&mu_);
    const IOStatus status = Power();
    if (!status.ok()) return status;
    if (room_ >= 0 && bytes > room_) {
      return IOStatus::NoSpace("no space left on the faulty disk");
    }
    if (room_ >= 0) room_ -= bytes;
    files_[path].written += bytes;
    return IOStatus::OK();
  }

  void Created(const std::string& path) {
    MutexLock lock(&mu_);
    files_[path] = {};
    unlinked_[FolderOf(path)].emplace(path, std::nullopt);
  }

  void Synced(const std::string& path) {
    MutexLock lock(&mu_);
    File& file = files_[path];
    file.synced = file.written;
  }

  void Truncated(const std::string& path, int64_t size) {
    MutexLock lock(&mu_);
    File& file = files_[path];
    file.written = size;
    file.synced = std::min(file.synced, size);
  }

  // `replaced`: what lay at `to`.
  void Renamed(const std::string& from, const std::string& to,
               std::optional<std::string> replaced) {
    MutexLock lock(&mu_);
    files_[to] = files_[from];
    files_.erase(from);
    unlinked_[FolderOf(from)].erase(from);
    unlinked_[FolderOf(to)].emplace(to, std::move(replaced));
  }

  void Removed(const std::string& path) {
    MutexLock lock(&mu_);
    files_.erase(path);
    unlinked_[FolderOf(path)].erase(path);
  }

  void FolderSynced(const std::string& folder) {
    MutexLock lock(&mu_);
    unlinked_.erase(folder);
  }

  void CutPower() {
    MutexLock lock(&mu_);
    cut_ = true;
  }

  void SetRoom(int64_t bytes) {
    MutexLock lock(&mu_);
    room_ = bytes;
  }

  int64_t DropUnsynced(int64_t keep) {
    MutexLock lock(&mu_);
    int64_t lost = 0;
    std::error_code ignored;
    for (const auto& [path, file] : files_) {
      const int64_t kept = std::min(file.written, file.synced + keep);
      if (kept == file.written) continue;
      lost += file.written - kept;
      fs::resize_file(path, static_cast<uintmax_t>(kept), ignored);
    }
    for (const auto& [folder, entries] : unlinked_) {
      for (const auto& [path, before] : entries) {
        if (before.has_value()) {
          std::ofstream(path, std::ios::binary) << *before;
        } else {
          fs::remove(path, ignored);
        }
      }
    }
    return lost;
  }

 private:
  struct File {
    int64_t written = 0;
    int64_t synced = 0;
  };

  IOStatus Power() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return cut_ ? IOStatus::IOError("the power is cut") : IOStatus::OK();
  }

  Mutex mu_;
  bool cut_ ABSL_GUARDED_BY(mu_) = false;
  int64_t room_ ABSL_GUARDED_BY(mu_) = -1;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(mu_);
  // By folder: names that a sync of the folder would make lasting, with what
  // the name stood for before.
  std::map<std::string, std::map<std::string, std::optional<std::string>>>
      unlinked_ ABSL_GUARDED_BY(mu_);
};

class CachedFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  CachedFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string path,
             Cache* cache)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        cache_(cache) {}

  using FSWritableFileOwnerWrapper::Append;
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    const IOStatus status = Charge(data);
    return status.ok() ? target()->Append(data, options, debug) : status;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info,
                  IODebugContext* debug) override {
    const IOStatus status = Charge(data);
    return status.ok() ? target()->Append(data, options, info, debug) : status;
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options,
                    IODebugContext* debug) override {
    IOStatus status = cache_->MayWrite();
    if (status.ok()) status = target()->Truncate(size, options, debug);
    if (status.ok()) cache_->Truncated(path_, static_cast<int64_t>(size));
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = cache_->MayWrite();
    // The machine's own memory will do: it goes on.
    if (status.ok()) status = target()->Flush(options, debug);
    if (status.ok()) cache_->Synced(path_);
    return status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  // May or may not reach the platter: not to be relied on.
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&,
                     IODebugContext*) override {
    return cache_->MayWrite();
  }

 private:
  IOStatus Charge(const rocksdb::Slice& data) {
    return cache_->Append(path_, static_cast<int64_t>(data.size()));
  }

  const std::string path_;
  Cache* const cache_;
};

class CachedFolder final : public rocksdb::FSDirectoryWrapper {
 public:
  CachedFolder(std::unique_ptr<rocksdb::FSDirectory> folder, std::string path,
               Cache* cache)
      : FSDirectoryWrapper(std::move(folder)),
        path_(std::move(path)),
        cache_(cache) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    const IOStatus status = cache_->MayWrite();
    if (status.ok()) cache_->FolderSynced(path_);
    return status;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  const std::string path_;
  Cache* const cache_;
};

class CachedFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit CachedFileSystem(Cache* cache)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), cache_(cache) {}

  const char* Name() const override { return "FaultyDisk"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    IOStatus status = cache_->MayWrite();
    if (status.ok()) {
      status = target()->NewWritableFile(path, options, file, debug);
    }
    if (!status.ok()) return status;
    const std::string normal = Normal(path);
    cache_->Created(normal);
    *file = std::make_unique<CachedFile>(std::move(*file), normal, cache_);
    return status;
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* folder,
                        IODebugContext* debug) override {
    IOStatus status = target()->NewDirectory(path, options, folder, debug);
    if (!status.ok()) return status;
    *folder = std::make_unique<CachedFolder>(std::move(*folder), Normal(path),
                                             cache_);
    return status;
  }

  IOStatus RenameFile(const std::string& from, const std::string& to,
                      const IOOptions& options,
                      IODebugContext* debug) override {
    IOStatus status = cache_->MayWrite();
    if (!status.ok()) return status;
    std::optional<std::string> replaced;
    if (fs::exists(to)) replaced = ContentOf(to);
    status = target()->RenameFile(from, to, options, debug);
    if (status.ok()) {
      cache_->Renamed(Normal(from), Normal(to), std::move(replaced));
    }
    return status;
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    IOStatus status = cache_->MayWrite();
    if (status.ok()) status = target()->DeleteFile(path, options, debug);
    if (status.ok()) cache_->Removed(Normal(path));
    return status;
  }

  // The machine's would write past the cache.
  IOStatus NewLogger(const std::string& path, const IOOptions& options,
                     std::shared_ptr<rocksdb::Logger>* logger,
                     IODebugContext* debug) override {
    return FileSystem::NewLogger(path, options, logger, debug);
  }

  // Nothing here uses them; they would go past the cache.
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>*,
                              IODebugContext*) override {
    return IOStatus::NotSupported("reopen " + path);
  }
  IOStatus ReuseWritableFile(const std::string& path, const std::string&,
                             const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*,
                             IODebugContext*) override {
    return IOStatus::NotSupported("reuse " + path);
  }
  IOStatus NewRandomRWFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<rocksdb::FSRandomRWFile>*,
                           IODebugContext*) override {
    return IOStatus::NotSupported("write in " + path);
  }

 private:
  Cache* const cache_;
};

}  // namespace

class FaultyDisk::Impl {
 public:
  Impl()
      : env_(rocksdb::NewCompositeEnv(
            std::make_shared<CachedFileSystem>(&cache_))) {}

  Cache cache_;
  const std::unique_ptr<rocksdb::Env> env_;
};

FaultyDisk::FaultyDisk() : impl_(std::make_unique<Impl>()) {}
FaultyDisk::~FaultyDisk() = default;

StoreOpener FaultyDisk::Opener(bool sync) {
  return [env = impl_->env_.get(), sync](absl::string_view path) {
    StoreMedium medium;
    medium.env = env;
    medium.sync = sync;
    return OpenRecordStoreOn(medium, path);
  };
}

void FaultyDisk::CutPower() { impl_->cache_.CutPower(); }

int64_t FaultyDisk::DropUnsynced(int64_t keep) {
  return impl_->cache_.DropUnsynced(keep);
}

void FaultyDisk::SetRoom(int64_t bytes) { impl_->cache_.SetRoom(bytes); }

}  // namespace coterie
