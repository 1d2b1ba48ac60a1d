// Which way of answering a query costs least, as far as can be said before.
//
// Stateless; any thread. The choice decides how long a search takes; it never
// makes an exact answer less so, nor gives up a target.
//
// Costs are of one query, from bytes read and rows met, at rates that the
// caller has measured, and how many these are each structure has seen when it
// was built, on rows of its own: leaves of boxes (BoxTree::Leaves), the part of
// the codes that cells need for the target (CellTree::Budget), what LSH meets
// and how often it ends in a scan (LshIndex::CostFor), what FAISS compares
// (FaissIndex::Work). A scan reads all codes; in company it reads them once for
// several queries, and where a filter leaves few rows (GatherPays), it reads
// these alone. What no count tells, a segment's scales do: what a few searches
// of it took over what is predicted for them. A first look at less than the
// codes is in the scale of the scan, misses of the cache in that of a tree.

#ifndef COTERIE_INDEX_PLANNER_H_
#define COTERIE_INDEX_PLANNER_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/types/span.h"
#include "index/faiss_index.h"
#include "index/lsh.h"
#include "index/tree.h"

namespace coterie {

// Seconds.
struct SearchRates {
  double code_byte = 0;        // of codes, read for one query alone
  double code_byte_batch = 0;  // for each of many queries
  double float_byte = 0;       // of float32 rows
  double faiss_component = 0;  // compared by FAISS, one of a row's
};

// A row that is read alone costs as much as the codes of so many in a scan:
// measured, 16 if there is one query, 25 if there are many (docs/adr/0021).
inline constexpr int64_t kRowsGathered = 24;

// Whether to read the vectors of `count` of `rows` rows one by one rather than
// the codes of all.
inline bool GatherPays(int64_t count, int64_t rows) {
  return count * kRowsGathered < rows;
}

// Seconds that searches of a segment take, alone, over what is predicted with
// scales of 1.
struct PlanScales {
  double scan = 1;
  double tree = 1;
  double lsh = 1;
  double faiss = 1;
};

struct PlanQuestion {
  int64_t dimension = 0;
  int64_t queries = 1;
  int64_t k = 1;
  double target_recall = 1;  // (0, 1]; 1 is exact
  // (0, 1]: the part of the rows to answer from. The k-th of them lies as far
  // as one of a larger k among all.
  double admitted = 1;
};

struct PlanSegment {
  int64_t rows = 0;
  bool coded = false;
  const Tree* tree = nullptr;     // null: none
  const LshIndex* lsh = nullptr;  // null: none
  const FaissIndex* faiss = nullptr;
  PlanScales scales;
};

struct Plan {
  enum class Kind { kScan, kTree, kLsh, kFaiss };

  Kind kind = Kind::kScan;
  // Predicted, of one query over all segments; infinite if no segment has the
  // structure, or it cannot serve the question.
  double scan_seconds = 0;
  double tree_seconds = std::numeric_limits<double>::infinity();
  double lsh_seconds = std::numeric_limits<double>::infinity();
  double faiss_seconds = std::numeric_limits<double>::infinity();

  // "predicted a query: scan 1.61 ms, tree 0.21 ms".
  std::string Reason() const;
};

// The least; the scan if others do not beat it. Segments without a structure
// are scanned in every plan. REQUIRES: dimension, queries, k >= 1.
Plan ChoosePlan(const PlanQuestion& question,
                absl::Span<const PlanSegment> segments,
                const SearchRates& rates);

}  // namespace coterie

#endif  // COTERIE_INDEX_PLANNER_H_
