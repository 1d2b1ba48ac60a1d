// The rows of a snapshot that a job works on: those that its filter admits and
// that have the numbers it needs, segment by segment.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_JOB_ROWS_H_
#define COTERIE_SHARD_JOB_ROWS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/filter.h"
#include "index/exact_scan.h"
#include "shard/partition.h"
#include "shard/record_store.h"

namespace coterie {

// Rows of one segment; valid as long as the JobRows they are of.
struct JobSegment {
  ScanRows rows;  // `live` has those that take part
  // By attribute asked for: one value a row; unset where the row takes no part.
  std::vector<std::vector<double>> values;
};

class JobRows {
 public:
  // Rows of the view that `filter` admits, with the numeric attributes named. A
  // row that lacks one (or has it as no number) is left out and counted if
  // `skip_missing`; otherwise FAILED_PRECONDITION naming the attribute, how
  // many rows lack it, and the least id of them. Without filter and attributes
  // nothing is read. CANCELLED or DEADLINE_EXCEEDED soon after the call ends;
  // DATA_LOSS if the records are not those of the view.
  // O(rows x (log rows + conditions)).
  static absl::StatusOr<std::unique_ptr<JobRows>> Select(
      RecordStore* store, const ReadView& view, const Filter& filter,
      absl::Span<const std::string> attributes, bool skip_missing,
      const CallContext& call);

  const std::vector<JobSegment>& segments() const { return segments_; }
  int64_t rows() const { return rows_; }
  int64_t missing() const { return missing_; }

 private:
  class Walk;

  JobRows() = default;

  // Holds the segments' memory.
  std::shared_ptr<const CollectionSnapshot> snapshot_;
  std::vector<JobSegment> segments_;
  std::vector<std::vector<uint64_t>>
      live_;  // by segment; empty: the snapshot's
  int64_t rows_ = 0;
  int64_t missing_ = 0;
  PointId first_missing_ = 0;  // if any are
};

}  // namespace coterie

#endif  // COTERIE_SHARD_JOB_ROWS_H_
