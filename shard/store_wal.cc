#include "shard/store_wal.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rocksdb/env.h"
#include "shard/crc32c.h"

namespace coterie {
namespace {

// Checksum, length, type.
constexpr size_t kHeaderBytes = 7;
constexpr size_t kTypeAt = 6;

// Of a record, or of the parts of one that spans blocks.
enum Type : uint8_t {
  kZeros = 0,
  kFull = 1,
  kFirst = 2,
  kMiddle = 3,
  kLast = 4
};

uint32_t Number(absl::string_view bytes, size_t size) {
  uint32_t number = 0;
  for (size_t i = 0; i < size; ++i) {
    number |= uint32_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  }
  return number;
}

uint8_t TypeOf(absl::string_view record) {
  return static_cast<uint8_t>(record[kTypeAt]);
}

bool IsPart(uint8_t type) { return type >= kFull && type <= kLast; }

// RocksDB stores checksums rotated and shifted, so that one of data that has
// checksums in it is sound.
uint32_t StoredChecksum(absl::string_view record) {
  const uint32_t rotated = Number(record, 4) - 0xa282ead8u;
  return rotated >> 17 | rotated << 15;
}

absl::Status Damage(int64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("at byte ", offset, ": ", what));
}

size_t FirstOther(absl::string_view bytes) {
  return static_cast<size_t>(std::find_if(bytes.begin(), bytes.end(),
                                          [](char byte) { return byte != 0; }) -
                             bytes.begin());
}

}  // namespace

absl::Status WalCheck::Add(absl::string_view block) {
  const int64_t offset = size_;
  size_ += static_cast<int64_t>(block.size());
  if (zeros_ < 0) return AddRecords(block, offset);
  const size_t other = FirstOther(block);
  if (other == block.size()) return absl::OkStatus();
  return Damage(zeros_, absl::StrCat("zeros where a record begins, but at ",
                                     offset + static_cast<int64_t>(other),
                                     " there is more"));
}

absl::Status WalCheck::AddRecords(absl::string_view block, int64_t offset) {
  size_t at = 0;
  while (block.size() - at >= kHeaderBytes) {
    const absl::string_view rest = block.substr(at);
    const int64_t here = offset + static_cast<int64_t>(at);
    const uint32_t length = Number(rest.substr(4), 2);
    const uint8_t type = TypeOf(rest);
    if (type == kZeros && length == 0) {
      zeros_ = here;
      size_ = here;
      return Add(rest);
    }
    if (type > kLast)
      return Damage(here, "a record of a type that is never written");
    if (type == kFull || type == kFirst) begin_ = here;
    whole_ = false;
    if (kHeaderBytes + length > rest.size()) return CheckCut(rest, here);
    if (Crc32c(rest.substr(kTypeAt, 1 + length)) != StoredChecksum(rest)) {
      return Damage(here, "a record that its checksum contradicts");
    }
    whole_ = type == kFull || type == kLast;
    at += kHeaderBytes + length;
  }
  if (at < block.size() && static_cast<int64_t>(block.size()) < kBlockBytes &&
      whole_) {
    begin_ = offset + static_cast<int64_t>(at);
    whole_ = false;
  }
  return absl::OkStatus();
}

// If the record is whole with another length than the one it says, and what
// comes then could be a record, the length is damaged, and nothing was cut.
absl::Status WalCheck::CheckCut(absl::string_view rest, int64_t offset) {
  const uint32_t stored = StoredChecksum(rest);
  uint32_t checksum = Crc32c(rest.substr(kTypeAt, 1));
  for (size_t end = kHeaderBytes;; ++end) {
    const absl::string_view next = rest.substr(end);
    if (checksum == stored &&
        (next.size() < kHeaderBytes || IsPart(TypeOf(next)))) {
      return Damage(offset, absl::StrCat("a record of ", end - kHeaderBytes,
                                         " bytes that says it has ",
                                         Number(rest.substr(4), 2)));
    }
    if (end == rest.size()) return absl::OkStatus();
    checksum = ExtendCrc32c(checksum, rest.substr(end, 1));
  }
}

namespace {

// How many bytes at its end were cut short.
absl::StatusOr<int64_t> CheckFile(rocksdb::Env* env, const std::string& path) {
  std::unique_ptr<rocksdb::SequentialFile> file;
  rocksdb::Status read =
      env->NewSequentialFile(path, &file, rocksdb::EnvOptions());
  std::string buffer(static_cast<size_t>(WalCheck::kBlockBytes), '\0');
  rocksdb::Slice block(buffer);
  WalCheck check;
  while (read.ok() && block.size() == buffer.size()) {
    read = file->Read(buffer.size(), &block, buffer.data());
    if (!read.ok()) break;
    const absl::Status status =
        check.Add(absl::string_view(block.data(), block.size()));
    if (!status.ok()) {
      return absl::DataLossError(
          absl::StrCat("log ", path, " is damaged ", status.message()));
    }
  }
  if (!read.ok()) {
    return absl::UnavailableError(
        absl::StrCat("log ", path, ": ", read.ToString()));
  }
  return check.torn_bytes();
}

// The manifest that counts; empty if that cannot be told: RocksDB will say why.
std::string ManifestName(rocksdb::Env* env, const std::string& folder) {
  std::string name;
  if (!rocksdb::ReadFileToString(env, folder + "/CURRENT", &name).ok()) {
    return "";
  }
  absl::StripTrailingAsciiWhitespace(&name);
  return env->FileExists(absl::StrCat(folder, "/", name)).ok() ? name : "";
}

}  // namespace

absl::StatusOr<std::string> CheckStoreLogs(rocksdb::Env* env,
                                           const std::string& folder) {
  std::vector<std::string> names;
  // A folder that is not there yet has none.
  if (!env->GetChildren(folder, &names).ok()) return std::string();
  std::sort(names.begin(), names.end());
  std::string torn;
  const std::string manifest = ManifestName(env, folder);
  for (const std::string& name : names) {
    if (name != manifest && !absl::EndsWith(name, ".log")) continue;
    const std::string path = absl::StrCat(folder, "/", name);
    const auto cut = CheckFile(env, path);
    if (!cut.ok()) return cut.status();
    if (*cut > 0 && name != manifest) {
      torn = absl::StrCat("the last ", *cut, " bytes of log ", path,
                          " were cut short, in a write that was never "
                          "acknowledged, and are left out");
    }
  }
  return torn;
}

}  // namespace coterie
