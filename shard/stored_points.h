// Reads of what a shard has stored, at a view: attributes by id, and walks
// over points in the order of their keys.
//
// Functions are thread-safe; a PointWalk is used by one thread at a time. A
// record that is damaged or missing is DATA_LOSS naming it.

#ifndef COTERIE_SHARD_STORED_POINTS_H_
#define COTERIE_SHARD_STORED_POINTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "api/call.h"
#include "api/filter.h"
#include "api/point.h"
#include "api/search.h"
#include "api/shard_messages.h"
#include "shard/filtered_rows.h"
#include "shard/partition.h"
#include "shard/record_store.h"
#include "shard/reply_budget.h"

namespace coterie {

// The selected attributes of each id. CANCELLED or DEADLINE_EXCEEDED soon after
// the call ends; RESOURCE_EXHAUSTED beyond the budget. REQUIRES: the points are
// live in the view.
absl::StatusOr<std::vector<Attributes>> ReadAttributes(
    RecordStore* store, const ReadView& view, absl::Span<const PointId> ids,
    const AttributeSelector& selector, const CallContext& call,
    ReplyBudget* budget);

// The same for the hits of each query, filled in.
absl::Status FillAttributes(RecordStore* store, const ReadView& view,
                            const AttributeSelector& selector,
                            const CallContext& call, ReplyBudget* budget,
                            std::vector<std::vector<Hit>>* results);

// The points asked for, as far as they live; ids of others are listed.
// RESOURCE_EXHAUSTED beyond the budget; as ReadAttributes.
absl::StatusOr<GetReply> ReadPoints(RecordStore* store, const ReadView& view,
                                    const GetRequest& request,
                                    const CallContext& call,
                                    ReplyBudget* budget);

// Calls visit(id, attributes) for every point of the view. CANCELLED or
// DEADLINE_EXCEEDED soon after the call ends.
absl::Status VisitAttributes(
    RecordStore* store, const ReadView& view, const CallContext& call,
    absl::FunctionRef<void(PointId, const Attributes&)> visit);

// The rows of the view that the filter admits; records are read where memory
// does not hold what it asks (shard/filtered_rows.h).
absl::StatusOr<FilteredRows> AdmittedRows(RecordStore* store,
                                          const ReadView& view,
                                          const Filter& filter,
                                          const CallContext& call);

// Whether a point belongs to a slice. Slice i of n holds the i-th n-th of all
// (slot, hash) pairs in order: slices are disjoint, together they are the
// collection, whatever the shards, and each reads only its own slots and one
// more. REQUIRES: 0 <= slice < slices; slot is the id's.
bool InSlice(PointId id, int32_t slot, int32_t slots, int32_t slice,
             int32_t slices);

// The points of one slice that a filter admits, by slot, then id, a page at a
// time.
class PointWalk {
 public:
  // A page holds at most `page_bytes` of ids, vectors and attributes, or one
  // point. INVALID_ARGUMENT naming the field if slice, slices or limit are out
  // of range.
  static absl::StatusOr<std::unique_ptr<PointWalk>> Start(RecordStore* store,
                                                          ReadView view,
                                                          ScanRequest request,
                                                          int64_t page_bytes);

  // The next page; `end` is set on the last, and on empty ones after it.
  // CANCELLED or DEADLINE_EXCEEDED soon after the call ends; after an error the
  // walk is over.
  absl::StatusOr<ScanPage> Next(const CallContext& call);

 private:
  PointWalk(RecordStore* store, ReadView view, ScanRequest request,
            int64_t page_bytes);

  // With a filter: attributes in memory tell which points there are, and no
  // others are read.
  absl::Status Admit(const CallContext& call);
  absl::StatusOr<ScanPage> NextAdmitted(const CallContext& call);
  absl::StatusOr<Point> AdmittedPoint(const CallContext& call);

  // The point under the cursor, if it is of the slice.
  absl::StatusOr<std::optional<Point>> Visit() const;
  void Open();
  void Advance();

  RecordStore* const store_;
  const ReadView view_;
  const ScanRequest request_;
  const int64_t page_bytes_;
  int64_t returned_ = 0;
  std::optional<std::vector<PointId>> admitted_;  // by slot, then id
  std::vector<Attributes> read_;                  // of the next of these
  size_t next_read_ = 0;
  int64_t visited_ = 0;
  int64_t expected_ = 0;  // points in the slots that are walked
  // Opened by the first Next, since that may read from the disk.
  // Every point has an attributes record, so this one leads; the other, if
  // vectors are wanted, must keep step.
  std::unique_ptr<RecordStore::Cursor> attributes_;
  std::unique_ptr<RecordStore::Cursor> rows_;
};

}  // namespace coterie

#endif  // COTERIE_SHARD_STORED_POINTS_H_
