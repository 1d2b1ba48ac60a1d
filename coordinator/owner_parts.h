// A request split by the shards that own its points.
//
// Not thread-safe; lives for one call.

#ifndef COTERIE_COORDINATOR_OWNER_PARTS_H_
#define COTERIE_COORDINATOR_OWNER_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "api/collection.h"
#include "api/placement.h"
#include "api/point.h"

namespace coterie {

// A request's part for one shard.
template <typename Request>
struct Part {
  int32_t shard = 0;
  Request request;
};

// Finds or makes the part of an id's owner; parts come out by shard.
template <typename Request>
class Parts {
 public:
  // REQUIRES: spec outlives it; every owner is in 0..shards-1.
  Parts(const CollectionSpec& spec, int64_t shards)
      : spec_(spec), by_shard_(static_cast<size_t>(shards)) {}

  Request& For(PointId id) { return ForSlot(SlotOf(id, spec_.slots)); }

  Request& ForSlot(int32_t slot) {
    const int32_t shard = spec_.owner[static_cast<size_t>(slot)];
    std::unique_ptr<Request>& part = by_shard_[static_cast<size_t>(shard)];
    if (part == nullptr) {
      part = std::make_unique<Request>();
    }
    return *part;
  }

  std::vector<Part<Request>> Take() {
    std::vector<Part<Request>> parts;
    for (size_t s = 0; s < by_shard_.size(); ++s) {
      if (by_shard_[s] != nullptr) {
        parts.push_back({static_cast<int32_t>(s), std::move(*by_shard_[s])});
      }
    }
    return parts;
  }

 private:
  const CollectionSpec& spec_;
  std::vector<std::unique_ptr<Request>> by_shard_;
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_OWNER_PARTS_H_
