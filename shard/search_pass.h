// One pass over the rows of segments for the queries of several callers.
//
// Belongs to one thread; Run spreads the pass over the idle threads of a queue.
// Each caller has a k, a radius and an end of its own. What is found is that of
// a canonical scan of the live rows (index/exact_scan.h), the same for any
// number of threads, any division into segments and any company in the pass,
// because the order of neighbours is total. Threads and segments share one
// threshold a query (index/shared_threshold.h): that changes accounts, never
// answers.

#ifndef COTERIE_SHARD_SEARCH_PASS_H_
#define COTERIE_SHARD_SEARCH_PASS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/search.h"
#include "index/certified_codes.h"
#include "index/certified_guess.h"
#include "index/certified_head.h"
#include "index/certified_plane.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/exact_scan.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"
#include "shard/collection_state.h"
#include "shard/filtered_rows.h"
#include "shard/work_queue.h"

namespace coterie {

class SearchPass {
 public:
  // The part of one caller: queries [first, first + count) of the pass.
  struct Part {
    int64_t first = 0;
    int64_t count = 0;
    int64_t keep = 1;   // neighbours of each query, >= 1
    double radius = 0;  // inclusive; infinite: any distance
    CallContext call;
    // By query of the part: what other shards have found, told what is found
    // here; empty: alone. Lists then end at it. Must outlive the pass.
    absl::Span<SharedThreshold> shared;
  };

  // Keeps references to queries and to what is admitted. Where admitted rows
  // are few their vectors are read one by one; otherwise the scan goes over all
  // and masks the others. REQUIRES: sources are of one snapshot; metric and
  // dimension agree, parts cover all queries in order. O(queries x dimension x
  // sources).
  SearchPass(std::vector<FilteredSegment> sources, const ScanQueries& queries,
             std::vector<Part> parts);

  // Before Run: what was found for a query in other segments of the snapshot,
  // sorted, and the account of these. It counts as found here; a full list
  // gives the pass its first threshold.
  void Seed(int64_t query, std::vector<Neighbor> found,
            const QueryAccount& account);
  // Scans; to be called once, by work of the queue. A part whose call ends
  // leaves the pass within a block of rows, at no cost to the others; when all
  // have left the pass ends.
  void Run(WorkQueue* queue);

  // How often threads asked whether to go on, so far; any thread may look. One
  // reads at most half a MiB before it asks again (index/exact_scan.h,
  // index/certified_scan.h), so this bounds what is read once all calls have
  // ended: what one ask allows a thread if there is one part, up to 16 with
  // many.
  int64_t asks() const { return asks_.load(std::memory_order_relaxed); }

  // Whether the part's call ended before its answer was complete.
  bool ended(size_t part) const { return ended_[part].load(); }

  // For a query of a part that has not ended, once. All rows that no threshold
  // rules out, at most `keep`. INTERNAL if an id has two live rows.
  absl::StatusOr<std::vector<Neighbor>> TakeNeighbors(int64_t query);
  QueryAccount AccountOf(int64_t query) const;

  // What was run, for people, and what it read for all parts together, `times`
  // of a part's `accounts` aside.
  void Describe(absl::Span<const QueryAccount> accounts,
                ShardTimes* times) const;

 private:
  // Some rows of one segment that are scanned in one way: all of a sealed one,
  // a block or the rest of a tail.
  struct SegmentScan {
    int64_t rows;
    // The queries against the rows' codes; null: the float32 rows are read.
    std::unique_ptr<const CertifiedQueries> coded;
    const CertifiedPlane* plane;  // of these codes, or null
    // The only query against a head of the rows, or null.
    std::unique_ptr<const CertifiedHeadQuery> head;

    ScanRows scannable;
    int64_t count;  // rows to answer from

    // What a scan reads of a row before any is re-scored; if it reads some of
    // the rows only, on the average.
    double row_bytes() const;
  };

  // Rows [begin, end) of those of the scan.
  struct Chunk {
    const SegmentScan* scan;
    int64_t begin;
    int64_t end;
  };

  // What one thread has found and is about.
  struct Worker {
    std::vector<TopK> tops;
    std::vector<ScanAccount> accounts;
    const SegmentScan* scan = nullptr;
    std::unique_ptr<CertifiedScanner> scanner;  // of that scan, if coded
    std::vector<bool> heeded;  // parts that it does not scan for any more
    size_t heeded_count = 0;
    size_t asked = 0;
  };

  // Puts the scan of most rows last if its thresholds are worth a guess.
  void ChooseGuessed();
  void Guess(WorkQueue* queue);
  void DecideGuesses();
  // Scans and finishes, with guesses or, if some have failed, again for those.
  void ScanAll(const std::vector<Chunk>& chunks, WorkQueue* queue);
  // False if they are of different scans; nothing is finished then.
  bool FinishTogether(const std::vector<Worker*>& unfinished, WorkQueue* queue);
  void MakeScanner(const SegmentScan& scan, Worker* worker);
  void AddScan(const FilteredSegment& source, int64_t first, int64_t rows,
               const CertifiedCodes* codes, const CertifiedPlane* plane,
               const CertifiedHead* head);
  std::vector<Chunk> Chunks(size_t first_scan) const;
  void Begin(Worker* worker) const;
  // These return false when the pass is to end.
  bool ScanChunk(const Chunk& chunk, Worker* worker);
  bool ScanRowsOf(const Chunk& chunk, Worker* worker);
  bool FinishScan(Worker* worker);
  bool GoOn(Worker* worker);
  bool all_ended() const {
    return ended_count_.load(std::memory_order_relaxed) == parts_.size();
  }
  void Share();
  void HeedEnded(Worker* worker);
  void LookForEnded();
  const Part& PartOf(int64_t query) const;

  // What was found elsewhere for a query.
  struct Found {
    std::vector<Neighbor> neighbors;
    QueryAccount account;
  };

  const std::vector<FilteredSegment> sources_;
  const ScanQueries& queries_;
  const std::vector<Part> parts_;
  int64_t rows_filtered_ = 0;  // live, but not admitted
  std::vector<Found> found_;   // by query
  std::vector<SegmentScan> scans_;
  std::vector<SharedThreshold> thresholds_;  // by query
  // By query, for the last of scans_; empty: none.
  std::vector<GuessedThreshold> guesses_;
  bool after_failed_ = false;             // only they are scanned for
  std::vector<std::atomic<bool>> ended_;  // by part
  std::atomic<size_t> ended_count_{0};
  std::atomic<int64_t> asks_{0};
  std::vector<Worker> workers_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_SEARCH_PASS_H_
