// Which segment files together hold a shard's rows, and up to which write.
//
// Stateless; any thread.
//
// A manifest is a file of its own, "0000000042.manifest", written like a
// segment file and never changed. Which one counts is a record in the record
// store, so that the truth and what was derived from it cannot part: a store
// that was set back, or files that were, do not find each other's counterpart.
//
// Of each collection it lists every slot's offset, its segment files, and the
// rows of each that are dead: all that the slot's writes up to the offset did.
// Later writes are in the slot's log, which is kept from there on.

#ifndef COTERIE_SHARD_SEGMENT_MANIFEST_H_
#define COTERIE_SHARD_SEGMENT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/record_codec.h"

namespace coterie {

struct ManifestSegment {
  int64_t number = 0;  // of its file
  int64_t rows = 0;
  uint32_t checksum = 0;  // of its header
  // Ascending, in [0, rows). Some may be alive again by a later write.
  std::vector<int64_t> dead;

  friend bool operator==(const ManifestSegment&,
                         const ManifestSegment&) = default;
};

struct ManifestCollection {
  uint32_t number = 0;
  std::vector<int64_t> offsets;  // by slot, all slots
  std::vector<ManifestSegment> segments;

  friend bool operator==(const ManifestCollection&,
                         const ManifestCollection&) = default;
};

struct SegmentManifest {
  ShardIdentity owner;  // its incarnation is 0 here
  int64_t number = 0;   // its own; files of segments are numbered below it
  std::vector<ManifestCollection> collections;  // by ascending number

  friend bool operator==(const SegmentManifest&,
                         const SegmentManifest&) = default;
};

std::string ManifestFileName(int64_t number);

// Format byte 1 | cluster uuid | shard id | shards total | number |
// collections: (number, slots, offsets, segments: (number, rows, checksum, dead
// rows as distances)) | CRC-32C of what is before it.
std::string EncodeManifest(const SegmentManifest& manifest);
// DATA_LOSS saying what is wrong. Takes any bytes; what it accepts it encodes
// to the same bytes.
absl::StatusOr<SegmentManifest> DecodeManifest(absl::string_view bytes);

// The checksum that a manifest's bytes end with. (That of all of them, it
// included, would be the same for every manifest.) REQUIRES: at least 4 bytes.
uint32_t ManifestChecksum(absl::string_view bytes);

// The record that says which manifest counts. Format byte | number | bytes |
// checksum.
struct ManifestPointer {
  int64_t number = 0;
  int64_t bytes = 0;
  uint32_t checksum = 0;

  friend bool operator==(const ManifestPointer&,
                         const ManifestPointer&) = default;
};
std::string ManifestKey();  // in Family::kMeta
std::string EncodeManifestPointer(const ManifestPointer& pointer);
absl::StatusOr<ManifestPointer> DecodeManifestPointer(absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_SHARD_SEGMENT_MANIFEST_H_
