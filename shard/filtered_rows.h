// The rows of a snapshot that a filter admits.
//
// Stateless; any thread.

#ifndef COTERIE_SHARD_FILTERED_ROWS_H_
#define COTERIE_SHARD_FILTERED_ROWS_H_

#include <cstdint>
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
