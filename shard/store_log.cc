#include "shard/store_log.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rocksdb/status.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 20;
constexpr size_t kMostLine = 2048;

class StoreLog final : public rocksdb::Logger {
 public:
  StoreLog(rocksdb::Env* env, std::string path)
      : Logger(rocksdb::InfoLogLevel::WARN_LEVEL),
        env_(env),
        path_(std::move(path)) {}

  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char text[kMostLine];
    if (std::vsnprintf(text, sizeof(text), format, arguments) < 0) return;
    const std::string line = absl::StrCat(
        absl::FormatTime(absl::Now(), absl::UTCTimeZone()), " ", text, "\n");
    MutexLock lock(&mutex_);
    if (file_ == nullptr || bytes_ > kMostBytes) Begin();
    if (file_ == nullptr) return;
    bytes_ += static_cast<int64_t>(line.size());
    file_->Append(line).PermitUncheckedError();
  }

 private:
  // Leaves no file if there is no room for one.
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    file_ = nullptr;
    bytes_ = 0;
    // There may be none.
    env_->RenameFile(path_, path_ + ".old").PermitUncheckedError();
    env_->NewWritableFile(path_, &file_, rocksdb::EnvOptions())
        .PermitUncheckedError();
  }

  rocksdb::Env* const env_;
  const std::string path_;
  Mutex mutex_;
  std::unique_ptr<rocksdb::WritableFile> file_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeStoreLog(rocksdb::Env* env,
                                              const std::string& folder) {
  return std::make_shared<StoreLog>(env, folder + "/LOG");
}

}  // namespace coterie
