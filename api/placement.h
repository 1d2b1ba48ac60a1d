// Where a point lives: id -> slot -> shard.

#ifndef COTERIE_API_PLACEMENT_H_
#define COTERIE_API_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "index/split_mix.h"
#include "index/vectors.h"

namespace coterie {

// The slot of a point: SplitMix64(id) mod slots. REQUIRES: slots >= 1.
int32_t SlotOf(PointId id, int32_t slots);

// owner[s] for s = 0..slots-1 over shards 0..shards-1: contiguous runs whose
// lengths differ by at most one. With more shards than slots the last shards
// own nothing. REQUIRES: slots, shards >= 1.
std::vector<int32_t> EvenPlacement(int32_t slots, int32_t shards);

}  // namespace coterie

#endif  // COTERIE_API_PLACEMENT_H_
