// Fuzz target: the readers of segment files, manifests and pointers.
//
// Each either refuses with DATA_LOSS or gives a value that encodes to exactly
// those bytes; a segment file that is accepted can be looked up and scanned.
// Input: one byte that chooses a reader, and whether checksums are put right
// first, so that what is behind them is reached; then the file.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/crc32c.h"
#include "shard/segment_file.h"
#include "shard/segment_manifest.h"

namespace coterie {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

template <typename T, typename Encode>
void CheckDecoded(absl::string_view bytes, const absl::StatusOr<T>& decoded,
                  Encode encode) {
  if (decoded.ok()) {
    Check(encode(*decoded) == bytes);
  } else {
    Check(absl::IsDataLoss(decoded.status()));
  }
}

// Puts a checksum at `at` of what is before it.
void Seal(std::string* bytes, size_t at) {
  if (bytes->size() < at + 4) return;
  const uint32_t checksum = Crc32c(absl::string_view(*bytes).substr(0, at));
  std::memcpy(bytes->data() + at, &checksum, sizeof(checksum));
}

std::shared_ptr<const FileMapping> Mapped(const std::string& bytes) {
  void* const at = mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  Check(at != MAP_FAILED);
  std::memcpy(at, bytes.data(), bytes.size());
  return std::make_shared<const FileMapping>(static_cast<const char*>(at),
                                             bytes.size());
}

void CheckSegment(std::string bytes, bool seal) {
  constexpr size_t kHeader = SegmentHeader::kBytes;
  if (seal) {
    // A short input is a header; the rest is as long as it says.
    bytes.resize(std::max(bytes.size(), kHeader));
    Seal(&bytes, kHeader - 4);
    const auto header =
        DecodeSegmentHeader(absl::string_view(bytes).substr(0, kHeader));
    if (header.ok() && header->file_bytes() < (1 << 20)) {
      bytes.resize(static_cast<size_t>(header->file_bytes()));
      SegmentHeader sealed = *header;
      for (auto& place : sealed.sections) {
        place.checksum = Crc32c(
            absl::string_view(bytes).substr(static_cast<size_t>(place.offset),
                                            static_cast<size_t>(place.bytes)));
      }
      bytes.replace(0, kHeader, EncodeSegmentHeader(sealed));
    }
  }
  if (bytes.size() >= kHeader) {
    const absl::string_view head = absl::string_view(bytes).substr(0, kHeader);
    CheckDecoded(head, DecodeSegmentHeader(head), EncodeSegmentHeader);
  }
  SegmentCheck check;
  absl::Status status = check.Add(absl::string_view(bytes).substr(0, 100));
  if (status.ok() && bytes.size() > 100) {
    status = check.Add(absl::string_view(bytes).substr(100));
  }
  const auto header = check.Finish();
  if (!status.ok() || !header.ok()) {
    Check(absl::IsDataLoss(header.status()));
    return;
  }
  const auto file = SegmentFile::Over(*header, Mapped(bytes));
  if (!file.ok()) {
    Check(absl::IsDataLoss(file.status()));
    return;
  }
  for (int64_t i = 1; i < header->rows; ++i) {
    Check((*file)->ids()[i - 1] < (*file)->ids()[i]);
  }
  Check(((*file)->codes() != nullptr) == header->coded());
}

void Read(uint8_t which, absl::string_view bytes) {
  const bool seal = (which & 4) != 0;
  std::string copy(bytes);
  switch (which & 3) {
    case 0:
      CheckSegment(std::move(copy), seal);
      break;
    case 1:
      if (seal && copy.size() >= 4) Seal(&copy, copy.size() - 4);
      CheckDecoded(copy, DecodeManifest(copy), EncodeManifest);
      break;
    default:
      CheckDecoded(copy, DecodeManifestPointer(copy), EncodeManifestPointer);
  }
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  coterie::Read(
      data[0],
      absl::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
