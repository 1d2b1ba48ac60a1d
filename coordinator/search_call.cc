#include "coordinator/search_call.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "api/quoted.h"
#include "api/status_details.h"
#include "api/stopwatch.h"
#include "coordinator/merge_replies.h"
#include "coordinator/point_calls.h"
#include "coordinator/scatter_gather.h"
#include "coordinator/search_rounds.h"
#include "coordinator/shard_deadline.h"
#include "index/metric.h"

namespace coterie {
namespace {

absl::Status NoSuchPoint(size_t query, PointId id, absl::string_view name) {
  const std::string field = absl::StrCat("queries[", query, "].id");
  absl::Status status = absl::NotFoundError(absl::StrCat(
      field, ": collection ", Quoted(name), " has no point with id ", id));
  AttachField(&status, field);
  return status;
}

bool SamePlacement(const CollectionSpec& a, const CollectionSpec& b) {
  return a.number == b.number && a.owner == b.owner;
}

// Whether what one shard finds may rule out rows of another: both answers count
// or none, and the k-th of one shard is the k-th wanted.
bool MayShareThresholds(const SearchRequest& request, int64_t k,
                        size_t shards) {
  return shards > 1 && k == request.k && !request.radius.has_value() &&
         request.partial_policy.kind == PartialPolicy::Kind::kFail;
}

// Adds what an answer cost that another has replaced.
void AddWork(const ShardTimes& replaced, ShardTimes* times) {
  times->rows_scanned += replaced.rows_scanned;
  times->bytes_scanned += replaced.bytes_scanned;
  times->queue_seconds += replaced.queue_seconds;
  times->scan_seconds += replaced.scan_seconds;
  times->round_trip_seconds += replaced.round_trip_seconds;
}

class SearchCall : public std::enable_shared_from_this<SearchCall> {
 public:
  SearchCall(std::shared_ptr<SearchContext> context,
             std::shared_ptr<const SearchRequest> request,
             CollectionRoute route, CallContext call, Done<SearchReply> done)
      : context_(std::move(context)),
        request_(std::move(request)),
        route_(std::move(route)),
        call_(std::move(call)),
        done_(std::move(done)) {}

  void Start() {
    GetRequest get;
    for (const SearchRequest::Query& query : request_->queries) {
      if (const PointId* id = std::get_if<PointId>(&query)) {
        get.ids.push_back(*id);
      }
    }
    if (get.ids.empty()) {
      Scatter();
      return;
    }
    get.collection = request_->collection;
    get.with_vectors = true;
    GetFromOwners(
        context_->shards, *route_.spec, std::move(get),
        ShardCall(call_, context_->merge_reserve),
        [self = shared_from_this()](absl::StatusOr<OwnersGetReply> got) {
          if (!got.ok()) {
            self->done_(got.status());
            return;
          }
          absl::Status resolved = self->Resolve(*std::move(got));
          if (!resolved.ok()) {
            self->done_(std::move(resolved));
            return;
          }
          self->Scatter();
        });
  }

 private:
  // Replaces request_ by one whose queries are all vectors.
  absl::Status Resolve(OwnersGetReply got) {
    double slowest = 0;
    for (const auto& [shard, use] : got.links) {
      slowest = std::max(slowest, Account(shard, use));
    }
    cost_.predicted_seconds += slowest;
    absl::flat_hash_map<PointId, std::vector<float>> vectors;
    for (Point& point : got.reply.points) {
      const PointId id = point.id;
      vectors.insert_or_assign(id, std::move(point.vector));
    }
    auto resolved = std::make_shared<SearchRequest>(*request_);
    for (size_t q = 0; q < resolved->queries.size(); ++q) {
      const PointId* id = std::get_if<PointId>(&resolved->queries[q]);
      if (id == nullptr) {
        continue;
      }
      auto it = vectors.find(*id);
      if (it == vectors.end()) {
        return NoSuchPoint(q, *id, request_->collection);
      }
      resolved->queries[q] = it->second;
    }
    request_ = std::move(resolved);
    absl::Status fits = CheckQueries(*route_.spec, *request_);
    if (!fits.ok()) {
      return absl::AbortedError(
          absl::StrCat("collection ", Quoted(request_->collection),
                       " changed while queries by id were read: ",
                       std::string(fits.message())));
    }
    return absl::OkStatus();
  }

  void Scatter() {
    std::vector<int32_t> all(context_->shards->size());
    std::iota(all.begin(), all.end(), 0);
    replies_.resize(all.size());
    Ask(all, FirstAsk(*request_, *route_.spec));
  }

  // A round: these shards are asked for k neighbours of each query.
  void Ask(std::vector<int32_t> shards, int64_t k) {
    ++rounds_;
    std::shared_ptr<const SearchRequest> asked = request_;
    const bool share = MayShareThresholds(*request_, k, shards.size());
    if (share || k != request_->k) {
      auto other = std::make_shared<SearchRequest>(*request_);
      other->k = k;
      if (share) {
        other->thresholds = std::make_shared<std::vector<SharedThreshold>>(
            other->queries.size());
      }
      asked = std::move(other);
    }
    std::vector<std::shared_ptr<const SearchRequest>> requests(replies_.size());
    for (const int32_t shard : shards) {
      requests[static_cast<size_t>(shard)] = asked;
    }
    ScatterSearch(
        context_->shards, std::move(requests), call_, context_->merge_reserve,
        [self = shared_from_this(),
         shards = std::move(shards)](absl::StatusOr<ShardReplies> round) {
          if (!round.ok()) {
            self->done_(round.status());
            return;
          }
          self->Accept(shards, *std::move(round));
        });
  }

  // Takes the answers of a round, each instead of what its shard said before.
  void Accept(const std::vector<int32_t>& shards, ShardReplies round) {
    AccountRound(shards, round);
    for (const int32_t shard : shards) {
      absl::StatusOr<ShardSearchReply>& reply =
          replies_[static_cast<size_t>(shard)];
      absl::StatusOr<ShardSearchReply> before = std::move(reply);
      reply = std::move(round[static_cast<size_t>(shard)]);
      if (before.ok()) {
        cost_.bytes_saved -= before->link.bytes();
        if (reply.ok()) {
          AddWork(before->times, &reply->times);
        }
      }
    }
    const Stopwatch looking;
    RefuseUnfit(*request_, &replies_);
    std::vector<int32_t> cut_short = CutShort(*request_, replies_);
    merge_seconds_ += looking.Seconds();
    if (cut_short.empty()) {
      cost_.bytes_saved += BytesNotSent(*request_, *route_.spec, replies_);
      Reconcile();
    } else {
      Ask(std::move(cut_short), request_->k);
    }
  }

  // Adds a request and its reply to the cost. Returns the seconds they should
  // have been on the link, if the caller wants to know.
  double Account(int32_t shard, const LinkUse& use) {
    cost_.messages += 2;
    cost_.bytes_sent += use.bytes_sent;
    cost_.bytes_received += use.bytes_received;
    return request_->profile ? context_->links.Predict(shard, use) : 0;
  }

  void AccountRound(const std::vector<int32_t>& shards,
                    const ShardReplies& round) {
    double slowest_link = 0;
    double slowest_work = 0;
    for (const int32_t shard : shards) {
      const auto& reply = round[static_cast<size_t>(shard)];
      if (!reply.ok()) {
        cost_.messages += 2;
        continue;
      }
      const ShardTimes& times = reply->times;
      slowest_link = std::max(slowest_link, Account(shard, reply->link));
      slowest_work =
          std::max(slowest_work, times.queue_seconds + times.scan_seconds);
      // Only now, so that no call predicts itself.
      context_->links.Observe(shard, reply->link, times.round_trip_seconds);
    }
    cost_.predicted_seconds += slowest_link;
    cost_.compute_seconds += slowest_work;
  }

  // Compares the shards' catalogue versions with the route's.
  void Reconcile() {
    const int64_t version = route_.catalogue->version;
    bool newer = false;
    for (size_t i = 0; i < replies_.size(); ++i) {
      if (!replies_[i].ok()) {
        continue;
      }
      newer = newer || replies_[i]->catalogue_version > version;
      if (replies_[i]->catalogue_version < version) {
        context_->catalogue->RepairInBackground(static_cast<int32_t>(i));
      }
    }
    if (!newer) {
      Merge();
      return;
    }
    context_->catalogue->Refresh(
        ShardCall(call_, context_->merge_reserve),
        [self = shared_from_this()](absl::StatusOr<CatalogueSnapshot> fresh) {
          self->AfterRefresh(std::move(fresh));
        });
  }

  void AfterRefresh(absl::StatusOr<CatalogueSnapshot> fresh) {
    if (fresh.ok()) {
      const CollectionSpec* spec = (*fresh)->Find(request_->collection);
      if (spec == nullptr) {
        done_(NoSuchCollection(request_->collection));
        return;
      }
      if (!SamePlacement(*spec, *route_.spec)) {
        done_(absl::AbortedError(
            absl::StrCat("collection ", Quoted(request_->collection),
                         " was made anew or moved during the search")));
        return;
      }
      route_ = CollectionRoute{*std::move(fresh), spec};
    }
    // Without a fresh catalogue the answer stands, uncertified.
    Merge();
  }

  void Merge() {
    const Stopwatch merging;
    absl::StatusOr<MergedSearch> merged =
        MergeReplies(*request_, *route_.spec, route_.catalogue->version,
                     std::move(replies_));
    if (!merged.ok()) {
      done_(merged.status());
      return;
    }
    context_->duplicate_ids_met.fetch_add(merged->duplicate_ids,
                                          std::memory_order_relaxed);
    SearchReply& reply = merged->reply;
    reply.rounds = rounds_;
    reply.merge_seconds = merge_seconds_ + merging.Seconds();
    reply.total_seconds = whole_.Seconds();
    cost_.measured_seconds =
        std::max(0.0, reply.total_seconds - cost_.compute_seconds);
    if (cost_.measured_seconds > 0) {
      cost_.ratio = cost_.compute_seconds / cost_.measured_seconds;
    }
    reply.cost = cost_;
    done_(std::move(reply));
  }

  const Stopwatch whole_;
  const std::shared_ptr<SearchContext> context_;
  std::shared_ptr<const SearchRequest> request_;
  CollectionRoute route_;
  const CallContext call_;
  Done<SearchReply> done_;
  // By shard: the last answer, and what all cost. No two rounds overlap.
  ShardReplies replies_;
  int32_t rounds_ = 0;
  double merge_seconds_ = 0;
  CommunicationCost cost_;
};

}  // namespace

absl::Status CheckExtent(const SearchRequest& request, const Limits& limits) {
  const int64_t queries = static_cast<int64_t>(request.queries.size());
  if (queries == 0) {
    return InvalidField("queries", "is empty");
  }
  if (queries > limits.queries) {
    return OverLimit("queries", queries, "queries", limits.queries);
  }
  // Most hits that a query may have.
  const int64_t most = request.k - (request.radius.has_value() ? 1 : 0);
  if (most < 1) {
    return InvalidField("k", absl::StrCat(most, " is not positive"));
  }
  if (most > limits.k) {
    return OverLimit("k", most, "k", limits.k);
  }
  if (queries * most > limits.queries_times_k) {
    return OverLimit("queries", queries * most, "queries_times_k",
                     limits.queries_times_k);
  }
  if (request.offset < 0 || request.offset >= request.k) {
    return InvalidField(
        "offset",
        absl::StrCat(request.offset, " is not below offset + k = ", request.k));
  }
  if (request.radius.has_value() && !std::isfinite(*request.radius)) {
    return InvalidField("radius", "is not finite");
  }
  return absl::OkStatus();
}

absl::Status CheckQueries(const CollectionSpec& spec,
                          const SearchRequest& request) {
  for (size_t q = 0; q < request.queries.size(); ++q) {
    const auto* vector = std::get_if<std::vector<float>>(&request.queries[q]);
    if (vector == nullptr) {
      continue;
    }
    const std::string field = absl::StrCat("queries[", q, "].vector");
    if (static_cast<int64_t>(vector->size()) != spec.dimension) {
      return InvalidField(
          field,
          absl::StrCat("has ", vector->size(), " components; collection ",
                       Quoted(spec.name), " has dimension ", spec.dimension));
    }
    absl::Status valid = ValidateVector(spec.metric, *vector);
    if (!valid.ok()) {
      return InvalidField(field, valid.message());
    }
  }
  return absl::OkStatus();
}

void SearchOnce(std::shared_ptr<SearchContext> context,
                std::shared_ptr<const SearchRequest> request,
                CollectionRoute route, CallContext call,
                Done<SearchReply> done) {
  std::make_shared<SearchCall>(std::move(context), std::move(request),
                               std::move(route), std::move(call),
                               std::move(done))
      ->Start();
}

}  // namespace coterie
