#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/packed_floats.h"
#include "api/points_convert.h"
#include "api/search_convert.h"
#include "api/shard_convert.h"
#include "api/shard_reply_check.h"
#include "api/status_details.h"

namespace coterie {
namespace {

int64_t DimensionOf(const SearchRequest& request) {
  return static_cast<int64_t>(
      std::get<std::vector<float>>(request.queries.front()).size());
}

absl::Status DecodeQueries(const v1::ShardSearchRequest& request,
                           const Limits& limits, SearchRequest* out) {
  const int64_t dimension = request.dimension();
  if (dimension < 1) {
    return InvalidField("dimension", absl::StrCat(dimension, " is below 1"));
  }
  if (dimension > limits.dimension) {
    return OverLimit("dimension", dimension, "dimension", limits.dimension);
  }
  const auto bytes = static_cast<int64_t>(request.queries().size());
  const auto vector_bytes = dimension * static_cast<int64_t>(sizeof(float));
  if (bytes == 0 || bytes % vector_bytes != 0) {
    return InvalidField(
        "queries", absl::StrCat(bytes, " bytes are not one or more vectors of ",
                                vector_bytes, " bytes"));
  }
  const int64_t count = bytes / vector_bytes;
  if (count > limits.queries) {
    return OverLimit("queries", count, "queries", limits.queries);
  }
  out->queries.reserve(static_cast<size_t>(count));
  for (int64_t q = 0; q < count; ++q) {
    std::vector<float> query =
        ReadFloats(absl::string_view(request.queries())
                       .substr(static_cast<size_t>(q * vector_bytes),
                               static_cast<size_t>(vector_bytes)));
    for (size_t i = 0; i < query.size(); ++i) {
      if (!std::isfinite(query[i])) {
        return InvalidField(absl::StrCat("queries[", q, "][", i, "]"),
                            absl::StrCat(query[i], " is not a finite number"));
      }
      if (query[i] == 0) query[i] = 0;  // -0 too
    }
    out->queries.emplace_back(std::move(query));
  }
  return absl::OkStatus();
}

absl::Status DecodeExtent(const v1::ShardSearchRequest& request,
                          const Limits& limits, SearchRequest* out) {
  if (request.k() < 1) {
    return InvalidField("k", absl::StrCat(request.k(), " is below 1"));
  }
  if (request.k() > limits.k) return OverLimit("k", request.k(), "k", limits.k);
  out->k = request.k();
  const int64_t product = static_cast<int64_t>(out->queries.size()) * out->k;
  if (product > limits.queries_times_k) {
    return OverLimit("queries", product, "queries_times_k",
                     limits.queries_times_k);
  }
  if (!request.has_radius()) return absl::OkStatus();
  if (!std::isfinite(request.radius())) {
    return InvalidField(
        "radius", absl::StrCat(request.radius(), " is not a finite number"));
  }
  out->radius = request.radius();
  return absl::OkStatus();
}

// How many hits a reply has in all; Misfit unless its lists agree on it and
// with the request.
absl::StatusOr<int64_t> CountHits(const v1::ShardSearchResponse& response,
                                  const SearchRequest& asked) {
  const auto queries = static_cast<int64_t>(asked.queries.size());
  if (response.hit_counts_size() != queries ||
      response.accounts_size() != queries) {
    return Misfit(absl::StrCat(queries, " queries, ",
                               response.hit_counts_size(), " hit counts, ",
                               response.accounts_size(), " accounts"));
  }
  int64_t hits = 0;
  for (const int32_t count : response.hit_counts()) {
    const absl::Status status = CheckCounts({{"a hit count", count}});
    if (!status.ok()) return status;
    hits += count;
  }
  if (response.ids_size() != hits || response.distances_size() != hits) {
    return Misfit(absl::StrCat(hits, " hits, ", response.ids_size(), " ids, ",
                               response.distances_size(), " distances"));
  }
  const auto bytes = static_cast<int64_t>(response.vectors().size());
  const int64_t expected =
      asked.with_vectors
          ? hits * DimensionOf(asked) * static_cast<int64_t>(sizeof(float))
          : 0;
  if (bytes != expected) {
    return Misfit(absl::StrCat(bytes, " bytes of vectors, expected ", expected,
                               " for ", hits, " hits"));
  }
  const int sets = response.attributes_size();
  if (sets != 0 && (asked.with_attributes.none() || sets != hits)) {
    return Misfit(
        absl::StrCat(sets, " attribute sets for ", hits, " hits",
                     asked.with_attributes.none() ? ", none asked" : ""));
  }
  return hits;
}

absl::Status DecodeHit(const v1::ShardSearchResponse& response,
                       const SearchRequest& asked, int at, Hit* hit) {
  hit->neighbor.id = response.ids(at);
  hit->neighbor.distance = response.distances(at);
  if (!std::isfinite(hit->neighbor.distance)) {
    return Misfit(
        absl::StrCat("distances[", at, "] is ", hit->neighbor.distance));
  }
  if (asked.with_vectors) {
    const auto bytes = static_cast<size_t>(DimensionOf(asked)) * sizeof(float);
    hit->vector =
        ReadFloats(absl::string_view(response.vectors())
                       .substr(static_cast<size_t>(at) * bytes, bytes));
    for (const float x : hit->vector) {
      if (!std::isfinite(x)) {
        return Misfit(absl::StrCat("vectors[", at, "] holds ", x));
      }
    }
  }
  if (response.attributes().empty()) return absl::OkStatus();
  auto attributes =
      DecodeAttributes(response.attributes(at).attributes(),
                       absl::StrCat("attributes[", at, "]"), LimitsOfReplies());
  if (!attributes.ok()) return Misfit(attributes.status().message());
  hit->attributes = *std::move(attributes);
  return absl::OkStatus();
}

absl::Status DecodeHits(const v1::ShardSearchResponse& response,
                        const SearchRequest& asked, ShardSearchReply* out) {
  const auto hits = CountHits(response, asked);
  if (!hits.ok()) return hits.status();
  int at = 0;
  for (const int32_t count : response.hit_counts()) {
    std::vector<Hit>& result = out->results.emplace_back();
    result.resize(static_cast<size_t>(count));
    for (Hit& hit : result) {
      const absl::Status status = DecodeHit(response, asked, at++, &hit);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status DecodeEvidence(const v1::ShardSearchResponse& response,
                            ShardSearchReply* out) {
  absl::Status status =
      CheckCounts({{"catalogue_version", response.catalogue_version()},
                   {"sequence", response.sequence()},
                   {"rows_live", response.rows_live()}});
  if (!status.ok()) return status;
  out->catalogue_version = response.catalogue_version();
  out->sequence = response.sequence();
  out->rows_live = response.rows_live();
  for (const v1::SlotState& slot : response.slots()) {
    status = CheckCounts({{"a slot", slot.slot()},
                          {"a slot's offset", slot.offset()},
                          {"a slot's rows", slot.rows()}});
    if (!status.ok()) return status;
    out->slots.push_back(
        {slot.slot(), slot.offset(), slot.rows(), slot.id_checksum()});
  }
  for (const v1::QueryAccount& a : response.accounts()) {
    status = CheckCounts({{"rows_evaluated", a.rows_evaluated()},
                          {"rows_ruled_out", a.rows_ruled_out()},
                          {"rows_filtered", a.rows_filtered()},
                          {"rows_rescored", a.rows_rescored()},
                          {"rows_unseen", a.rows_unseen()},
                          {"leaves_read", a.leaves_read()},
                          {"rows_met", a.rows_met()}});
    if (!status.ok()) return status;
    out->accounts.push_back({a.rows_evaluated(), a.rows_ruled_out(),
                             a.rows_filtered(), a.rows_rescored(),
                             a.rows_unseen(), a.leaves_read(), a.rows_met()});
  }
  return absl::OkStatus();
}

absl::Status DecodeTimes(const v1::ShardProfile& profile, ShardTimes* out) {
  absl::Status status =
      CheckCounts({{"rows_scanned", profile.rows_scanned()},
                   {"bytes_scanned", profile.bytes_scanned()}});
  if (!status.ok()) return status;
  status = CheckSeconds("queue_seconds", profile.queue_seconds());
  if (!status.ok()) return status;
  status = CheckSeconds("scan_seconds", profile.scan_seconds());
  if (!status.ok()) return status;
  out->plan = profile.plan();
  out->rows_scanned = profile.rows_scanned();
  out->bytes_scanned = profile.bytes_scanned();
  out->queue_seconds = profile.queue_seconds();
  out->scan_seconds = profile.scan_seconds();
  return absl::OkStatus();
}

}  // namespace

void EncodeShardRequest(const SearchRequest& request,
                        v1::ShardSearchRequest* out) {
  out->set_collection(request.collection);
  out->set_dimension(static_cast<int32_t>(DimensionOf(request)));
  std::string* packed = out->mutable_queries();
  packed->reserve(request.queries.size() *
                  static_cast<size_t>(DimensionOf(request)) * sizeof(float));
  for (const SearchRequest::Query& query : request.queries) {
    AppendFloats(std::get<std::vector<float>>(query), packed);
  }
  out->set_k(request.k);
  if (request.radius.has_value()) out->set_radius(*request.radius);
  out->set_with_vectors(request.with_vectors);
  EncodeSelector(request.with_attributes, out->mutable_with_attributes());
  out->set_profile(request.profile);
  EncodeStrategy(request.strategy, out);
  if (!request.filter.empty()) {
    EncodeFilter(request.filter, out->mutable_filter());
  }
}

absl::StatusOr<SearchRequest> DecodeShardRequest(
    const v1::ShardSearchRequest& request, const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  SearchRequest decoded;
  decoded.collection = request.collection();
  status = DecodeQueries(request, limits, &decoded);
  if (!status.ok()) return status;
  status = DecodeExtent(request, limits, &decoded);
  if (!status.ok()) return status;
  decoded.with_vectors = request.with_vectors();
  auto selector =
      DecodeSelector(request.with_attributes(), "with_attributes", limits);
  if (!selector.ok()) return selector.status();
  decoded.with_attributes = *std::move(selector);
  decoded.profile = request.profile();
  auto strategy = DecodeStrategy(request);
  if (!strategy.ok()) return strategy.status();
  decoded.strategy = *std::move(strategy);
  auto filter = DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  decoded.filter = *std::move(filter);
  return decoded;
}

void EncodeShardReply(const ShardSearchReply& reply,
                      v1::ShardSearchResponse* out) {
  out->set_catalogue_version(reply.catalogue_version);
  out->set_sequence(reply.sequence);
  out->set_rows_live(reply.rows_live);
  EncodeSlots(reply.slots, out->mutable_slots());
  EncodeAccounts(reply.accounts, out->mutable_accounts());
  EncodeShardTimes(reply.shard_id, reply.times, out->mutable_profile());
  bool attributes = false;
  for (const std::vector<Hit>& hits : reply.results) {
    out->add_hit_counts(static_cast<int32_t>(hits.size()));
    for (const Hit& hit : hits) {
      out->add_ids(hit.neighbor.id);
      out->add_distances(hit.neighbor.distance);
      AppendFloats(hit.vector, out->mutable_vectors());
      attributes = attributes || !hit.attributes.empty();
    }
  }
  if (!attributes) return;
  for (const std::vector<Hit>& hits : reply.results) {
    for (const Hit& hit : hits) {
      EncodeAttributes(hit.attributes,
                       out->add_attributes()->mutable_attributes());
    }
  }
}

absl::StatusOr<ShardSearchReply> DecodeShardReply(
    const v1::ShardSearchResponse& response, const SearchRequest& asked) {
  ShardSearchReply reply;
  reply.shard_id = response.header().shard_id();
  absl::Status status = DecodeHits(response, asked, &reply);
  if (!status.ok()) return status;
  status = DecodeEvidence(response, &reply);
  if (!status.ok()) return status;
  status = DecodeTimes(response.profile(), &reply.times);
  if (!status.ok()) return status;
  return reply;
}

}  // namespace coterie
