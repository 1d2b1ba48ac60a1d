// Hartigan and Wong's k-means over rows that lie on several shards (AS 136,
// Applied Statistics 28, 1979): rows move one at a time, and with each move two
// means.
//
// A move of row x (weight w) from a to b changes J by  w W_b / (W_b + w) |x -
// c_b|^2 - w W_a / (W_a - w) |x - c_a|^2, exactly; it is made if that is
// negative by more than a relative 2^-40. The optimal stage tries every cluster
// that is live for the row, the quick stage only the row's second choice, until
// nothing moves. What it ends at is a local minimum of Lloyd's as well, often a
// lower one. A cluster never loses its last row.
//
// The token (kmeans_messages.h) visits the shards in turn and carries all that
// the sequential algorithm would remember, so the outcome is the sequential
// algorithm's over the rows in order of shard, then id: independent of the
// number of shards as long as they hold consecutive ranges of that order.
//
// Differences to AS 136: sums are fixed point and means are computed from them,
// so nothing drifts; weights; a row's second choice starts as the next cluster,
// not the second nearest, which the first optimal stage puts right; the quick
// stage ends after 50 passes and the algorithm goes on. Not thread-safe.

#ifndef COTERIE_TRAINING_KMEANS_SWEEP_H_
#define COTERIE_TRAINING_KMEANS_SWEEP_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "training/kmeans_fixed_point.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"

namespace coterie {

// The token of a first optimal stage.
KMeansToken StartSweep(std::vector<int64_t> sums, std::vector<int64_t> weights,
                       int64_t rows);

// What follows when the token comes back from shard `shard` of `shards`.
enum class SweepNext : uint8_t { kNextShard, kFirstShard, kDone };
SweepNext NextSweep(int32_t shard, int32_t shards, KMeansToken& token);

// One visit. `labels` and `others` belong to the rows; the token moves on by
// their number. REQUIRES: labels are of clusters with a weight, the token fits
// k and d. O(n d k) in the optimal stage, O(n d) in the quick one.
void SweepRows(const KMeansRows& rows, const KMeansScale& scale,
               absl::Span<int32_t> labels, absl::Span<int32_t> others,
               KMeansToken& token);

// --- Moves in batches -------------------------------------------------------
//
// Each shard offers its best single moves against the same means; the job makes
// the best of all at once, if J falls, and otherwise half as many. J need not
// be measured for that: as J = sum of w |x|^2 - sum of |S_j|^2 / W_j, the
// change follows from the sums alone. A single move always lowers J, so this
// ends where no move does, and unlike the sweep it does not depend on how rows
// lie.

struct HartiganMove {
  double gain = 0;  // what J falls by, above 0
  int64_t row = 0;
  int32_t to = 0;
};

// The best move of each of rows [begin, end) that has one; of token, only sums
// and weights are used. O((end - begin) k d).
void ProposeMoves(const KMeansRows& rows, const KMeansScale& scale,
                  absl::Span<const int32_t> labels, const KMeansToken& token,
                  int64_t begin, int64_t end, std::vector<HartiganMove>& moves);

// The change of J if sums and weights of `token` changed by these differences,
// both k x d and k. +infinity if a cluster would lose its last row. Relative
// error 2^-40 or better of the terms, which are centred on the mean of all.
double ObjectiveChange(const KMeansToken& token, const KMeansScale& scale,
                       absl::Span<const int64_t> sums,
                       absl::Span<const int64_t> weights);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_SWEEP_H_
