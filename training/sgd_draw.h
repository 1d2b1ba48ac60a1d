// Random draws of SGD that do not depend on who makes them: hashes of the job's
// seed, the step, and the worker or the row. Nothing is drawn from a stream, so
// coordinator and shards draw the same without a message.
//
// Pure functions with the same bits on every machine; any thread.

#ifndef COTERIE_TRAINING_SGD_DRAW_H_
#define COTERIE_TRAINING_SGD_DRAW_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "index/vectors.h"

namespace coterie {

// What a draw is for: draws of different kinds are independent.
enum class SgdDraw : uint64_t {
  kBlocks = 1,
  kPermutation = 2,
  kWhole = 3,
  kBatch = 4,
  kDither = 5,
  kHoldOut = 6,
  kStart = 7,
  kSharedWorker = 8,
};

// HashOf (training/draw.h) for a kind of draw.
uint64_t SgdHash(SgdDraw draw, std::initializer_list<uint64_t> parts);

// The worker a row belongs to: SplitMix64(id) mod workers, the hash that also
// gives its slot, so that with as many workers as slots a worker's rows lie on
// one shard. REQUIRES: workers >= 1.
int32_t SgdWorkerOf(PointId id, int32_t workers);

// d parameters in m near-equal contiguous blocks: block b has parameters
// [b d / m, (b + 1) d / m). REQUIRES: 1 <= m <= d <= 2^27.
struct SgdBlocks {
  int64_t parameters = 0;
  int64_t blocks = 0;

  int64_t begin(int64_t block) const { return block * parameters / blocks; }
  int64_t end(int64_t block) const { return begin(block + 1); }
  // The block that parameter j is in.
  int64_t of(int64_t j) const { return ((j + 1) * blocks - 1) / parameters; }
};

// `count` of m blocks, uniform without replacement, ascending; independent for
// different workers and steps. O(count) expected for count <= m / 2, else O(m).
// REQUIRES: 0 <= count <= m.
std::vector<int64_t> DrawSgdBlocks(uint64_t seed, int64_t step, int32_t worker,
                                   int64_t blocks, int64_t count);

// All m blocks dealt out to the workers, each block to one: this worker's,
// ascending. A block goes to each worker with probability 1 / workers (PermK:
// Szlendak, Tyurin, Richtarik, arXiv 2110.03300). O(m).
std::vector<int64_t> DealSgdBlocks(uint64_t seed, int64_t step, int32_t worker,
                                   int32_t workers, int64_t blocks);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_DRAW_H_
