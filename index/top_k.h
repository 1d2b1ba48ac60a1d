// The k nearest of a stream of candidates, and the merge of such lists.
//
// The order of answers is total: by distance, then by id. NaN never enters.

#ifndef COTERIE_INDEX_TOP_K_H_
#define COTERIE_INDEX_TOP_K_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "index/vectors.h"

namespace coterie {

// A candidate and its canonical distance (smaller is nearer).
struct Neighbor {
  PointId id = 0;
  double distance = 0;

  friend bool operator==(const Neighbor& a, const Neighbor& b) {
    return a.id == b.id && a.distance == b.distance;
  }
};

// The total order of answers. A strict weak order for all distances but NaN.
inline bool NeighborLess(const Neighbor& a, const Neighbor& b) {
  return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
}

// Keeps the k least neighbours among those offered, no farther than a bound.
// Not thread-safe. Memory grows with what is kept, never with k alone.
//
// Invariants: (1) heap_ is a max-heap under NeighborLess, (2) its size is at
// most k, (3) nothing in it is NaN or farther than the bound, (4) Threshold()
// never rises.
class TopK {
 public:
  // REQUIRES: k >= 1. `bound` is inclusive: with k = limit and bound = r this
  // collects the points within radius r.
  explicit TopK(int64_t k,
                double bound = std::numeric_limits<double>::infinity());

  // A candidate with a larger distance cannot enter; one at this distance may,
  // by its id. So prune only what lies strictly above. The bound until k
  // neighbours are kept, then the k-th distance.
  double Threshold() const { return threshold_; }

  // Takes it that nothing farther than `bound` is wanted, as if made with it.
  // What is kept already stays. NaN is ignored.
  void Restrict(double bound);

  // Considers one candidate; NaN is dropped. Ids offered twice are kept twice:
  // within one shard an id has one live row. O(log k) when kept, else O(1).
  void Offer(Neighbor candidate);

  int64_t k() const { return k_; }
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }

  // What is kept, in order. Leaves the object as new. O(k log k).
  std::vector<Neighbor> TakeSorted();

 private:
  int64_t k_;
  double bound_;
  double threshold_;
  std::vector<Neighbor> heap_;
};

struct MergedTopK {
  std::vector<Neighbor> neighbors;  // in order, at most k, ids distinct
  // Index of the list each neighbour came from.
  std::vector<int32_t> sources;
  // Ids seen in more than one place: each kept once, at its least distance.
  int64_t duplicate_ids = 0;
};

// The k least of p sorted lists: a p-way merge with a binary heap of list
// heads (Knuth, TAOCP vol. 3, 5.4.1). Candidates with NaN distance are
// dropped. A list that is not sorted is sorted first.
// REQUIRES: k >= 0. O(pk log p).
MergedTopK MergeTopK(absl::Span<const std::vector<Neighbor>> lists, int64_t k);

}  // namespace coterie

#endif  // COTERIE_INDEX_TOP_K_H_
