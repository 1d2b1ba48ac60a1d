#include "api/points_convert.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "api/collection.h"
#include "api/quoted.h"
#include "api/status_details.h"

namespace coterie {
namespace {

using Ids = google::protobuf::RepeatedField<uint64_t>;

absl::Status CheckCount(absl::string_view field, int64_t count,
                        absl::string_view limit, int64_t bound) {
  if (count == 0) return InvalidField(field, "empty: give at least one");
  if (count > bound) return OverLimit(field, count, limit, bound);
  return absl::OkStatus();
}

// Remembers where each id of a batch stands.
class SeenIds {
 public:
  explicit SeenIds(size_t count) { first_.reserve(count); }

  // INVALID_ARGUMENT naming both positions if `id` was met before. Paths read
  // list[position]member.
  absl::Status Add(PointId id, size_t position, absl::string_view list,
                   absl::string_view member) {
    const auto [it, fresh] = first_.emplace(id, position);
    if (fresh) return absl::OkStatus();
    return InvalidField(
        absl::StrCat(list, "[", position, "]", member),
        absl::StrCat("id ", id, " is already at ", list, "[", it->second, "]",
                     member, "; an id may stand once in a batch"));
  }

 private:
  absl::flat_hash_map<PointId, size_t> first_;
};

// Of an Upsert, Delete or SetAttributes.
template <typename Request>
absl::StatusOr<std::optional<RequestId>> DecodeRequestId(
    const Request& request) {
  if (!request.has_request_id()) return std::optional<RequestId>();
  const v1::RequestId& id = request.request_id();
  const auto bytes = static_cast<int64_t>(id.client_id().size());
  if (bytes < 1 || bytes > kMostClientIdBytes) {
    return InvalidField(
        "request_id.client_id",
        absl::StrCat(bytes, " bytes are not in 1..", kMostClientIdBytes));
  }
  if (!IsValidUtf8(id.client_id())) {
    return InvalidField("request_id.client_id", "it is not UTF-8");
  }
  if (id.sequence() < 0) {
    return InvalidField("request_id.sequence",
                        absl::StrCat(id.sequence(), " is negative"));
  }
  return std::make_optional(RequestId{id.client_id(), id.sequence()});
}

// What every write has; not its items.
template <typename Request>
absl::StatusOr<WriteBatch> DecodeWriteHead(const Request& request,
                                           const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  absl::StatusOr<std::optional<RequestId>> id = DecodeRequestId(request);
  if (!id.ok()) return id.status();
  WriteBatch batch;
  batch.collection = request.collection();
  batch.request_id = *std::move(id);
  return batch;
}

}  // namespace

absl::StatusOr<Point> DecodePoint(const v1::Point& point,
                                  const std::string& field,
                                  const Limits& limits) {
  Point decoded;
  decoded.id = point.id();
  absl::StatusOr<std::vector<float>> vector =
      DecodeVector(point.vector(), absl::StrCat(field, ".vector"), limits);
  if (!vector.ok()) return vector.status();
  decoded.vector = *std::move(vector);
  absl::StatusOr<Attributes> attributes = DecodeAttributes(
      point.attributes(), absl::StrCat(field, ".attributes"), limits);
  if (!attributes.ok()) return attributes.status();
  decoded.attributes = *std::move(attributes);
  return decoded;
}

absl::StatusOr<WriteBatch> DecodeUpsert(const v1::UpsertRequest& request,
                                        const Limits& limits) {
  absl::StatusOr<WriteBatch> batch = DecodeWriteHead(request, limits);
  if (!batch.ok()) return batch;
  absl::Status status =
      CheckCount("points", request.points_size(), "points_per_upsert",
                 limits.points_per_upsert);
  if (!status.ok()) return status;
  const auto count = static_cast<size_t>(request.points_size());
  batch->upserts.reserve(count);
  SeenIds seen(count);
  for (size_t i = 0; i < count; ++i) {
    const v1::Point& point = request.points(static_cast<int>(i));
    status = seen.Add(point.id(), i, "points", ".id");
    if (!status.ok()) return status;
    absl::StatusOr<Point> decoded =
        DecodePoint(point, absl::StrCat("points[", i, "]"), limits);
    if (!decoded.ok()) return decoded.status();
    batch->upserts.push_back(*std::move(decoded));
  }
  return batch;
}

absl::StatusOr<WriteBatch> DecodeDelete(const v1::DeleteRequest& request,
                                        const Limits& limits) {
  absl::StatusOr<WriteBatch> batch = DecodeWriteHead(request, limits);
  if (!batch.ok()) return batch;
  const Ids& ids = request.ids();
  if (request.has_filter()) {
    if (!ids.empty()) return InvalidField("ids", "they do not go with filter");
    auto filter = DecodeFilter(request.filter(), "filter", limits);
    if (!filter.ok()) return filter.status();
    if (filter->empty()) {
      return InvalidField("filter",
                          "without conditions it would delete every point; to "
                          "do that, delete the collection");
    }
    batch->delete_where = *std::move(filter);
    return batch;
  }
  if (request.dry_run()) {
    return InvalidField("dry_run", "it goes with filter");
  }
  absl::Status status =
      CheckCount("ids", ids.size(), "ids_per_request", limits.ids_per_request);
  if (!status.ok()) return status;
  batch->deletes.assign(ids.begin(), ids.end());
  SeenIds seen(batch->deletes.size());
  for (size_t i = 0; i < batch->deletes.size(); ++i) {
    status = seen.Add(batch->deletes[i], i, "ids", "");
    if (!status.ok()) return status;
  }
  return batch;
}

absl::StatusOr<WriteBatch> DecodeSetAttributes(
    const v1::SetAttributesRequest& request, const Limits& limits) {
  absl::StatusOr<WriteBatch> batch = DecodeWriteHead(request, limits);
  if (!batch.ok()) return batch;
  absl::Status status =
      CheckCount("updates", request.updates_size(), "points_per_upsert",
                 limits.points_per_upsert);
  if (!status.ok()) return status;
  if (request.mode() == v1::SetAttributesRequest::MERGE) {
    batch->mode = AttributeMode::kMerge;
  } else if (request.mode() == v1::SetAttributesRequest::REPLACE) {
    batch->mode = AttributeMode::kReplace;
  } else {
    return InvalidField("mode", absl::StrCat(static_cast<int>(request.mode()),
                                             " is neither MERGE nor REPLACE"));
  }
  const auto count = static_cast<size_t>(request.updates_size());
  batch->updates.reserve(count);
  SeenIds seen(count);
  for (size_t i = 0; i < count; ++i) {
    const v1::AttributeUpdate& update = request.updates(static_cast<int>(i));
    status = seen.Add(update.id(), i, "updates", ".id");
    if (!status.ok()) return status;
    absl::StatusOr<Attributes> attributes =
        DecodeAttributes(update.attributes(),
                         absl::StrCat("updates[", i, "].attributes"), limits);
    if (!attributes.ok()) return attributes.status();
    batch->updates.push_back({update.id(), *std::move(attributes)});
  }
  return batch;
}

absl::StatusOr<GetRequest> DecodeGet(const v1::GetRequest& request,
                                     const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  const Ids& ids = request.ids();
  status =
      CheckCount("ids", ids.size(), "ids_per_request", limits.ids_per_request);
  if (!status.ok()) return status;
  absl::StatusOr<AttributeSelector> selector =
      DecodeSelector(request.with_attributes(), "with_attributes", limits);
  if (!selector.ok()) return selector.status();
  GetRequest decoded;
  decoded.collection = request.collection();
  decoded.ids.assign(ids.begin(), ids.end());
  decoded.with_vectors = request.with_vectors();
  decoded.with_attributes = *std::move(selector);
  return decoded;
}

absl::StatusOr<CountRequest> DecodeCount(const v1::CountRequest& request,
                                         const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  absl::StatusOr<Filter> filter =
      DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  return CountRequest{request.collection(), *std::move(filter)};
}

absl::StatusOr<ScanRequest> DecodeScan(const v1::ScanRequest& request,
                                       const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  ScanRequest decoded;
  decoded.collection = request.collection();
  decoded.slices = request.slices() == 0 ? 1 : request.slices();
  if (decoded.slices < 0) {
    return InvalidField("slices", absl::StrCat(decoded.slices, " is negative"));
  }
  if (decoded.slices > limits.slots) {
    return OverLimit("slices", decoded.slices, "slots", limits.slots);
  }
  decoded.slice = request.slice();
  if (decoded.slice < 0 || decoded.slice >= decoded.slices) {
    return InvalidField(
        "slice", absl::StrCat(decoded.slice, " is not in 0..",
                              decoded.slices - 1, ", one less than slices"));
  }
  decoded.limit = request.limit();
  if (decoded.limit < 0) {
    return InvalidField("limit", absl::StrCat(decoded.limit, " is negative"));
  }
  decoded.with_vectors = request.with_vectors();
  absl::StatusOr<AttributeSelector> selector =
      DecodeSelector(request.with_attributes(), "with_attributes", limits);
  if (!selector.ok()) return selector.status();
  decoded.with_attributes = *std::move(selector);
  absl::StatusOr<Filter> filter =
      DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  decoded.filter = *std::move(filter);
  return decoded;
}

void EncodePoint(const Point& point, v1::Point* out) {
  out->set_id(point.id);
  if (!point.vector.empty()) EncodeVector(point.vector, out->mutable_vector());
  EncodeAttributes(point.attributes, out->mutable_attributes());
}

v1::SetAttributesResponse EncodeSetAttributesReply(const WriteReply& reply) {
  v1::SetAttributesResponse out;
  out.set_updated(reply.updated);
  out.mutable_missing()->Add(reply.missing.begin(), reply.missing.end());
  out.set_duplicates(reply.duplicates);
  return out;
}

v1::GetResponse EncodeGetReply(const GetReply& reply) {
  v1::GetResponse out;
  for (const Point& point : reply.points) EncodePoint(point, out.add_points());
  out.mutable_missing()->Add(reply.missing.begin(), reply.missing.end());
  return out;
}

}  // namespace coterie
