// The rows of a snapshot that a filter admits.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_FILTERED_ROWS_H_
#define COTERIE_SHARD_FILTERED_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/filter.h"
#include "api/point.h"
#include "index/row_set.h"
#include "shard/collection_state.h"

namespace coterie {

// The stored attributes of live points, in order, at the snapshot's moment.
using ReadStoredAttributes =
    absl::FunctionRef<absl::StatusOr<std::vector<Attributes>>(
        absl::Span<const PointId> ids)>;

struct FilteredRows {
  struct OfSegment {
    RowSet rows;  // live and admitted
    int64_t count = 0;
  };
  std::vector<OfSegment> segments;  // as the snapshot's
  int64_t count = 0;                // of all
  int64_t records_read = 0;         // where memory does not hold the values
};

// A segment and what of it a search is answered from: of all that lives if
// `admitted` is null.
struct FilteredSegment {
  std::shared_ptr<const SegmentView> view;
  const FilteredRows::OfSegment* admitted = nullptr;

  // Rows [begin, end); only the admitted ones count as live. REQUIRES: as
  // SegmentView::Scannable.
  ScanRows Scannable(int64_t begin, int64_t end) const;
  ScanRows Scannable() const { return Scannable(0, view->rows()); }
  // Rows to answer from.
  int64_t count() const {
    return admitted == nullptr ? view->live() : admitted->count;
  }
};

// The segments of a snapshot; `filtered`, of the same, may be null.
std::vector<FilteredSegment> SegmentsOf(const CollectionSnapshot& snapshot,
                                        const FilteredRows* filtered);

// Asks the segments' columns; rows that these leave in doubt are decided by
// their records. CANCELLED or DEADLINE_EXCEEDED soon after the call ends;
// errors of `read` as they are. O(rows / 64 x conditions, rows that pass one,
// and records read).
absl::StatusOr<FilteredRows> FilterRows(const CollectionSnapshot& snapshot,
                                        const Filter& filter,
                                        const CallContext& call,
                                        ReadStoredAttributes read);

}  // namespace coterie

#endif  // COTERIE_SHARD_FILTERED_ROWS_H_
