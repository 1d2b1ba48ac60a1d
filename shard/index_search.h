// The search of one caller in those segments of a snapshot that have the
// structure which the caller's strategy asks for; the others are left to a
// scan (shard/search_pass.h).
//
// Belongs to one thread; Run spreads queries over the idle threads of a queue.
// Rows that were deleted since a structure was built are left out, as are those
// that a filter does not admit; new ones lie in other segments. What is found
// does not depend on the threads.

#ifndef COTERIE_SHARD_INDEX_SEARCH_H_
#define COTERIE_SHARD_INDEX_SEARCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/search.h"
#include "index/certified_codes.h"
#include "index/exact_scan.h"
#include "index/top_k.h"
#include "shard/collection_state.h"
#include "shard/filtered_rows.h"
#include "shard/search_pass.h"
#include "shard/work_queue.h"

namespace coterie {

class IndexSearch {
 public:
  // Keeps references. `filtered`: the rows to answer from; null: all that live.
  // REQUIRES: the strategy is not exact, and the collection has its index;
  // metric and dimension agree; `part` is of all the queries; `filtered` is of
  // the snapshot.
  IndexSearch(const CollectionSnapshot& snapshot, const ScanQueries& queries,
              const Strategy& strategy, const SearchPass::Part& part,
              const FilteredRows* filtered = nullptr);

  // Segments that have no such structure, or no admitted row.
  const std::vector<FilteredSegment>& rest() const { return rest_; }

  // To be called once, by work of the queue. The call's status if it ended
  // first, INTERNAL if FAISS failed: what is found is then incomplete.
  absl::Status Run(WorkQueue* queue);

  // After Run: whether `wanted` neighbours of each query are found, or will be
  // by a scan of the rest, so far as their number goes.
  bool Suffices(int64_t wanted) const;

  // Of one query, once.
  std::vector<Neighbor> TakeNeighbors(int64_t query) {
    return std::move(found_[static_cast<size_t>(query)]);
  }
  const QueryAccount& AccountOf(int64_t query) const {
    return accounts_[static_cast<size_t>(query)];
  }

  // Puts what was run, for people, before the plan of the scan of the rest, and
  // adds what was read.
  void Describe(ShardTimes* times) const;

 private:
  // A segment and its structure, which is kept alive by the first.
  struct Piece {
    FilteredSegment segment;
    std::shared_ptr<const SegmentIndex> index;
  };

  // Queries [first, end). As Run, but for a call that ended: CANCELLED.
  absl::Status Search(int64_t first, int64_t end);
  absl::Status SearchTrees(int64_t first, const ScanQueries& queries,
                           const TreeStrategy& strategy);
  absl::Status SearchHashes(int64_t first, const ScanQueries& queries,
                            const LshStrategy& strategy);
  absl::Status SearchFaiss(int64_t first, const ScanQueries& queries,
                           const FaissStrategy& strategy);
  std::vector<TopK> Tops(int64_t count) const;
  void Keep(int64_t first, std::vector<TopK> tops);
  // What accounts of all kinds have in common.
  template <typename Account>
  void Keep(int64_t first, const std::vector<Account>& accounts);
  // Of a strategy, or of the index.
  double TargetOr(double target_recall) const;
  // How far the search went, for people.
  std::string Limits() const;

  const CollectionSnapshot& snapshot_;
  const ScanQueries& queries_;
  const Strategy strategy_;
  const SearchPass::Part part_;
  const IndexKind kind_;
  std::vector<Piece> pieces_;
  std::vector<FilteredSegment> rest_;
  std::vector<std::vector<Neighbor>> found_;  // by query
  std::vector<QueryAccount> accounts_;
  std::atomic<int64_t> scanned_{0};  // queries that a scan took over
};

}  // namespace coterie

#endif  // COTERIE_SHARD_INDEX_SEARCH_H_
