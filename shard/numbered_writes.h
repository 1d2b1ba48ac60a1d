// A history of writes that can be computed: write n is a function of n, so what
// a shard must hold after any number of them is known. For tests only.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_NUMBERED_WRITES_H_
#define COTERIE_SHARD_NUMBERED_WRITES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/collection.h"
#include "api/point.h"
#include "api/shard_messages.h"
#include "shard/shard.h"

namespace coterie {

// The collection they go to: "c", of two dimensions.
Catalogue NumberedCatalogue();

// Some upserts and deletes among 200 ids. n >= 0.
WriteBatch NumberedWrite(int64_t n);

// What is stored, by id.
using NumberedState =
    std::map<PointId, std::pair<std::vector<float>, Attributes>>;

void ApplyNumbered(int64_t n, NumberedState* state);
// After writes 0..n-1. O(n).
NumberedState StateAfter(int64_t n);

// Options of a shard in `path` that is alone in cluster "cluster".
ShardOptions LoneShard(const std::string& path);
// The same with the collection in it. Aborts on failure.
std::unique_ptr<Shard> OpenNumbered(const ShardOptions& options);

// Everything that the shard stores, by scan. An error is the scan's.
absl::StatusOr<NumberedState> StoredIn(Shard* shard);

// Whether search, count and scan agree with each other: the same ids, and the
// vectors that the scan gave. Empty if so, else what differs.
std::string Disagreement(Shard* shard, const NumberedState& stored);

}  // namespace coterie

#endif  // COTERIE_SHARD_NUMBERED_WRITES_H_
