#include "api/placement.h"

namespace coterie {

int32_t SlotOf(PointId id, int32_t slots) {
  return static_cast<int32_t>(SplitMix64(id) % static_cast<uint64_t>(slots));
}

std::vector<int32_t> EvenPlacement(int32_t slots, int32_t shards) {
  const int32_t run = slots / shards;
  const int32_t longer = slots % shards;  // the first shards take one more
  std::vector<int32_t> owner;
  owner.reserve(static_cast<size_t>(slots));
  for (int32_t shard = 0; static_cast<int32_t>(owner.size()) < slots; ++shard) {
    owner.insert(owner.end(), static_cast<size_t>(run + (shard < longer)),
                 shard);
  }
  return owner;
}

}  // namespace coterie
