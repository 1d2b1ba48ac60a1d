#include "client/import_checkpoint.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <random>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/rows/atomic_file.h"
#include "client/rows/input_file.h"
#include "client/rows/line_reader.h"

namespace coterie {
namespace {

constexpr char kFirstLine[] = "coterie import checkpoint 1";
constexpr char kLastLine[] = "end";
// Of the keys of `identity`.
constexpr char kIdentityPrefix[] = "of ";
constexpr int64_t kMaxLineBytes = 64 << 10;
constexpr int64_t kHashedBytes = 64 << 10;
constexpr absl::Duration kInterval = absl::Milliseconds(250);

// FNV-1a, 64 bits.
uint64_t Hash(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

std::string Line(absl::string_view key, absl::string_view value) {
  return absl::StrCat(key, ": ", absl::CHexEscape(value), "\n");
}

absl::Status NoCheckpoint(const std::string& where) {
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": not a checkpoint of coterie import; remove it to start over"));
}

// One line behind the first; false if it is not as it should be.
bool ParseLine(absl::string_view line, ImportCheckpoint* checkpoint) {
  const size_t colon = line.find(": ");
  if (colon == absl::string_view::npos) return false;
  absl::string_view key = line.substr(0, colon);
  std::string value;
  if (!absl::CUnescape(line.substr(colon + 2), &value)) return false;
  if (absl::ConsumePrefix(&key, kIdentityPrefix)) {
    checkpoint->identity.emplace_back(key, value);
    return true;
  }
  if (key == "client_id") {
    checkpoint->client_id = value;
    return !value.empty() && value.size() <= 60;
  }
  int64_t number = 0;
  if (!absl::SimpleAtoi(value, &number) || number < 0) return false;
  if (key == "batch_rows") {
    checkpoint->batch_rows = number;
    return number >= 1;
  }
  if (key == "in_flight") {
    checkpoint->in_flight = number;
    return number >= 1;
  }
  if (key != "acknowledged_rows") return false;
  checkpoint->acknowledged_rows = number;
  return true;
}

}  // namespace

std::string NewClientId() {
  std::random_device random;
  std::string id = "import-";
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  }
  return id;
}

absl::StatusOr<std::string> IdentifyFile(const std::string& path) {
  absl::StatusOr<InputFile> file = OpenInputFile(path);
  if (!file.ok()) return file.status();
  std::string start(std::min(file->bytes, kHashedBytes), '\0');
  file->stream->read(start.data(), static_cast<std::streamsize>(start.size()));
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(path, error);
  if (error ||
      file->stream->gcount() != static_cast<std::streamsize>(start.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be read to its end"));
  }
  return absl::StrCat(
      file->bytes, " bytes, changed ",
      std::chrono::nanoseconds(changed.time_since_epoch()).count(), ", begins ",
      absl::Hex(Hash(start), absl::kZeroPad16));
}

absl::Status WriteCheckpoint(const std::string& path,
                             const ImportCheckpoint& checkpoint) {
  std::string text = absl::StrCat(kFirstLine, "\n");
  absl::StrAppend(
      &text, Line("client_id", checkpoint.client_id),
      Line("batch_rows", absl::StrCat(checkpoint.batch_rows)),
      Line("in_flight", absl::StrCat(checkpoint.in_flight)),
      Line("acknowledged_rows", absl::StrCat(checkpoint.acknowledged_rows)));
  for (const auto& [what, value] : checkpoint.identity) {
    absl::StrAppend(&text, Line(absl::StrCat(kIdentityPrefix, what), value));
  }
  absl::StrAppend(&text, kLastLine, "\n");
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = file->Append(text);
  if (!status.ok()) return status;
  return file->Commit();
}

absl::StatusOr<std::optional<ImportCheckpoint>> ReadCheckpoint(
    const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  absl::StatusOr<InputFile> file = OpenInputFile(path);
  if (!file.ok()) return file.status();
  LineReader reader(*std::move(file), kMaxLineBytes);
  ImportCheckpoint checkpoint;
  std::string line;
  absl::StatusOr<bool> more = reader.Next(&line);
  if (!more.ok() || !*more || line != kFirstLine) return NoCheckpoint(path);
  while (true) {
    more = reader.Next(&line);
    if (!more.ok() || !*more) return NoCheckpoint(path);
    if (line == kLastLine) break;
    if (!ParseLine(line, &checkpoint)) return NoCheckpoint(reader.Where());
  }
  if (checkpoint.client_id.empty() || checkpoint.batch_rows == 0 ||
      checkpoint.in_flight == 0) {
    return NoCheckpoint(path);
  }
  return checkpoint;
}

absl::Status CheckSameImport(const ImportCheckpoint& saved,
                             const ImportCheckpoint& now,
                             const std::string& path) {
  for (const auto& [what, value] : now.identity) {
    const auto found = std::find_if(
        saved.identity.begin(), saved.identity.end(),
        [&key = what](const auto& entry) { return entry.first == key; });
    const std::string before =
        found == saved.identity.end() ? "unknown" : found->second;
    if (before == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(what, " is not what it was when the import began: ", value,
                     "; in ", path, ": ", before));
  }
  return absl::OkStatus();
}

absl::Status CheckpointKeeper::Prove() {
  if (!required_) return absl::OkStatus();
  written_ = true;
  return WriteCheckpoint(path_, checkpoint_);
}

absl::Status CheckpointKeeper::Keep(int64_t rows, absl::Time now) {
  if (rows == written_rows_ || now - last_ < kInterval) return absl::OkStatus();
  last_ = now;
  return Write(rows);
}

absl::Status CheckpointKeeper::Write(int64_t rows) {
  if (rows == written_rows_ || failed_) return absl::OkStatus();
  checkpoint_.acknowledged_rows = written_rows_ = rows;
  absl::Status status = WriteCheckpoint(path_, checkpoint_);
  failed_ = !status.ok();
  written_ = status.ok();
  return status;
}

void CheckpointKeeper::Remove() const {
  std::error_code error;
  std::filesystem::remove(path_, error);
}

}  // namespace coterie
