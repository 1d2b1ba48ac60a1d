#include "shard/filtered_rows.h"

#include <utility>

#include "absl/status/status.h"

namespace coterie {
namespace {

// Records read before the next look at the clock.
constexpr size_t kReadAtOnce = 1024;

// Adds to `rows` those in doubt whose records the filter admits.
absl::Status Decide(const SegmentView& view, const Filter& filter,
                    const RowSet& doubtful, const CallContext& call,
                    ReadStoredAttributes read, FilteredRows::OfSegment* out,
                    int64_t* records_read) {
  std::vector<int64_t> rows;
  doubtful.ForEach([&rows](int64_t row) { rows.push_back(row); });
  std::vector<PointId> ids;
  for (size_t begin = 0; begin < rows.size(); begin += kReadAtOnce) {
    if (call.ShouldStop()) return call.status();
    ids.clear();
    for (size_t i = begin; i < rows.size() && ids.size() < kReadAtOnce; ++i) {
      ids.push_back(view.segment()->id(rows[i]));
    }
    const auto attributes = read(ids);
    if (!attributes.ok()) return attributes.status();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (Admits(filter, ids[i], (*attributes)[i])) {
        out->rows.Add(rows[begin + i]);
      }
    }
    *records_read += static_cast<int64_t>(ids.size());
  }
  return absl::OkStatus();
}

}  // namespace

ScanRows FilteredSegment::Scannable(int64_t begin, int64_t end) const {
  ScanRows rows = view->Scannable(begin, end);
  if (admitted != nullptr) rows.live = admitted->rows.words() + begin / 64;
  return rows;
}

std::vector<FilteredSegment> SegmentsOf(const CollectionSnapshot& snapshot,
                                        const FilteredRows* filtered) {
  std::vector<FilteredSegment> segments;
  segments.reserve(snapshot.segments().size());
  for (size_t i = 0; i < snapshot.segments().size(); ++i) {
    segments.push_back({snapshot.segments()[i], filtered == nullptr
                                                    ? nullptr
                                                    : &filtered->segments[i]});
  }
  return segments;
}

absl::StatusOr<FilteredRows> FilterRows(const CollectionSnapshot& snapshot,
                                        const Filter& filter,
                                        const CallContext& call,
                                        ReadStoredAttributes read) {
  FilteredRows filtered;
  filtered.segments.reserve(snapshot.segments().size());
  for (const auto& view : snapshot.segments()) {
    if (call.ShouldStop()) return call.status();
    Admission admission = view->Evaluate(filter);
    FilteredRows::OfSegment& segment = filtered.segments.emplace_back();
    segment.rows = std::move(admission.sure);
    if (admission.possible.has_value()) {
      admission.possible->Subtract(segment.rows);
      const absl::Status status =
          Decide(*view, filter, *admission.possible, call, read, &segment,
                 &filtered.records_read);
      if (!status.ok()) return status;
    }
    segment.count = segment.rows.Count();
    filtered.count += segment.count;
  }
  return filtered;
}

}  // namespace coterie
