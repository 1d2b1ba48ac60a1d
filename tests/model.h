// The slow, obvious model that searches are held against, and random data that
// is hard on them. Test-only; stateless.

#ifndef COTERIE_TESTS_MODEL_H_
#define COTERIE_TESTS_MODEL_H_

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "api/point.h"
#include "index/metric.h"
#include "index/top_k.h"

namespace coterie {

using Rows = std::map<PointId, std::vector<float>>;

// Canonical distance to every row, all sorted by (distance, id), cut at k.
std::vector<Neighbor> ModelSearch(const Rows& rows, Metric metric,
                                  const std::vector<float>& query, int64_t k);

// The environment's SEED, or `fallback`; tests print it on failure.
uint64_t TestSeed(uint64_t fallback);

// The environment's ROUNDS, or 1: the long tier asks for more seeds.
uint64_t TestRounds();

// n rows that provoke ties and rounding: Gaussian, heavy tails, offset
// clusters, small integer grids with duplicates, copies of earlier rows.
// Never zero, so that every metric admits them. Ids are random 64-bit values
// that include 0 and 2^64 - 1.
Rows HardRows(int64_t n, int64_t d, std::mt19937_64& random);

std::vector<Point> ToPoints(const Rows& rows);

// data/words-10k: 10,000 x 100 GloVe vectors, ids 0..9999.
Rows WordRows(int64_t n);

}  // namespace coterie

#endif  // COTERIE_TESTS_MODEL_H_
