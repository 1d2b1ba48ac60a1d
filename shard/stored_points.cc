#include "shard/stored_points.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "api/placement.h"
#include "api/status_details.h"
#include "shard/record_codec.h"

namespace coterie {
namespace {

// Attribute sets read at once: bounds what is held beside the reply.
constexpr size_t kReadBatch = 256;

// Points between two looks at the clock.
constexpr int64_t kPointsPerCheck = 64;

absl::Status Lost(absl::string_view what, absl::string_view key,
                  absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat(what, " (", KeyName(key), "): ", why));
}

absl::Status LostSome(const ReadView& view, int64_t points, int64_t found) {
  return absl::DataLossError(
      absl::StrCat("collection '", view.rows->spec().name, "': attributes of ",
                   found, " points instead of ", points, " are stored"));
}

absl::Status ReadBatch(RecordStore* store, const ReadView& view,
                       absl::Span<const PointId> ids,
                       const AttributeSelector& selector, ReplyBudget* budget,
                       std::vector<Attributes>* out) {
  const CollectionSpec& spec = view.rows->spec();
  std::vector<std::string> keys;
  keys.reserve(ids.size());
  for (const PointId id : ids) {
    keys.push_back(EncodeKey({spec.number, SlotOf(id, spec.slots), id}));
  }
  const auto values =
      store->Read(Family::kAttributes, keys, view.records.get());
  if (!values.ok()) return values.status();
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::optional<std::string>& value = (*values)[i];
    if (!value.has_value()) {
      return Lost("attributes", keys[i], "the record is missing");
    }
    const auto attributes = DecodeAttributes(*value);
    if (!attributes.ok()) {
      return Lost("attributes", keys[i], attributes.status().message());
    }
    out->push_back(selector.Select(*attributes));
    const absl::Status status = budget->Take(AttributeBytes(out->back()));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

int64_t BytesOf(const Point& point) {
  return static_cast<int64_t>(sizeof(PointId) +
                              point.vector.size() * sizeof(float)) +
         AttributeBytes(point.attributes);
}

absl::Status CheckRequest(const ScanRequest& request) {
  if (request.slices < 1) {
    return InvalidField("slices",
                        absl::StrCat(request.slices, " is less than 1"));
  }
  if (request.slice < 0 || request.slice >= request.slices) {
    return InvalidField("slice", absl::StrCat(request.slice, " is not in 0..",
                                              request.slices - 1));
  }
  if (request.limit < 0) {
    return InvalidField("limit", absl::StrCat(request.limit, " is negative"));
  }
  return absl::OkStatus();
}

std::unique_ptr<RecordStore::Cursor> WalkSlots(RecordStore* store,
                                               const ReadView& view,
                                               Family family, int32_t begin,
                                               int32_t end) {
  const uint32_t number = view.rows->spec().number;
  return store->Walk(family, SlotStart(number, begin), SlotStart(number, end),
                     view.records.get());
}

}  // namespace

absl::StatusOr<std::vector<Attributes>> ReadAttributes(
    RecordStore* store, const ReadView& view, absl::Span<const PointId> ids,
    const AttributeSelector& selector, const CallContext& call,
    ReplyBudget* budget) {
  std::vector<Attributes> out;
  out.reserve(ids.size());
  for (size_t begin = 0; begin < ids.size(); begin += kReadBatch) {
    if (call.ShouldStop()) return call.status();
    const absl::Status status = ReadBatch(
        store, view, ids.subspan(begin, kReadBatch), selector, budget, &out);
    if (!status.ok()) return status;
  }
  return out;
}

absl::Status FillAttributes(RecordStore* store, const ReadView& view,
                            const AttributeSelector& selector,
                            const CallContext& call, ReplyBudget* budget,
                            std::vector<std::vector<Hit>>* results) {
  if (selector.none()) return absl::OkStatus();
  for (std::vector<Hit>& hits : *results) {
    std::vector<PointId> ids;
    for (const Hit& hit : hits) ids.push_back(hit.neighbor.id);
    auto attributes = ReadAttributes(store, view, ids, selector, call, budget);
    if (!attributes.ok()) return attributes.status();
    for (size_t i = 0; i < hits.size(); ++i) {
      hits[i].attributes = std::move((*attributes)[i]);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<GetReply> ReadPoints(RecordStore* store, const ReadView& view,
                                    const GetRequest& request,
                                    const CallContext& call,
                                    ReplyBudget* budget) {
  GetReply reply;
  std::vector<PointId> found;
  for (const PointId id : request.ids) {
    const auto vector = view.rows->Find(id);
    if (!vector.has_value()) {
      reply.missing.push_back(id);
      continue;
    }
    Point point;
    point.id = id;
    if (request.with_vectors) {
      const absl::Status status =
          budget->Take(static_cast<int64_t>(vector->size() * sizeof(float)));
      if (!status.ok()) return status;
      point.vector.assign(vector->begin(), vector->end());
    }
    reply.points.push_back(std::move(point));
    found.push_back(id);
  }
  if (request.with_attributes.none()) return reply;
  auto attributes =
      ReadAttributes(store, view, found, request.with_attributes, call, budget);
  if (!attributes.ok()) return attributes.status();
  for (size_t i = 0; i < found.size(); ++i) {
    reply.points[i].attributes = std::move((*attributes)[i]);
  }
  return reply;
}

absl::Status VisitAttributes(
    RecordStore* store, const ReadView& view, const CallContext& call,
    absl::FunctionRef<void(PointId, const Attributes&)> visit) {
  const auto cursor = WalkSlots(store, view, Family::kAttributes, 0, kMaxSlots);
  int64_t visited = 0;
  for (; cursor->Valid(); cursor->Next()) {
    if (visited++ % kPointsPerCheck == 0 && call.ShouldStop()) {
      return call.status();
    }
    const auto key = DecodeKey(cursor->key());
    if (!key.ok()) {
      return Lost("attributes", cursor->key(), key.status().message());
    }
    const auto attributes = DecodeAttributes(cursor->value());
    if (!attributes.ok()) {
      return Lost("attributes", cursor->key(), attributes.status().message());
    }
    visit(key->id, *attributes);
  }
  if (!cursor->status().ok()) return cursor->status();
  if (visited != view.rows->rows_live()) {
    return LostSome(view, view.rows->rows_live(), visited);
  }
  return absl::OkStatus();
}

absl::StatusOr<FilteredRows> AdmittedRows(RecordStore* store,
                                          const ReadView& view,
                                          const Filter& filter,
                                          const CallContext& call) {
  AttributeSelector all;
  all.all = true;
  return FilterRows(
      *view.rows, filter, call, [&](absl::Span<const PointId> ids) {
        // Of records, of which few are held at a time; not of a reply.
        ReplyBudget budget(std::numeric_limits<int64_t>::max());
        return ReadAttributes(store, view, ids, all, call, &budget);
      });
}

bool InSlice(PointId id, int32_t slot, int32_t slots, int32_t slice,
             int32_t slices) {
  // The position in [0, slots * 2^32) and its share of `slices`.
  const uint64_t position =
      (static_cast<uint64_t>(slot) << 32) | (SplitMix64(id) >> 32);
  const absl::uint128 share = absl::uint128(position) *
                              static_cast<uint64_t>(slices) /
                              (static_cast<uint64_t>(slots) << 32);
  return share == static_cast<uint64_t>(slice);
}

absl::StatusOr<std::unique_ptr<PointWalk>> PointWalk::Start(
    RecordStore* store, ReadView view, ScanRequest request,
    int64_t page_bytes) {
  const absl::Status status = CheckRequest(request);
  if (!status.ok()) return status;
  return std::unique_ptr<PointWalk>(
      new PointWalk(store, std::move(view), std::move(request), page_bytes));
}

PointWalk::PointWalk(RecordStore* store, ReadView view, ScanRequest request,
                     int64_t page_bytes)
    : store_(store),
      view_(std::move(view)),
      request_(std::move(request)),
      page_bytes_(page_bytes) {}

void PointWalk::Open() {
  const int64_t slots = view_.rows->spec().slots;
  const int64_t slice = request_.slice;
  const int64_t slices = request_.slices;
  const auto begin = static_cast<int32_t>(slice * slots / slices);
  const auto end =
      static_cast<int32_t>(((slice + 1) * slots + slices - 1) / slices);
  for (const SlotState& state : view_.rows->slots()) {
    if (state.slot >= begin && state.slot < end) expected_ += state.rows;
  }
  attributes_ = WalkSlots(store_, view_, Family::kAttributes, begin, end);
  if (request_.with_vectors) {
    rows_ = WalkSlots(store_, view_, Family::kRows, begin, end);
  }
}

void PointWalk::Advance() {
  attributes_->Next();
  if (rows_ != nullptr && rows_->Valid()) rows_->Next();
}

absl::StatusOr<std::optional<Point>> PointWalk::Visit() const {
  const absl::string_view name = attributes_->key();
  const auto key = DecodeKey(name);
  if (!key.ok()) return Lost("attributes", name, key.status().message());
  if (rows_ != nullptr && (!rows_->Valid() || rows_->key() != name)) {
    if (!rows_->status().ok()) return rows_->status();
    return Lost("row", name, "it is not beside its attributes");
  }
  const CollectionSpec& spec = view_.rows->spec();
  if (!InSlice(key->id, key->slot, spec.slots, request_.slice,
               request_.slices)) {
    return std::nullopt;
  }
  const auto attributes = DecodeAttributes(attributes_->value());
  if (!attributes.ok()) {
    return Lost("attributes", name, attributes.status().message());
  }
  Point point;
  point.id = key->id;
  if (rows_ != nullptr) {
    point.vector.resize(static_cast<size_t>(spec.dimension));
    const absl::Status status =
        DecodeVector(rows_->value(), absl::MakeSpan(point.vector));
    if (!status.ok()) return Lost("row", name, status.message());
  }
  point.attributes = request_.with_attributes.Select(*attributes);
  return point;
}

absl::Status PointWalk::Admit(const CallContext& call) {
  const auto filtered = AdmittedRows(store_, view_, request_.filter, call);
  if (!filtered.ok()) return filtered.status();
  const int32_t slots = view_.rows->spec().slots;
  std::vector<std::pair<int32_t, PointId>> places;
  for (size_t i = 0; i < filtered->segments.size(); ++i) {
    const PointId* const ids = view_.rows->segments()[i]->segment()->ids();
    filtered->segments[i].rows.ForEach([&](int64_t row) {
      const int32_t slot = SlotOf(ids[row], slots);
      if (InSlice(ids[row], slot, slots, request_.slice, request_.slices)) {
        places.emplace_back(slot, ids[row]);
      }
    });
  }
  std::sort(places.begin(), places.end());
  admitted_.emplace();
  admitted_->reserve(places.size());
  for (const auto& [slot, id] : places) admitted_->push_back(id);
  return absl::OkStatus();
}

absl::StatusOr<Point> PointWalk::AdmittedPoint(const CallContext& call) {
  const auto at = static_cast<size_t>(returned_);
  Point point;
  point.id = (*admitted_)[at];
  if (request_.with_vectors) {
    const auto vector = view_.rows->Find(point.id);
    if (!vector.has_value()) {
      return absl::InternalError(
          absl::StrCat("point ", point.id, " was admitted but has no row"));
    }
    point.vector.assign(vector->begin(), vector->end());
  }
  if (request_.with_attributes.none()) return point;
  if (next_read_ == read_.size()) {
    // Of records, of which few are held at a time; pages have a limit.
    ReplyBudget budget(std::numeric_limits<int64_t>::max());
    auto read = ReadAttributes(
        store_, view_,
        absl::MakeConstSpan(*admitted_).subspan(at, kPointsPerCheck),
        request_.with_attributes, call, &budget);
    if (!read.ok()) return read.status();
    read_ = *std::move(read);
    next_read_ = 0;
  }
  point.attributes = read_[next_read_];
  return point;
}

absl::StatusOr<ScanPage> PointWalk::NextAdmitted(const CallContext& call) {
  if (!admitted_.has_value()) {
    const absl::Status status = Admit(call);
    if (!status.ok()) return status;
  }
  ScanPage page;
  int64_t bytes = 0;
  const auto all = static_cast<int64_t>(admitted_->size());
  const int64_t end = request_.limit > 0 ? std::min(request_.limit, all) : all;
  for (; returned_ < end; ++returned_, ++next_read_) {
    if (returned_ % kPointsPerCheck == 0 && call.ShouldStop()) {
      return call.status();
    }
    auto point = AdmittedPoint(call);
    if (!point.ok()) return point.status();
    bytes += BytesOf(*point);
    if (bytes > page_bytes_ && !page.points.empty()) return page;
    page.points.push_back(*std::move(point));
  }
  page.end = true;
  return page;
}

absl::StatusOr<ScanPage> PointWalk::Next(const CallContext& call) {
  if (!request_.filter.empty()) return NextAdmitted(call);
  ScanPage page;
  int64_t bytes = 0;
  if (attributes_ == nullptr) Open();
  for (; attributes_->Valid(); ++visited_, Advance()) {
    if (request_.limit > 0 && returned_ >= request_.limit) {
      page.end = true;
      return page;
    }
    if (visited_ % kPointsPerCheck == 0 && call.ShouldStop()) {
      return call.status();
    }
    auto point = Visit();
    if (!point.ok()) return point.status();
    if (!point->has_value()) continue;
    bytes += BytesOf(**point);
    if (bytes > page_bytes_ && !page.points.empty()) return page;
    page.points.push_back(std::move(**point));
    ++returned_;
  }
  if (!attributes_->status().ok()) return attributes_->status();
  if (visited_ != expected_) return LostSome(view_, expected_, visited_);
  page.end = true;
  return page;
}

}  // namespace coterie
