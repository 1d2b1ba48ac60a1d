// Locality-sensitive hashing: part of the neighbours, as many as asked for,
// from few of the rows; cheap to build and to extend, nothing to tune but
// memory.
//
// A table files each row under K cross-polytope hashes of its direction (Andoni
// et al., NIPS 2015): the largest coordinates of random rotations, by signs and
// Hadamard transforms. A query looks into the buckets of all tables in order of
// promise, near misses included (multi-probe: Lv et al., VLDB 2007), until the
// probability that a row as near as the k-th so far has not been met is below
// 1 - target_recall (the stopping rule of PUFFINN, Aumueller et al., ESA 2019,
// carried over to probes: index/lsh_collision.h counts how likely a row at an
// angle is in a bucket, given the query's coordinates).
//
//   COSINE         the angle of the k-th distance t has cos = 1 - t
//   SQUARED_L2     directions from a centre: sin <= sqrt(t) / |q|
//   INNER_PRODUCT  cos >= -t / (|q| max|x|)
// Rows of a bucket stand by shells of their norm, and shells that cannot hold a
// row within t are skipped. Of rows in a bucket a sketch of 512 signs is
// compared first: one that differs more than at that angle in 99 of 100
// cases is left out. What remains is re-scored canonically. The rule holds for
// the worst that may be: with what Train saw it do, a search takes the one that
// finds as much as was asked for, and no more. Where no angle
// bound holds, or the buckets hold more rows than a scan would read in the same
// time, the certified scan takes over and the answer is exact.

#ifndef COTERIE_INDEX_LSH_H_
#define COTERIE_INDEX_LSH_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "index/certified_codes.h"
#include "index/certified_memory.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/lsh_collision.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_types.h"
#include "index/vectors.h"

namespace coterie {

namespace internal_lsh {
class LshProbes;
class LshSearcher;
}  // namespace internal_lsh

// When to stop: once the expected share of the k nearest that was met is
// `target`, or so many rows were met.
struct LshRule {
  double target = 1;
  int64_t most = std::numeric_limits<int64_t>::max();
};

// Immutable but for Insert and Train; then any number of threads may share it.
// Rows are known by their number.
class LshIndex {
 public:
  static constexpr int64_t kMaxTables = 256;
  static constexpr int64_t kShells = 4;  // COSINE: one, as all norms are 1
  // Of a sketch, in words of 64.
  static constexpr int64_t kSketchWords = 8;

  // A candidate costs as much as that many rows of a scan.
  static constexpr int64_t kRowsPerCandidate = 12;
  // For these k it is seen what rules find.
  static constexpr int64_t kTrainedK[] = {1, 10, 100};
  static constexpr int64_t kLeastTrained = 4096;  // rows

  // What a rule did: for each trained k the share found, less 1.65 standard
  // errors, and what it cost, in scans.
  struct Trained {
    float target = 0;
    float most = 0;  // part of the rows
    float found[3] = {};
    float cost[3] = {};
  };

  struct Options {
    // About 4 bytes a row each, and 64 for the sketch. REQUIRES: in [1,
    // kMaxTables].
    int64_t tables = 32;
    // For how many rows buckets are sized; those of the build if they are more.
    int64_t expected_rows = 0;
    uint64_t seed = 1;
  };

  // The index as plain memory: what to write to disk and to read back.
  struct Parts {
    Metric metric = Metric::kSquaredL2;
    int64_t n = 0;
    int64_t d = 0;
    uint64_t seed = 0;
    int64_t tables = 0;
    int64_t hash_bits = 0;  // of a bucket's number
    float max_norm = 0;     // >= the norm of every row (from the centre)
    absl::Span<const float> centre;
    absl::Span<const float> shells;  // ascending norms between the shells
    // For each table and each bucket, shell by shell, where it starts in the
    // table's rows; then where the last one ends.
    absl::Span<const uint32_t> directory;
    absl::Span<const uint32_t> rows;  // n for each table
    absl::Span<const uint64_t> sketches;
    absl::Span<const float> trained;  // as Trained has them
    float sketch_cut = 1;
  };

  // REQUIRES: fewer than 2^31 rows that pass ValidateVector, 1 <= d <=
  // kMaxDimension. The same index whatever the threads and the CPU. O(n tables
  // D log D) time, D = d rounded up to a power of two.
  static LshIndex Build(Metric metric, RowsView rows, const Options& options,
                        RunTasks run_tasks);

  // Adds rows size() .. rows.n - 1. REQUIRES: as Build; nobody uses the index
  // meanwhile. Time as for building these rows, and to copy the index once.
  void Insert(RowsView rows, RunTasks run_tasks);

  // Sees what rules find for up to 256 rows, held back meanwhile, among the
  // others. Leaves an index of fewer than kLeastTrained rows as it is.
  // REQUIRES: rows and codes as of LshSegment; nobody uses the index meanwhile.
  // Time of 256 scans in company and three searches of each row.
  void Train(const ScanRows& rows, const CertifiedCodes& codes,
             RunTasks run_tasks);

  // Copies. INVALID_ARGUMENT if sizes or references do not fit together: then
  // no search reads beyond the arrays. Values are taken on trust: check a sum.
  static absl::StatusOr<LshIndex> FromParts(const Parts& parts);
  Parts parts() const;

  Metric metric() const { return metric_; }
  int64_t size() const { return n_; }
  int64_t dimension() const { return d_; }
  int64_t tables() const { return tables_; }
  // Bytes on the heap.
  int64_t MemoryBytes() const;

  // The cheapest rule that was seen to find `share` of the k nearest; 1, a
  // scan, if that costs less; the share itself, which finds more, if none was
  // seen to. And what it costs, in scans.
  LshRule RuleFor(double k, double share) const;
  double CostFor(double k, double share) const;

 private:
  friend class internal_lsh::LshProbes;
  friend class internal_lsh::LshSearcher;
  class Trainer;
  template <typename T>
  using Array = std::vector<T, internal_certified::StreamAllocator<T>>;

  LshIndex() = default;

  class Filer;

  // log2(dims_) + 1: of a hash over all coordinates.
  int64_t max_code_bits() const;
  // The number of a bucket is made of the codes of so many hashes.
  int64_t hashes() const {
    return (hash_bits_ + max_code_bits() - 1) / max_code_bits();
  }
  // Bits of hash h: as even as possible.
  int64_t code_bits(int64_t h) const {
    return hash_bits_ / hashes() + (h < hash_bits_ % hashes() ? 1 : 0);
  }
  int64_t shells() const { return static_cast<int64_t>(shells_.size()) + 1; }
  int64_t directory_size() const {
    return (int64_t{1} << hash_bits_) * shells() + 1;
  }
  // Groups of 16 rotations: for hash 0 of all tables, for hash 1, ..., then one
  // for the sketch.
  int64_t table_groups() const;
  int64_t groups() const { return hashes() * table_groups() + 1; }

  // Fills dims_, signs_ and collisions_.
  void Prepare();
  // v's direction from the centre, then zeros up to dims_; returns its length.
  double Direction(VectorView v, float* direction) const;
  int64_t ShellOf(double norm) const;
  // Rotates by one group.
  void Rotate(const float* direction, int64_t group, float* rotated) const;
  // The sketch, from what its group makes of a direction.
  void Sketch(const float* rotated, uint64_t* sketch) const;
  void ChooseShells(RowsView rows);

  Metric metric_ = Metric::kSquaredL2;
  int64_t n_ = 0;
  int64_t d_ = 0;
  uint64_t seed_ = 0;
  int64_t tables_ = 0;
  int64_t hash_bits_ = 0;
  float max_norm_ = 0;
  std::vector<float> centre_;
  std::vector<float> shells_;
  Array<uint32_t> directory_;
  Array<uint32_t> rows_;
  Array<uint64_t> sketches_;

  int64_t dims_ = 0;
  Array<float> signs_;
  std::vector<const internal_lsh::CollisionTable*> collisions_;  // by hash

  // Null: no rule was seen to. `cost` in scans.
  const Trained* Best(double k, double share, double* cost) const;
  std::vector<Trained> trained_;
  // Neighbours' sketches differ in this part of the bits in which they might.
  float sketch_cut_ = 1;
};

// How far a search goes.
struct LshLimits {
  // The share of the k nearest to be found, in expectation. 1 scans.
  double target_recall = 0.9;
  // Rows to meet in buckets, per query and segment.
  int64_t max_candidates = std::numeric_limits<int64_t>::max();
};

// What became of the live rows of one query: rows = evaluated + ruled_out +
// unseen.
struct LshAccount {
  int64_t evaluated = 0;
  int64_t ruled_out = 0;   // by the certified scan
  int64_t unseen = 0;      // in no bucket that was read, or left by the sketch
  int64_t candidates = 0;  // distinct rows met in buckets
  int64_t probes = 0;      // buckets read
  bool scanned = false;    // a scan cost less, at least in one segment

  bool exact() const { return unseen == 0; }
};

// A part of the data.
struct LshSegment {
  const LshIndex* index = nullptr;
  const CertifiedCodes* codes = nullptr;
  ScanRows rows;
  FirstLook first_look;  // of the same rows, for a scan
};

// Searches each segment for each query, offers what it finds to tops[q] and
// adds to accounts[q]. `stop` as in CertifiedScan: asked first and then after
// every 256 KiB read.
// REQUIRES: as CertifiedScan; metric and dimension agree throughout.
bool LshSearch(const ScanQueries& queries,
               absl::Span<const LshSegment> segments, const LshLimits& limits,
               absl::Span<TopK> tops, absl::Span<LshAccount> accounts,
               absl::FunctionRef<bool()> stop);

}  // namespace coterie

#endif  // COTERIE_INDEX_LSH_H_
