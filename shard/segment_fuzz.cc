// Fuzz target: the readers of segment files, manifests, pointers and index
// files.
//
// Each either refuses with DATA_LOSS or gives a value that encodes to exactly
// those bytes; a segment file that is accepted can be looked up and scanned,
// and an index file has the structure that it says, and of FAISS can be
// searched. Input: one byte that chooses a reader, by bits: 1 and 2 the file, 4
// whether checksums are put right first, so that what is behind them is
// reached, 8 and 16 the kind of an index; then the file.

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "index/faiss_index.h"
#include "shard/crc32c.h"
#include "shard/record_bytes.h"
#include "shard/segment_file.h"
#include "shard/segment_index.h"
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
  const PointId* const ids = (*file)->ids();
  const absl::Span<const int32_t> order = (*file)->by_id();
  for (int64_t i = 1; i < header->rows; ++i) {
    const auto at = static_cast<size_t>(i);
    Check(order.empty() ? ids[i - 1] < ids[i]
                        : ids[order[at - 1]] < ids[order[at]]);
  }
  Check(((*file)->codes() != nullptr) == header->coded());
}

// Puts the checksums of the arrays right that the header speaks of, then its
// own; a short input is filled up with zeros.
void SealIndex(std::string* bytes) {
  constexpr size_t kPage = 4096;
  constexpr size_t kMagic = 16;
  bytes->resize(std::max(bytes->size(), kPage));
  const std::string head = bytes->substr(0, kPage);
  ByteReader reader("header", absl::string_view(head).substr(kMagic));
  reader.String();
  for (int i = 0; i < 4; ++i) reader.Varint();
  reader.LittleEndian<uint32_t>();
  reader.Byte();
  for (size_t left = reader.Count(8); left > 0; --left) {
    reader.LittleEndian<uint64_t>();
  }
  size_t at = kPage;
  for (size_t left = reader.Count(12); left > 0 && reader.ok(); --left) {
    const auto size = reader.LittleEndian<uint64_t>();
    const size_t field = kPage - reader.remaining();
    if (at > bytes->size() || size > bytes->size() - at) break;
    const uint32_t checksum =
        Crc32c(absl::string_view(*bytes).substr(at, size));
    std::memcpy(bytes->data() + field, &checksum, sizeof(checksum));
    reader.LittleEndian<uint32_t>();
    at = (at + size + kPage - 1) / kPage * kPage;
  }
  Seal(bytes, kPage - 4);
}

// Whatever its floats and links are, rows are named that there are, each once.
void SearchFaiss(const FaissIndex& index) {
  for (const float x : {0.0F, 1.0F}) {
    const std::vector<float> query(static_cast<size_t>(index.dimension()), x);
    const auto rows =
        index.Candidates(query, {2, 9}, nullptr, [] { return false; });
    if (!rows.ok()) {
      Check(absl::IsInternal(rows.status()));
      continue;
    }
    Check(rows->size() <= 9);
    const std::set<int64_t> seen(rows->begin(), rows->end());
    Check(seen.size() == rows->size());
    Check(seen.empty() ||
          (*seen.begin() >= 0 && *seen.rbegin() < index.size()));
  }
}

// Of the first segment of collection 1, by the shards of the tests.
void CheckIndex(std::string bytes, bool seal, IndexKind kind) {
  IndexName name;
  name.segment.owner.cluster_uuid = "cluster";
  name.segment.owner.shards_total = 1;
  name.segment.collection = 1;
  name.segment.number = 1;
  name.kind = kind;
  if (seal) SealIndex(&bytes);
  const auto index = DecodeIndexFile(bytes, name);
  if (!index.ok()) {
    Check(absl::IsDataLoss(index.status()));
    return;
  }
  Check((*index)->kind() == kind);
  Check((*index)->size() >= 0 && (*index)->MemoryBytes() > 0);
  if ((*index)->faiss() != nullptr) SearchFaiss(*(*index)->faiss());
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
    case 2:
      CheckDecoded(copy, DecodeManifestPointer(copy), EncodeManifestPointer);
      break;
    default:
      CheckIndex(std::move(copy), seal,
                 kIndexKinds[(which >> 3) % std::size(kIndexKinds)]);
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
