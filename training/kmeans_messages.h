// What travels between the coordinator of a k-means job and its shards.
//
// Plain data, no behaviour. A step goes to every shard (or to one), each
// answers with a partial; merging partials is associative and commutative, so
// neither the number of shards nor the order of arrival shows in a result.
// Which fields a kind uses is listed with it; others are empty or 0.
//
// Sizes. An assignment sends k d float32 values down and k (d + 1) int64
// values up, each way beside a header of fixed size (kmeans_codec.h). A batch
// sends half of that: centres of 16 bits, sums of 32.

#ifndef COTERIE_TRAINING_KMEANS_MESSAGES_H_
#define COTERIE_TRAINING_KMEANS_MESSAGES_H_

#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"
#include "index/vectors.h"
#include "training/kmeans_fixed_point.h"

namespace coterie {

// How rows find their nearest centre. Labels, sums and messages are the same
// bits for all of them.
enum class KMeansAlgorithm : uint8_t {
  // Every row against every centre, in blocks.
  kLloyd = 1,
  // One lower bound a row (Hamerly, SDM 2010), 4 bytes, for all centres but
  // those that moved farthest, which are searched for every row; how many those
  // are is measured. Rows that it does not settle go through codes or blocks
  // together. The default.
  kHamerly = 2,
  // A lower bound for every pair (Elkan, ICML 2003), 4 k bytes a row; Hamerly
  // where that is over the shard's budget.
  kElkan = 3,
};

enum class KMeansSumForm : uint8_t {
  // Exact, 8 bytes a value: the default.
  kInt64 = 1,
  // Exact; differences from the base's sums, and only of centres that a row
  // entered or left where that is smaller. As kInt64 without a base.
  kChanged = 2,
  // 4 bytes a value, sums rounded to float32 and weights too: lossy, and the
  // result then depends on the number of shards.
  kFloat32 = 3,
};

enum class KMeansStepKind : uint8_t {
  // -> extent
  kExtent = 1,
  // scale -> sums of all rows (d), weights (1), objective: sum of w |x|^2
  kTotals = 2,
  // seed, round, count -> the `count` rows with least keys, in order: a draw
  // without replacement in proportion to weight
  kPick = 3,
  // first_row, rows, seed, round, count -> one row for each of `count` draws
  // that has one, in proportion to w times the distance to the nearest row
  // known (w alone while none is)
  kDraw = 4,
  // rows -> potentials: for each, what the potential would be with it
  kTry = 5,
  // first_row, rows -> potentials: one, with all rows known
  kPotential = 6,
  // potential, amount, seed, round -> rows, each with probability
  // min(1, amount w distance / potential)
  kSample = 7,
  // first_row, rows -> weights: of the rows nearest to each row known
  kWeigh = 8,
  // rows (centres), active, base -> sums, weights, objective, moved
  kAssign = 9,
  // count -> the `count` rows farthest from their centre, no two equal
  kFarthest = 10,
  // To one shard: token, round, base -> token, after a pass over its rows
  kSweep = 11,
  // rows (centres, less `values` where those are given), active, seed, round,
  // count, amount, values -> sums, weights, objective of the rows of batch
  // `round`, of which an epoch has `count`; moved: how many rows those are.
  // Only
  // centres that got a row, where that is smaller. Sums are of rows less
  // `values` (d of them, a point that all is measured from), in units of 2^
  // amount: a batch is a sample, so its sums need no more bits than its error.
  kBatch = 12,
  // seed, round, count, amount -> the `count` rows of batch `round`, of which
  // an
  // epoch has `amount`, with least keys
  kBatchPick = 13,
  // base -> potentials: of each cluster, J; then of each, the sum of w |x - c|
  kMeasure = 14,
  // base, seed, amount, values (of each cluster its mean square radius, then of
  // each its weight) -> potentials: the sum of w s over rows picked with
  // probability `amount`, and of w, in units of 2^-kSilhouetteExponent and of
  // weight; s of kmeans_quality.h
  kSilhouette = 15,
  // token (sums, weights), round (0: begin with the labels of `base`; else the
  // number of the kApply step whose moves hold from now on), base, count -> the
  // `count` best single moves, by (key falling, id rising)
  kPropose = 16,
  // picks: moves (id, slot), base -> differences of sums and weights, if those
  // of the shard's rows were made; moved: how many those are
  kApply = 17,
};

inline constexpr int kSilhouetteExponent = 40;

// What goes from shard to shard in Hartigan and Wong's algorithm: the clusters
// as they are after the last move, and where each was last changed. Names of AS
// 136 in brackets. Empty while `weights` is.
struct KMeansToken {
  std::vector<int64_t> sums;     // k x d, in units
  std::vector<int64_t> weights;  // k; clusters with 0 take no part
  // A cluster is live for row i, counted over all shards, while i < live
  // [LIVE].
  std::vector<int64_t> live;
  // Step of the last change, from 1; in the quick stage plus rows [NCP].
  std::vector<int64_t> changed;
  std::vector<uint8_t> quick;  // changed in the last quick stage [ITRAN]
  bool in_quick = false;       // which stage this is
  int64_t rows = 0;            // of all shards [M]
  int64_t offset = 0;          // of the shards before
  int64_t unmoved = 0;         // rows in a row without a move [INDX]
  int64_t quiet = 0;           // the same within the quick stage [ICOUNT]
  int64_t step = 0;            // of the quick stage [ISTEP]
  int64_t moves = 0;

  friend bool operator==(const KMeansToken&, const KMeansToken&) = default;
};

// A row that a shard offers.
struct KMeansPick {
  // kPick, kDraw: the key of the race, least wins. kSample: the row's mass.
  // kFarthest: the distance, kPropose: what J would fall by; greatest wins.
  double key = 0;
  PointId id = 0;
  int32_t slot = 0;   // kDraw: which draw; kFarthest: the row's label
  double weight = 0;  // kFarthest

  friend bool operator==(const KMeansPick&, const KMeansPick&) = default;
};

struct KMeansStep {
  // Rises from step to step within a job; 1 is the first.
  int64_t number = 0;
  KMeansStepKind kind = KMeansStepKind::kExtent;
  KMeansScale scale;
  uint64_t seed = 0;
  int64_t round = 0;
  int64_t count = 0;
  double amount = 0;
  absl::int128 potential = 0;

  // count of seeding rows that the shard knows already; 0: forget all.
  int64_t first_row = 0;
  // Row-major, d values each.
  std::vector<float> rows;
  // Empty: `rows` has all centres. Else one flag a centre, and `rows` has those
  // with 1; the others are as in the step `base`.
  std::vector<uint8_t> touched;
  // Empty: all. Centres with 0 get no rows.
  std::vector<uint8_t> active;
  // Number of the assignment whose labels the shard must hold, against which
  // rows move; 0: none, all rows are new.
  int64_t base = 0;
  KMeansAlgorithm algorithm = KMeansAlgorithm::kHamerly;
  KMeansSumForm form = KMeansSumForm::kInt64;

  std::vector<double> values;
  std::vector<KMeansPick> picks;

  // Who has to answer; -1: every shard.
  int32_t shard = -1;
  KMeansToken token;

  friend bool operator==(const KMeansStep&, const KMeansStep&) = default;
};

struct KMeansPartial {
  int64_t number = 0;  // of the step answered
  KMeansStepKind kind = KMeansStepKind::kExtent;
  KMeansExtent extent;

  KMeansSumForm form = KMeansSumForm::kInt64;
  // In units of the scale: k x d and k; under kChanged differences from the
  // base's, with `touched` (one flag a centre) of the flagged ones only.
  std::vector<int64_t> sums;
  std::vector<int64_t> weights;
  std::vector<uint8_t> touched;
  // Instead of the two, under kFloat32: in natural units.
  std::vector<float> float_sums;
  std::vector<float> float_weights;

  absl::int128 objective = 0;
  int64_t moved = 0;
  int64_t evaluated = 0;  // distances and scores computed
  int64_t skipped = 0;    // pairs that a bound decided

  std::vector<absl::int128> potentials;
  std::vector<KMeansPick> picks;
  std::vector<float> pick_rows;  // d values a pick

  KMeansToken token;

  friend bool operator==(const KMeansPartial&, const KMeansPartial&) = default;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_MESSAGES_H_
