#include "shard/segment_manifest.h"

#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shard/crc32c.h"
#include "shard/record_bytes.h"

namespace coterie {
namespace {

constexpr size_t kChecksumBytes = 4;

void PutSegment(const ManifestSegment& segment, std::string* out) {
  PutVarint(out, static_cast<uint64_t>(segment.number));
  PutVarint(out, static_cast<uint64_t>(segment.rows));
  PutLittleEndian(out, segment.checksum);
  PutVarint(out, segment.dead.size());
  int64_t next = 0;
  for (const int64_t row : segment.dead) {
    PutVarint(out, static_cast<uint64_t>(row - next));
    next = row + 1;
  }
}

// A varint in [least, most].
int64_t Number(ByteReader* reader, int64_t least, int64_t most) {
  const uint64_t value = reader->Varint();
  if (value < static_cast<uint64_t>(least) ||
      value > static_cast<uint64_t>(most)) {
    reader->Fail(
        absl::StrCat("number ", value, " is not in ", least, "..", most));
    return least;
  }
  return static_cast<int64_t>(value);
}

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

ManifestSegment GetSegment(ByteReader* reader, int64_t below) {
  ManifestSegment segment;
  segment.number = Number(reader, 1, below - 1);
  segment.rows = Number(reader, 1, int64_t{1} << 31);
  segment.checksum = reader->LittleEndian<uint32_t>();
  const size_t dead = reader->Count(1);
  segment.dead.reserve(dead);
  int64_t next = 0;
  for (size_t i = 0; i < dead && reader->ok(); ++i) {
    const int64_t skipped = Number(reader, 0, int64_t{1} << 31);
    if (next + skipped >= segment.rows) {
      reader->Fail("a dead row lies beyond the end");
      break;
    }
    segment.dead.push_back(next + skipped);
    next += skipped + 1;
  }
  return segment;
}

ManifestCollection GetCollection(ByteReader* reader, int64_t below) {
  ManifestCollection collection;
  collection.number = static_cast<uint32_t>(
      Number(reader, 1, std::numeric_limits<uint32_t>::max()));
  const size_t slots = reader->Count(1);
  for (size_t i = 0; i < slots && reader->ok(); ++i) {
    collection.offsets.push_back(Number(reader, 0, kAny));
  }
  const size_t segments = reader->Count(7);
  for (size_t i = 0; i < segments && reader->ok(); ++i) {
    collection.segments.push_back(GetSegment(reader, below));
  }
  return collection;
}

}  // namespace

std::string ManifestFileName(int64_t number) {
  return absl::StrFormat("%010d.manifest", number);
}

std::string EncodeManifest(const SegmentManifest& manifest) {
  std::string out(1, '\x01');
  PutString(&out, manifest.owner.cluster_uuid);
  PutVarint(&out, static_cast<uint64_t>(manifest.owner.shard_id));
  PutVarint(&out, static_cast<uint64_t>(manifest.owner.shards_total));
  PutVarint(&out, static_cast<uint64_t>(manifest.number));
  PutVarint(&out, manifest.collections.size());
  for (const ManifestCollection& collection : manifest.collections) {
    PutVarint(&out, collection.number);
    PutVarint(&out, collection.offsets.size());
    for (const int64_t offset : collection.offsets) {
      PutVarint(&out, static_cast<uint64_t>(offset));
    }
    PutVarint(&out, collection.segments.size());
    for (const ManifestSegment& segment : collection.segments) {
      PutSegment(segment, &out);
    }
  }
  PutLittleEndian(&out, Crc32c(out));
  return out;
}

uint32_t ManifestChecksum(absl::string_view bytes) {
  uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - kChecksumBytes,
              kChecksumBytes);
  return checksum;
}

absl::StatusOr<SegmentManifest> DecodeManifest(absl::string_view bytes) {
  if (bytes.size() < kChecksumBytes) {
    return absl::DataLossError(
        absl::StrCat("manifest of ", bytes.size(), " bytes: it is cut short"));
  }
  const size_t end = bytes.size() - kChecksumBytes;
  if (ManifestChecksum(bytes) != Crc32c(bytes.substr(0, end))) {
    return absl::DataLossError("manifest: its checksum is wrong");
  }
  ByteReader reader("manifest", bytes.substr(0, end));
  constexpr int64_t kMostShards = std::numeric_limits<int32_t>::max();
  SegmentManifest manifest;
  manifest.owner.cluster_uuid = reader.String();
  manifest.owner.shard_id =
      static_cast<int32_t>(Number(&reader, 0, kMostShards));
  manifest.owner.shards_total =
      static_cast<int32_t>(Number(&reader, 0, kMostShards));
  manifest.number = Number(&reader, 1, kAny);
  const size_t collections = reader.Count(3);
  for (size_t i = 0; i < collections && reader.ok(); ++i) {
    ManifestCollection collection = GetCollection(&reader, manifest.number);
    if (!manifest.collections.empty() &&
        collection.number <= manifest.collections.back().number) {
      reader.Fail("collections are not in order");
    }
    manifest.collections.push_back(std::move(collection));
  }
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return manifest;
}

std::string ManifestKey() { return "M"; }

std::string EncodeManifestPointer(const ManifestPointer& pointer) {
  std::string out(1, '\x01');
  PutLittleEndian(&out, static_cast<uint64_t>(pointer.number));
  PutLittleEndian(&out, static_cast<uint64_t>(pointer.bytes));
  PutLittleEndian(&out, pointer.checksum);
  return out;
}

absl::StatusOr<ManifestPointer> DecodeManifestPointer(absl::string_view bytes) {
  ByteReader reader("manifest pointer", bytes);
  ManifestPointer pointer;
  pointer.number = reader.Counter();
  pointer.bytes = reader.Counter();
  pointer.checksum = reader.LittleEndian<uint32_t>();
  const absl::Status status = reader.Finish();
  if (!status.ok()) return status;
  return pointer;
}

}  // namespace coterie
