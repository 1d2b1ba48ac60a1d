// What a collection is, and the catalogue of all of them.

#ifndef COTERIE_API_COLLECTION_H_
#define COTERIE_API_COLLECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "api/limits.h"
#include "index/metric.h"

namespace coterie {

inline constexpr int32_t kDefaultSlots = 64;

// Structures over sealed segments. Values are on disk and in file names.
enum class IndexKind : uint8_t {
  kTree = 1,
  kLsh = 2,
  kFaiss = 3,
};
inline constexpr IndexKind kIndexKinds[] = {IndexKind::kTree, IndexKind::kLsh,
                                            IndexKind::kFaiss};

// "tree", "lsh" or "faiss".
absl::string_view IndexKindName(IndexKind kind);

struct IndexSpec {
  // Of LSH: a sketch, and a table for each 4 bytes more.
  static constexpr int32_t kSketchBytes = 64;
  static constexpr int32_t kTableBytes = 4;
  static constexpr int32_t kMostTables = 256;
  static constexpr int32_t kDefaultBytesPerRow = 192;
  static constexpr double kDefaultRecall = 0.9;

  IndexKind kind = IndexKind::kTree;
  // kLsh only; 0 otherwise.
  int32_t bytes_per_row = 0;
  // kLsh and kFaiss; 0 otherwise.
  double target_recall = 0;
  // kFaiss only; empty otherwise (index/faiss_factory.h).
  std::string factory = {};

  int32_t tables() const {
    return (bytes_per_row - kSketchBytes) / kTableBytes;
  }

  friend bool operator==(const IndexSpec&, const IndexSpec&) = default;
};

// OK if it is one that a collection can have; otherwise what is wrong with it.
absl::Status ValidateIndex(const IndexSpec& index);

struct CollectionSpec {
  std::string name;
  // Names the data on disk; never reused within a cluster, so a dropped and
  // re-created collection cannot see old rows. Given by the coordinator.
  uint32_t number = 0;
  int32_t dimension = 0;
  Metric metric = Metric::kSquaredL2;
  int32_t slots = kDefaultSlots;
  // owner[s] is the shard that holds slot s. Given by the coordinator.
  std::vector<int32_t> owner;
  // At most one of each kind.
  std::vector<IndexSpec> indexes = {};

  // Null if there is none of the kind.
  const IndexSpec* FindIndex(IndexKind kind) const;

  friend bool operator==(const CollectionSpec&,
                         const CollectionSpec&) = default;
};

// Every collection, as one versioned record: changed by compare-and-set on
// shard 0, copied to the others.
struct Catalogue {
  // Raised by one at each change. 0: never written. Also the shard map's
  // version, since `owner` is part of the record.
  int64_t version = 0;
  uint32_t next_number = 1;
  std::vector<CollectionSpec> collections;  // by name
  // Element i names the store (shard/store_id.h) that holds shard i's data, so
  // that an empty disk in its place is not taken for it. Empty until the first
  // collection is made; an empty element is not known.
  std::vector<std::string> stores = {};

  // Null if absent.
  const CollectionSpec* Find(absl::string_view name) const;
};

// OK if the name can be used: 1..limit characters of [A-Za-z0-9_.-], the first
// a letter or digit. INVALID_ARGUMENT quoting the name (escaped) otherwise.
absl::Status ValidateCollectionName(absl::string_view name,
                                    const Limits& limits);

// As far as a request that speaks of a collection goes: neither empty nor over
// the limit. Whether it exists is for the catalogue to say. The field is
// "collection".
absl::Status ValidateCollectionReference(absl::string_view name,
                                         const Limits& limits);

// As ValidateCollectionName for the whole schema, naming field, value and
// limit; for an index, which.
absl::Status ValidateCollection(const CollectionSpec& spec,
                                const Limits& limits);

}  // namespace coterie

#endif  // COTERIE_API_COLLECTION_H_
