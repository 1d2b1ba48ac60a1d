#include "api/shard_convert.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/collections_convert.h"
#include "api/points_convert.h"
#include "api/quoted.h"
#include "api/shard_reply_check.h"
#include "api/status_details.h"

namespace coterie {
namespace {

using Points = google::protobuf::RepeatedPtrField<v1::Point>;

absl::Status DecodeUpserts(const Points& points, const Limits& limits,
                           std::vector<Point>* out) {
  if (points.size() > limits.points_per_upsert) {
    return OverLimit("upserts", points.size(), "points_per_upsert",
                     limits.points_per_upsert);
  }
  out->reserve(static_cast<size_t>(points.size()));
  for (int i = 0; i < points.size(); ++i) {
    auto point =
        DecodePoint(points[i], absl::StrCat("upserts[", i, "]"), limits);
    if (!point.ok()) return point.status();
    out->push_back(*std::move(point));
  }
  return absl::OkStatus();
}

absl::Status DecodeUpdates(
    const google::protobuf::RepeatedPtrField<v1::ShardAttributeUpdate>& updates,
    const Limits& limits, std::vector<AttributeUpdate>* out) {
  if (updates.size() > limits.points_per_upsert) {
    return OverLimit("updates", updates.size(), "points_per_upsert",
                     limits.points_per_upsert);
  }
  out->reserve(static_cast<size_t>(updates.size()));
  for (int i = 0; i < updates.size(); ++i) {
    auto attributes =
        DecodeAttributes(updates[i].attributes(),
                         absl::StrCat("updates[", i, "].attributes"), limits);
    if (!attributes.ok()) return attributes.status();
    out->push_back({updates[i].id(), *std::move(attributes)});
  }
  return absl::OkStatus();
}

absl::StatusOr<RequestId> DecodeRequestId(const v1::ShardRequestId& id) {
  const auto bytes = static_cast<int64_t>(id.client_id().size());
  if (bytes < 1 || bytes > kMostClientIdBytes) {
    return InvalidField(
        "request_id.client_id",
        absl::StrCat(bytes, " bytes are not in 1..", kMostClientIdBytes));
  }
  if (id.sequence() < 0) {
    return InvalidField("request_id.sequence",
                        absl::StrCat(id.sequence(), " is negative"));
  }
  return RequestId{id.client_id(), id.sequence()};
}

// A point of a reply, whose vector is there exactly if it was asked for.
absl::StatusOr<Point> DecodeFound(const v1::Point& point, bool with_vectors) {
  if (point.has_vector() != with_vectors) {
    return Misfit(absl::StrCat(
        "point ", point.id(),
        with_vectors ? " has no vector" : " has a vector nobody wanted"));
  }
  Point found;
  found.id = point.id();
  const std::string name = absl::StrCat("point ", point.id());
  if (with_vectors) {
    auto vector = DecodeVector(point.vector(), name, LimitsOfReplies());
    if (!vector.ok()) return Misfit(vector.status().message());
    found.vector = *std::move(vector);
  }
  auto attributes =
      DecodeAttributes(point.attributes(), name, LimitsOfReplies());
  if (!attributes.ok()) return Misfit(attributes.status().message());
  found.attributes = *std::move(attributes);
  return found;
}

absl::StatusOr<std::vector<Point>> DecodeAllFound(const Points& points,
                                                  bool with_vectors) {
  std::vector<Point> found;
  found.reserve(static_cast<size_t>(points.size()));
  for (const v1::Point& point : points) {
    auto decoded = DecodeFound(point, with_vectors);
    if (!decoded.ok()) return decoded.status();
    found.push_back(*std::move(decoded));
  }
  return found;
}

absl::StatusOr<CollectionSpec> DecodeEntry(const v1::CatalogueEntry& entry,
                                           const std::string& field,
                                           uint32_t next_number) {
  auto spec = DecodeCollection(entry.collection(), LimitsOfReplies());
  if (!spec.ok()) return InvalidField(field, spec.status().message());
  if (entry.owner_size() != spec->slots) {
    return InvalidField(
        absl::StrCat(field, ".owner"),
        absl::StrCat(entry.owner_size(), " owners of ", spec->slots, " slots"));
  }
  for (const int32_t owner : entry.owner()) {
    if (owner < 0) {
      return InvalidField(absl::StrCat(field, ".owner"),
                          absl::StrCat(owner, " is no shard"));
    }
  }
  if (entry.number() >= next_number) {
    return InvalidField(
        absl::StrCat(field, ".number"),
        absl::StrCat(entry.number(), " is not below next_number ",
                     next_number));
  }
  spec->number = entry.number();
  spec->owner.assign(entry.owner().begin(), entry.owner().end());
  return spec;
}

absl::StatusOr<std::vector<IndexState>> DecodeIndexStates(
    const google::protobuf::RepeatedPtrField<v1::IndexState>& states) {
  std::vector<IndexState> decoded;
  for (const v1::IndexState& s : states) {
    const auto kind = std::find_if(
        std::begin(kIndexKinds), std::end(kIndexKinds), [&s](IndexKind known) {
          return static_cast<int>(known) == static_cast<int>(s.kind());
        });
    if (kind == std::end(kIndexKinds)) {
      return Misfit(absl::StrCat("an index is of kind ", s.kind()));
    }
    const absl::Status status =
        CheckCounts({{"an index's segments", s.segments()},
                     {"an index's segments_ready", s.segments_ready()},
                     {"an index's rows", s.rows()},
                     {"an index's rows_ready", s.rows_ready()},
                     {"an index's bytes", s.bytes()},
                     {"an index's bytes_expected", s.bytes_expected()}});
    if (!status.ok()) return status;
    decoded.push_back({*kind, s.segments(), s.segments_ready(), s.rows(),
                       s.rows_ready(), s.bytes(), s.bytes_expected(),
                       s.note()});
  }
  return decoded;
}

}  // namespace

// --- Headers ----------------------------------------------------------------

absl::Status CheckShardRequestHeader(const v1::ShardRequestHeader& header,
                                     int32_t shard_id,
                                     absl::string_view cluster_uuid,
                                     absl::string_view store_id) {
  if (header.has_shard_id() && header.shard_id() != shard_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("the request is for shard ", header.shard_id(),
                     ", but this is shard ", shard_id));
  }
  if (!header.cluster_uuid().empty() && header.cluster_uuid() != cluster_uuid) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the request is for cluster ", Quoted(header.cluster_uuid()),
        ", but this shard is of cluster ", Quoted(cluster_uuid)));
  }
  if (!header.store_id().empty() && !store_id.empty() &&
      header.store_id() != store_id) {
    return absl::UnavailableError(
        absl::StrCat("the request is for store ", Quoted(header.store_id()),
                     ", but this shard runs on store ", Quoted(store_id),
                     ": its disk was lost or replaced"));
  }
  return absl::OkStatus();
}

absl::Status CheckShardReplyHeader(const v1::ShardReplyHeader& header,
                                   std::optional<int32_t> expected) {
  if (expected.has_value() && header.shard_id() != *expected) {
    return absl::FailedPreconditionError(
        absl::StrCat("shard ", *expected, " was asked, but shard ",
                     header.shard_id(), " answered"));
  }
  return CheckSeconds("shard_seconds", header.shard_seconds());
}

// --- Write ------------------------------------------------------------------

void EncodeShardRequest(const WriteBatch& batch, v1::ShardWriteRequest* out) {
  out->mutable_header()->set_collection_number(batch.number);
  out->set_collection(batch.collection);
  out->mutable_upserts()->Reserve(static_cast<int>(batch.upserts.size()));
  for (const Point& point : batch.upserts) {
    EncodePoint(point, out->add_upserts());
  }
  out->mutable_deletes()->Add(batch.deletes.begin(), batch.deletes.end());
  for (const AttributeUpdate& update : batch.updates) {
    v1::ShardAttributeUpdate* u = out->add_updates();
    u->set_id(update.id);
    EncodeAttributes(update.attributes, u->mutable_attributes());
  }
  out->set_replace_attributes(batch.mode == AttributeMode::kReplace);
  if (batch.request_id.has_value()) {
    out->mutable_request_id()->set_client_id(batch.request_id->client_id);
    out->mutable_request_id()->set_sequence(batch.request_id->sequence);
  }
  if (!batch.delete_where.empty()) {
    EncodeFilter(batch.delete_where, out->mutable_delete_where());
  }
}

absl::StatusOr<WriteBatch> DecodeShardRequest(
    const v1::ShardWriteRequest& request, const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  WriteBatch batch;
  batch.collection = request.collection();
  batch.number = request.header().collection_number();
  status = DecodeUpserts(request.upserts(), limits, &batch.upserts);
  if (!status.ok()) return status;
  if (request.deletes_size() > limits.ids_per_request) {
    return OverLimit("deletes", request.deletes_size(), "ids_per_request",
                     limits.ids_per_request);
  }
  batch.deletes.assign(request.deletes().begin(), request.deletes().end());
  status = DecodeUpdates(request.updates(), limits, &batch.updates);
  if (!status.ok()) return status;
  if (request.replace_attributes()) batch.mode = AttributeMode::kReplace;
  if (request.has_request_id()) {
    auto id = DecodeRequestId(request.request_id());
    if (!id.ok()) return id.status();
    batch.request_id = *std::move(id);
  }
  auto filter = DecodeFilter(request.delete_where(), "delete_where", limits);
  if (!filter.ok()) return filter.status();
  batch.delete_where = *std::move(filter);
  if (!batch.delete_where.empty() &&
      !(batch.upserts.empty() && batch.deletes.empty() &&
        batch.updates.empty())) {
    return InvalidField("delete_where", "it comes alone");
  }
  return batch;
}

void EncodeShardReply(const WriteReply& reply, v1::ShardWriteResponse* out) {
  out->set_upserted(reply.upserted);
  out->set_deleted(reply.deleted);
  out->set_sequence(reply.sequence);
  out->set_updated(reply.updated);
  out->mutable_missing()->Add(reply.missing.begin(), reply.missing.end());
  out->set_duplicates(reply.duplicates);
}

absl::StatusOr<WriteReply> DecodeShardReply(
    const v1::ShardWriteResponse& response) {
  const absl::Status status =
      CheckCounts({{"upserted", response.upserted()},
                   {"deleted", response.deleted()},
                   {"sequence", response.sequence()},
                   {"updated", response.updated()},
                   {"duplicates", response.duplicates()}});
  if (!status.ok()) return status;
  WriteReply reply;
  reply.upserted = response.upserted();
  reply.deleted = response.deleted();
  reply.sequence = response.sequence();
  reply.updated = response.updated();
  reply.missing.assign(response.missing().begin(), response.missing().end());
  reply.duplicates = response.duplicates();
  return reply;
}

// --- Get, Count, Scan -------------------------------------------------------

void EncodeShardRequest(const GetRequest& request, v1::ShardGetRequest* out) {
  out->mutable_header()->set_collection_number(request.number);
  v1::GetRequest* get = out->mutable_get();
  get->set_collection(request.collection);
  get->mutable_ids()->Add(request.ids.begin(), request.ids.end());
  get->set_with_vectors(request.with_vectors);
  EncodeSelector(request.with_attributes, get->mutable_with_attributes());
}

absl::StatusOr<GetRequest> DecodeShardRequest(
    const v1::ShardGetRequest& request, const Limits& limits) {
  auto decoded = DecodeGet(request.get(), limits);
  if (decoded.ok()) decoded->number = request.header().collection_number();
  return decoded;
}

void EncodeShardReply(const GetReply& reply, v1::ShardGetResponse* out) {
  *out->mutable_get() = EncodeGetReply(reply);
}

absl::StatusOr<GetReply> DecodeShardReply(const v1::ShardGetResponse& response,
                                          const GetRequest& asked) {
  const v1::GetResponse& get = response.get();
  int point = 0;
  int missing = 0;
  for (const PointId id : asked.ids) {
    if (point < get.points_size() && get.points(point).id() == id) {
      ++point;
    } else if (missing < get.missing_size() && get.missing(missing) == id) {
      ++missing;
    } else {
      return Misfit(absl::StrCat("nothing is said of id ", id));
    }
  }
  if (point != get.points_size() || missing != get.missing_size()) {
    return Misfit(absl::StrCat(get.points_size(), " points and ",
                               get.missing_size(), " missing ids for ",
                               asked.ids.size(), " ids"));
  }
  auto points = DecodeAllFound(get.points(), asked.with_vectors);
  if (!points.ok()) return points.status();
  GetReply reply;
  reply.points = *std::move(points);
  reply.missing.assign(get.missing().begin(), get.missing().end());
  return reply;
}

void EncodeShardRequest(const CountRequest& request,
                        v1::ShardCountRequest* out) {
  out->mutable_header()->set_collection_number(request.number);
  v1::CountRequest* count = out->mutable_count();
  count->set_collection(request.collection);
  if (!request.filter.empty()) {
    EncodeFilter(request.filter, count->mutable_filter());
  }
}

absl::StatusOr<CountRequest> DecodeShardRequest(
    const v1::ShardCountRequest& request, const Limits& limits) {
  auto decoded = DecodeCount(request.count(), limits);
  if (decoded.ok()) decoded->number = request.header().collection_number();
  return decoded;
}

void EncodeShardReply(const CountReply& reply, v1::ShardCountResponse* out) {
  out->set_count(reply.count);
}

absl::StatusOr<CountReply> DecodeShardReply(
    const v1::ShardCountResponse& response) {
  const absl::Status status = CheckCounts({{"count", response.count()}});
  if (!status.ok()) return status;
  return CountReply{response.count()};
}

void EncodeShardRequest(const ScanRequest& request, v1::ShardScanRequest* out) {
  out->mutable_header()->set_collection_number(request.number);
  v1::ScanRequest* scan = out->mutable_scan();
  scan->set_collection(request.collection);
  scan->set_slice(request.slice);
  scan->set_slices(request.slices);
  scan->set_with_vectors(request.with_vectors);
  EncodeSelector(request.with_attributes, scan->mutable_with_attributes());
  if (!request.filter.empty()) {
    EncodeFilter(request.filter, scan->mutable_filter());
  }
  scan->set_limit(request.limit);
}

absl::StatusOr<ScanRequest> DecodeShardRequest(
    const v1::ShardScanRequest& request, const Limits& limits) {
  auto decoded = DecodeScan(request.scan(), limits);
  if (decoded.ok()) decoded->number = request.header().collection_number();
  return decoded;
}

void EncodeShardReply(const ScanPage& page, v1::ShardScanResponse* out) {
  for (const Point& point : page.points) EncodePoint(point, out->add_points());
  out->set_end(page.end);
}

absl::StatusOr<ScanPage> DecodeShardReply(const v1::ShardScanResponse& response,
                                          bool with_vectors) {
  auto points = DecodeAllFound(response.points(), with_vectors);
  if (!points.ok()) return points.status();
  return ScanPage{*std::move(points), response.end()};
}

// --- Catalogue --------------------------------------------------------------

void EncodeCatalogue(const Catalogue& catalogue, v1::CatalogueRecord* out) {
  out->set_version(catalogue.version);
  out->set_next_number(catalogue.next_number);
  for (const CollectionSpec& spec : catalogue.collections) {
    v1::CatalogueEntry* entry = out->add_collections();
    EncodeCollection(spec, entry->mutable_collection());
    entry->set_number(spec.number);
    entry->mutable_owner()->Add(spec.owner.begin(), spec.owner.end());
  }
  for (const std::string& store : catalogue.stores) out->add_stores(store);
}

absl::StatusOr<Catalogue> DecodeCatalogue(const v1::CatalogueRecord& record) {
  if (record.version() < 0) {
    return InvalidField("catalogue.version",
                        absl::StrCat(record.version(), " is negative"));
  }
  Catalogue catalogue;
  catalogue.version = record.version();
  catalogue.next_number = record.next_number();
  for (int i = 0; i < record.collections_size(); ++i) {
    const std::string field = absl::StrCat("catalogue.collections[", i, "]");
    auto spec = DecodeEntry(record.collections(i), field, record.next_number());
    if (!spec.ok()) return spec.status();
    if (i > 0 && !(catalogue.collections.back().name < spec->name)) {
      return InvalidField(
          field, absl::StrCat(Quoted(spec->name), " does not come after ",
                              Quoted(catalogue.collections.back().name)));
    }
    catalogue.collections.push_back(*std::move(spec));
  }
  catalogue.stores.assign(record.stores().begin(), record.stores().end());
  return catalogue;
}

absl::StatusOr<Catalogue> DecodeShardReply(
    const v1::ReadCatalogueResponse& response) {
  auto catalogue = DecodeCatalogue(response.catalogue());
  if (!catalogue.ok()) return Misfit(catalogue.status().message());
  return catalogue;
}

absl::StatusOr<int64_t> DecodeShardReply(
    const v1::PutCatalogueResponse& response) {
  const absl::Status status = CheckCounts({{"version", response.version()}});
  if (!status.ok()) return status;
  return response.version();
}

// --- State ------------------------------------------------------------------

void EncodeShardReply(const ShardCollectionStats& stats,
                      v1::CollectionStatsResponse* out) {
  EncodeShardStats(stats, out->mutable_stats());
}

absl::StatusOr<ShardCollectionStats> DecodeShardReply(
    const v1::CollectionStatsResponse& response) {
  const v1::ShardCollectionStats& s = response.stats();
  const absl::Status status =
      CheckCounts({{"points", s.points()},
                   {"dead_rows", s.dead_rows()},
                   {"sealed_segments", s.sealed_segments()},
                   {"tail_rows", s.tail_rows()},
                   {"memory_bytes", s.memory_bytes()},
                   {"slots", s.slots()},
                   {"sequence", s.sequence()}});
  if (!status.ok()) return status;
  auto indexes = DecodeIndexStates(s.indexes());
  if (!indexes.ok()) return indexes.status();
  return ShardCollectionStats{response.header().shard_id(),
                              s.points(),
                              s.dead_rows(),
                              s.sealed_segments(),
                              s.tail_rows(),
                              s.memory_bytes(),
                              s.slots(),
                              s.sequence(),
                              *std::move(indexes)};
}

}  // namespace coterie
