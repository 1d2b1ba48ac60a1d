#include "api/search_convert.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/collection.h"
#include "api/points_convert.h"
#include "api/status_details.h"

namespace coterie {
namespace {

absl::Status CheckQueryCount(const v1::SearchRequest& request,
                             const Limits& limits) {
  if (request.queries().empty()) {
    return InvalidField("queries", "empty: give at least one");
  }
  if (request.queries_size() > limits.queries) {
    return OverLimit("queries", request.queries_size(), "queries",
                     limits.queries);
  }
  return absl::OkStatus();
}

// Nearest k, after `offset` of them.
absl::Status DecodeNearest(const v1::SearchRequest& request,
                           const Limits& limits, SearchRequest* out) {
  if (request.k() <= 0) {
    return InvalidField("k",
                        absl::StrCat(request.k(), " is not in 1..", limits.k));
  }
  if (request.k() > limits.k) return OverLimit("k", request.k(), "k", limits.k);
  out->offset = request.offset();
  out->k = int64_t{request.offset()} + request.k();
  if (out->k > limits.k) {
    return InvalidField("offset",
                        absl::StrCat("offset + k = ", out->k,
                                     " is over the limit k of ", limits.k));
  }
  const int64_t product = request.queries_size() * out->k;
  if (product > limits.queries_times_k) {
    return InvalidField("queries",
                        absl::StrCat(request.queries_size(),
                                     " queries x (offset + k) = ", product,
                                     " is over the limit queries_times_k of ",
                                     limits.queries_times_k));
  }
  return absl::OkStatus();
}

// All within a radius.
absl::Status DecodeRadius(const v1::SearchRequest& request,
                          const Limits& limits, SearchRequest* out) {
  if (!std::isfinite(request.radius())) {
    return InvalidField(
        "radius", absl::StrCat(request.radius(), " is not a finite number"));
  }
  if (request.offset() != 0) {
    return InvalidField(
        "offset", absl::StrCat(request.offset(), " does not go with radius"));
  }
  out->radius = request.radius();
  out->k = limits.k + 1;  // one more than allowed shows that there are more
  return absl::OkStatus();
}

absl::Status DecodeExtent(const v1::SearchRequest& request,
                          const Limits& limits, SearchRequest* out) {
  if (request.offset() < 0) {
    return InvalidField("offset",
                        absl::StrCat(request.offset(), " is negative"));
  }
  switch (request.extent_case()) {
    case v1::SearchRequest::kK:
      return DecodeNearest(request, limits, out);
    case v1::SearchRequest::kRadius:
      return DecodeRadius(request, limits, out);
    case v1::SearchRequest::EXTENT_NOT_SET:
      break;
  }
  return InvalidField("k", "not set: give k or radius");
}

absl::Status CheckRecall(absl::string_view field, double recall) {
  // Written so that NaN fails too.
  if (recall > 0 && recall <= 1) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(recall, " is not in (0, 1]"));
}

absl::StatusOr<PartialPolicy> DecodePolicy(const v1::PartialPolicy& policy) {
  PartialPolicy decoded;
  switch (policy.kind_case()) {
    case v1::PartialPolicy::kAllow:
      decoded.kind = PartialPolicy::Kind::kAllow;
      break;
    case v1::PartialPolicy::kRequire:
      decoded.kind = PartialPolicy::Kind::kRequire;
      decoded.min_ratio = policy.require().min_ratio();
      // Written so that NaN fails too.
      if (!(decoded.min_ratio > 0 && decoded.min_ratio <= 1)) {
        return InvalidField(
            "partial_policy.require.min_ratio",
            absl::StrCat(decoded.min_ratio, " is not in (0, 1]"));
      }
      break;
    case v1::PartialPolicy::kFail:
    case v1::PartialPolicy::KIND_NOT_SET:
      break;
  }
  return decoded;
}

absl::Status DecodeQueries(const v1::SearchRequest& request,
                           const Limits& limits, SearchRequest* out) {
  // The first query that is a vector: all others have its length.
  int first = -1;
  size_t dimension = 0;
  out->queries.reserve(static_cast<size_t>(request.queries_size()));
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    const std::string field = absl::StrCat("queries[", i, "]");
    switch (query.kind_case()) {
      case v1::Query::kVector: {
        const std::string path = absl::StrCat(field, ".vector");
        absl::StatusOr<std::vector<float>> vector =
            DecodeVector(query.vector(), path, limits);
        if (!vector.ok()) return vector.status();
        if (first < 0) {
          first = i;
          dimension = vector->size();
        } else if (vector->size() != dimension) {
          return InvalidField(
              path, absl::StrCat(vector->size(), " components, but queries[",
                                 first, "].vector has ", dimension));
        }
        out->queries.emplace_back(*std::move(vector));
        break;
      }
      case v1::Query::kId:
        out->queries.emplace_back(PointId{query.id()});
        break;
      case v1::Query::KIND_NOT_SET:
        return InvalidField(field, "not set: give vector or id");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TreeStrategy> DecodeTree(const v1::TreeStrategy& tree) {
  TreeStrategy decoded;
  decoded.max_leaves = tree.max_leaves();
  decoded.epsilon = tree.epsilon();
  if (tree.target_recall() != 0) decoded.target_recall = tree.target_recall();
  if (decoded.max_leaves < 0) {
    return InvalidField("tree.max_leaves",
                        absl::StrCat(decoded.max_leaves, " is negative"));
  }
  if (!std::isfinite(decoded.epsilon) || decoded.epsilon < 0) {
    return InvalidField(
        "tree.epsilon",
        absl::StrCat(decoded.epsilon, " is not a finite number >= 0"));
  }
  const absl::Status status =
      CheckRecall("tree.target_recall", decoded.target_recall);
  if (!status.ok()) return status;
  return decoded;
}

absl::StatusOr<LshStrategy> DecodeLsh(const v1::LshStrategy& lsh) {
  LshStrategy decoded;
  decoded.target_recall = lsh.target_recall();
  decoded.max_candidates = lsh.max_candidates();
  if (decoded.max_candidates < 0) {
    return InvalidField("lsh.max_candidates",
                        absl::StrCat(decoded.max_candidates, " is negative"));
  }
  if (decoded.target_recall != 0) {
    const absl::Status status =
        CheckRecall("lsh.target_recall", decoded.target_recall);
    if (!status.ok()) return status;
  }
  return decoded;
}

absl::StatusOr<FaissStrategy> DecodeFaiss(const v1::FaissStrategy& faiss) {
  const FaissStrategy decoded = {faiss.target_recall(), faiss.nprobe(),
                                 faiss.ef_search(), faiss.candidates()};
  for (const auto& [name, limit] :
       {std::pair("nprobe", decoded.nprobe),
        std::pair("ef_search", decoded.ef_search),
        std::pair("candidates", decoded.candidates)}) {
    if (limit < 0) {
      return InvalidField(absl::StrCat("faiss.", name),
                          absl::StrCat(limit, " is negative"));
    }
  }
  if (decoded.target_recall != 0) {
    const absl::Status status =
        CheckRecall("faiss.target_recall", decoded.target_recall);
    if (!status.ok()) return status;
  }
  const int given = (decoded.target_recall != 0) + (decoded.nprobe != 0) +
                    (decoded.ef_search != 0);
  if (given > 1) {
    return InvalidField("faiss",
                        "give one of target_recall, nprobe and ef_search");
  }
  return decoded;
}

// Of either request: their strategies have the same names.
template <typename Request>
absl::StatusOr<Strategy> DecodeOneof(const Request& request) {
  switch (request.strategy_case()) {
    case Request::kTree: {
      absl::StatusOr<TreeStrategy> tree = DecodeTree(request.tree());
      if (!tree.ok()) return tree.status();
      return Strategy(*tree);
    }
    case Request::kLsh: {
      absl::StatusOr<LshStrategy> lsh = DecodeLsh(request.lsh());
      if (!lsh.ok()) return lsh.status();
      return Strategy(*lsh);
    }
    case Request::kFaiss: {
      absl::StatusOr<FaissStrategy> faiss = DecodeFaiss(request.faiss());
      if (!faiss.ok()) return faiss.status();
      return Strategy(*faiss);
    }
    case Request::kAuto: {
      AutoStrategy decoded;
      if (request.auto_().target_recall() != 0) {
        decoded.target_recall = request.auto_().target_recall();
      }
      const absl::Status status =
          CheckRecall("auto.target_recall", decoded.target_recall);
      if (!status.ok()) return status;
      return Strategy(decoded);
    }
    default:
      return Strategy(ExactStrategy());
  }
}

void EncodeHit(const Hit& hit, v1::Hit* out) {
  out->set_id(hit.neighbor.id);
  out->set_distance(hit.neighbor.distance);
  if (!hit.vector.empty()) EncodeVector(hit.vector, out->mutable_vector());
  EncodeAttributes(hit.attributes, out->mutable_attributes());
}

void EncodeCoverage(const Coverage& coverage, v1::Coverage* out) {
  out->set_shards_total(coverage.shards_total);
  out->set_shards_ok(coverage.shards_ok);
  out->set_rows_total(coverage.rows_total);
  out->set_rows_covered(coverage.rows_covered);
  out->set_estimated(coverage.estimated);
  for (const MissingShard& missing : coverage.missing) {
    v1::MissingShard* m = out->add_missing();
    m->set_shard_id(missing.shard_id);
    m->set_reason(missing.reason);
  }
}

void EncodeShardCertificate(const ShardCertificate& shard,
                            v1::ShardCertificate* out) {
  out->set_shard_id(shard.shard_id);
  out->set_sequence(shard.sequence);
  out->set_rows_live(shard.rows_live);
  EncodeSlots(shard.slots, out->mutable_slots());
  EncodeAccounts(shard.accounts, out->mutable_queries());
}

void EncodeProfile(const SearchReply& reply, v1::Profile* out) {
  for (const auto& [shard_id, times] : reply.shard_times) {
    EncodeShardTimes(shard_id, times, out->add_shards());
  }
  out->set_total_seconds(reply.total_seconds);
  out->set_merge_seconds(reply.merge_seconds);
  out->set_rounds(reply.rounds);
}

}  // namespace

void EncodeCost(const CommunicationCost& cost, v1::CommunicationCost* out) {
  out->set_messages(cost.messages);
  out->set_bytes_sent(cost.bytes_sent);
  out->set_bytes_received(cost.bytes_received);
  out->set_measured_seconds(cost.measured_seconds);
  out->set_compute_seconds(cost.compute_seconds);
  out->set_predicted_seconds(cost.predicted_seconds);
  out->set_ratio(cost.ratio);
  out->set_bytes_saved(cost.bytes_saved);
}

absl::StatusOr<SearchRequest> DecodeSearch(const v1::SearchRequest& request,
                                           const Limits& limits) {
  absl::Status status =
      ValidateCollectionReference(request.collection(), limits);
  if (!status.ok()) return status;
  status = CheckQueryCount(request, limits);
  if (!status.ok()) return status;
  SearchRequest decoded;
  decoded.collection = request.collection();
  status = DecodeExtent(request, limits, &decoded);
  if (!status.ok()) return status;
  absl::StatusOr<Strategy> strategy = DecodeStrategy(request);
  if (!strategy.ok()) return strategy.status();
  decoded.strategy = *std::move(strategy);
  absl::StatusOr<PartialPolicy> policy = DecodePolicy(request.partial_policy());
  if (!policy.ok()) return policy.status();
  decoded.partial_policy = *policy;
  absl::StatusOr<AttributeSelector> selector =
      DecodeSelector(request.with_attributes(), "with_attributes", limits);
  if (!selector.ok()) return selector.status();
  decoded.with_attributes = *std::move(selector);
  decoded.with_vectors = request.with_vectors();
  decoded.profile = request.profile();
  decoded.measure_recall = request.measure_recall();
  absl::StatusOr<Filter> filter =
      DecodeFilter(request.filter(), "filter", limits);
  if (!filter.ok()) return filter.status();
  decoded.filter = *std::move(filter);
  status = DecodeQueries(request, limits, &decoded);
  if (!status.ok()) return status;
  return decoded;
}

absl::StatusOr<Strategy> DecodeStrategy(const v1::SearchRequest& request) {
  return DecodeOneof(request);
}

absl::StatusOr<Strategy> DecodeStrategy(const v1::ShardSearchRequest& request) {
  return DecodeOneof(request);
}

void EncodeStrategy(const Strategy& strategy, v1::ShardSearchRequest* out) {
  if (const auto* tree = std::get_if<TreeStrategy>(&strategy)) {
    out->mutable_tree()->set_max_leaves(tree->max_leaves);
    out->mutable_tree()->set_epsilon(tree->epsilon);
    out->mutable_tree()->set_target_recall(tree->target_recall);
  } else if (const auto* lsh = std::get_if<LshStrategy>(&strategy)) {
    out->mutable_lsh()->set_target_recall(lsh->target_recall);
    out->mutable_lsh()->set_max_candidates(lsh->max_candidates);
  } else if (const auto* faiss = std::get_if<FaissStrategy>(&strategy)) {
    out->mutable_faiss()->set_target_recall(faiss->target_recall);
    out->mutable_faiss()->set_nprobe(faiss->nprobe);
    out->mutable_faiss()->set_ef_search(faiss->ef_search);
    out->mutable_faiss()->set_candidates(faiss->candidates);
  } else if (const auto* automatic = std::get_if<AutoStrategy>(&strategy)) {
    out->mutable_auto_()->set_target_recall(automatic->target_recall);
  }
}

void EncodeSlots(const std::vector<SlotState>& slots,
                 google::protobuf::RepeatedPtrField<v1::SlotState>* out) {
  for (const SlotState& slot : slots) {
    v1::SlotState* s = out->Add();
    s->set_slot(slot.slot);
    s->set_offset(slot.offset);
    s->set_rows(slot.rows);
    s->set_id_checksum(slot.id_checksum);
  }
}

void EncodeAccounts(const std::vector<QueryAccount>& accounts,
                    google::protobuf::RepeatedPtrField<v1::QueryAccount>* out) {
  for (const QueryAccount& account : accounts) {
    v1::QueryAccount* a = out->Add();
    a->set_rows_evaluated(account.evaluated);
    a->set_rows_ruled_out(account.ruled_out);
    a->set_rows_filtered(account.filtered);
    a->set_rows_rescored(account.rescored);
    a->set_rows_unseen(account.unseen);
    a->set_leaves_read(account.leaves);
    a->set_rows_met(account.met);
  }
}

void EncodeShardTimes(int32_t shard_id, const ShardTimes& times,
                      v1::ShardProfile* out) {
  out->set_shard_id(shard_id);
  out->set_plan(times.plan);
  out->set_rows_scanned(times.rows_scanned);
  out->set_bytes_scanned(times.bytes_scanned);
  out->set_queue_seconds(times.queue_seconds);
  out->set_scan_seconds(times.scan_seconds);
  out->set_round_trip_seconds(times.round_trip_seconds);
}

v1::SearchResponse EncodeSearchReply(const SearchReply& reply, bool profile) {
  v1::SearchResponse out;
  for (const SearchReply::Result& result : reply.results) {
    v1::QueryResult* r = out.add_results();
    r->mutable_hits()->Reserve(static_cast<int>(result.hits.size()));
    for (const Hit& hit : result.hits) EncodeHit(hit, r->add_hits());
    r->set_exact(result.exact);
    if (result.recall.has_value()) r->set_recall(*result.recall);
  }
  EncodeCoverage(reply.coverage, out.mutable_coverage());
  if (!profile) return out;
  v1::Certificate* certificate = out.mutable_certificate();
  certificate->set_map_version(reply.certificate.map_version);
  for (const ShardCertificate& shard : reply.certificate.shards) {
    EncodeShardCertificate(shard, certificate->add_shards());
  }
  certificate->set_withheld(reply.certificate.withheld);
  EncodeProfile(reply, out.mutable_profile());
  EncodeCost(reply.cost, out.mutable_cost());
  return out;
}

}  // namespace coterie
