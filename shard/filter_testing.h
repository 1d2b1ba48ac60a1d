// Attributes and filters at random, for tests: few names and values, so that
// they meet, and the values that are easily confused.

#ifndef COTERIE_SHARD_FILTER_TESTING_H_
#define COTERIE_SHARD_FILTER_TESTING_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "api/filter.h"
#include "api/point.h"

namespace coterie {

Attributes AnyAttributes(std::mt19937_64& random);

// Of up to five conditions, with some of `ids` among those by id.
Filter AnyFilter(absl::Span<const PointId> ids, std::mt19937_64& random);

}  // namespace coterie

#endif  // COTERIE_SHARD_FILTER_TESTING_H_
