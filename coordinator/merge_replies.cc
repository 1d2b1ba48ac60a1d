#include "coordinator/merge_replies.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/status_details.h"
#include "coordinator/shard_view.h"
#include "index/top_k.h"

namespace coterie {
namespace {

bool HitLess(const Hit& a, const Hit& b) {
  return NeighborLess(a.neighbor, b.neighbor);
}

// Whether the lists of a reply answer the request that was sent.
absl::Status CheckFit(const ShardSearchReply& reply, int32_t shard,
                      const SearchRequest& request) {
  if (reply.shard_id != shard) {
    return absl::InternalError(
        absl::StrCat("answered as shard ", reply.shard_id));
  }
  if (reply.results.size() != request.queries.size() ||
      reply.accounts.size() != request.queries.size()) {
    return absl::InternalError(
        absl::StrCat("answered ", request.queries.size(), " queries with ",
                     reply.results.size(), " results and ",
                     reply.accounts.size(), " accounts"));
  }
  return absl::OkStatus();
}

// Whether a failure is of the request or its route, not of one shard's health.
// An overload passes, and says when; without that the request asks too much.
bool FailsWhole(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
         absl::IsFailedPrecondition(status) || absl::IsCancelled(status) ||
         (absl::IsResourceExhausted(status) &&
          !RetryAfterOf(status).has_value());
}

std::string Reason(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                      std::string(status.message()));
}

class Merger {
 public:
  Merger(const SearchRequest& request, const CollectionSpec& spec,
         int64_t catalogue_version, ShardReplies replies)
      : request_(request),
        spec_(spec),
        version_(catalogue_version),
        replies_(std::move(replies)) {}

  absl::StatusOr<MergedSearch> Run() {
    RefuseUnfit(request_, &replies_);
    absl::Status covered = Cover();
    if (!covered.ok()) {
      return covered;
    }
    for (size_t i = 0; i < replies_.size(); ++i) {
      if (replies_[i].ok()) {
        Straighten(static_cast<int32_t>(i), &*replies_[i]);
      }
    }
    for (size_t q = 0; q < request_.queries.size(); ++q) {
      absl::Status merged = MergeQuery(q);
      if (!merged.ok()) {
        return merged;
      }
    }
    Certify();
    HandOver();
    return std::move(out_);
  }

 private:
  // Fills Coverage and applies the policy.
  absl::Status Cover() {
    Coverage& coverage = out_.reply.coverage;
    coverage.shards_total = static_cast<int32_t>(replies_.size());
    absl::Status first;
    for (size_t i = 0; i < replies_.size(); ++i) {
      const int32_t shard = static_cast<int32_t>(i);
      if (replies_[i].ok()) {
        ++coverage.shards_ok;
        coverage.rows_covered += replies_[i]->rows_live;
        continue;
      }
      const absl::Status& status = replies_[i].status();
      if (FailsWhole(status)) {
        return WithShard(status, shard);
      }
      if (first.ok()) {
        first = WithShard(status, shard);
      }
      coverage.missing.push_back({shard, Reason(status)});
    }
    coverage.rows_total = coverage.rows_covered;
    if (first.ok()) {
      return absl::OkStatus();
    }
    return CoverPartly(std::move(first));
  }

  absl::Status CoverPartly(absl::Status first) {
    Coverage& coverage = out_.reply.coverage;
    const PartialPolicy& policy = request_.partial_policy;
    if (policy.kind == PartialPolicy::Kind::kFail || coverage.shards_ok == 0) {
      return first;
    }
    const int64_t covered = std::count_if(
        spec_.owner.begin(), spec_.owner.end(), [this](int32_t owner) {
          return replies_[static_cast<size_t>(owner)].ok();
        });
    const double ratio =
        static_cast<double>(covered) / static_cast<double>(spec_.slots);
    if (policy.kind == PartialPolicy::Kind::kRequire &&
        ratio < policy.min_ratio) {
      absl::Status below(
          first.code(),
          absl::StrCat(std::string(first.message()), "; ", covered, " of ",
                       spec_.slots, " slots answered, a ratio of ", ratio,
                       " below min_ratio ", policy.min_ratio));
      first.ForEachPayload(
          [&](absl::string_view url, const absl::Cord& payload) {
            below.SetPayload(url, payload);
          });
      return below;
    }
    coverage.estimated = true;
    coverage.rows_total =
        covered == 0
            ? 0
            : std::llround(static_cast<double>(coverage.rows_covered) / ratio);
    return absl::OkStatus();
  }

  // Makes every list finite and ordered; notes if it was not, or too long.
  void Straighten(int32_t shard, ShardSearchReply* reply) {
    for (size_t q = 0; q < reply->results.size(); ++q) {
      std::vector<Hit>& hits = reply->results[q];
      const size_t before = hits.size();
      hits.erase(std::remove_if(hits.begin(), hits.end(),
                                [](const Hit& hit) {
                                  return !std::isfinite(hit.neighbor.distance);
                                }),
                 hits.end());
      const bool finite = hits.size() == before;
      const bool ordered = std::is_sorted(hits.begin(), hits.end(), HitLess);
      if (!ordered) {
        std::stable_sort(hits.begin(), hits.end(), HitLess);
      }
      const bool fits = static_cast<int64_t>(hits.size()) <= reply->asked;
      if ((!finite || !ordered || !fits) && malformed_.empty()) {
        malformed_ = absl::StrCat("shard ", shard, " answered query ", q,
                                  !finite    ? " with distances not finite"
                                  : !ordered ? " out of order"
                                             : " with more hits than asked");
      }
    }
  }

  absl::Status MergeQuery(size_t q) {
    std::vector<int32_t> shards;
    std::vector<std::vector<Neighbor>> lists;
    for (size_t i = 0; i < replies_.size(); ++i) {
      if (!replies_[i].ok()) {
        continue;
      }
      shards.push_back(static_cast<int32_t>(i));
      std::vector<Neighbor>& list = lists.emplace_back();
      list.reserve(replies_[i]->results[q].size());
      for (const Hit& hit : replies_[i]->results[q]) {
        list.push_back(hit.neighbor);
      }
    }
    const MergedTopK merged = MergeTopK(lists, request_.k);
    out_.duplicate_ids += merged.duplicate_ids;
    const int64_t size = static_cast<int64_t>(merged.neighbors.size());
    if (request_.radius.has_value() && size >= request_.k) {
      return absl::ResourceExhaustedError(
          absl::StrCat("queries[", q, "]: more than ", request_.k - 1,
                       " points lie within radius ", *request_.radius,
                       ", over the limit k; ask for a smaller radius"));
    }
    SearchReply::Result& result = out_.reply.results.emplace_back();
    const int64_t first = std::min(request_.offset, size);
    result.hits.reserve(static_cast<size_t>(size - first));
    // What is taken from one list is taken in its order.
    std::vector<size_t> next(shards.size(), 0);
    for (int64_t i = 0; i < size; ++i) {
      const Neighbor& neighbor = merged.neighbors[static_cast<size_t>(i)];
      const size_t source =
          static_cast<size_t>(merged.sources[static_cast<size_t>(i)]);
      std::vector<Hit>& hits =
          replies_[static_cast<size_t>(shards[source])]->results[q];
      size_t& at = next[source];
      while (!(hits[at].neighbor == neighbor)) {
        ++at;
      }
      if (i >= first) {
        result.hits.push_back(std::move(hits[at]));
      }
      ++at;
    }
    return absl::OkStatus();
  }

  void Certify() {
    Certificate& certificate = out_.reply.certificate;
    certificate.map_version = version_;
    const std::string common = WithheldFromAll();
    certificate.withheld = common;
    for (size_t q = 0; q < out_.reply.results.size(); ++q) {
      std::string gap = AccountGap(q);
      out_.reply.results[q].exact = common.empty() && gap.empty();
      if (certificate.withheld.empty()) {
        certificate.withheld = std::move(gap);
      }
    }
  }

  // Why no query can be certified; empty if nothing stands against it.
  std::string WithheldFromAll() const {
    const std::vector<MissingShard>& missing = out_.reply.coverage.missing;
    if (!missing.empty()) {
      return absl::StrCat("shard ", missing.front().shard_id,
                          " did not answer");
    }
    for (size_t i = 0; i < replies_.size(); ++i) {
      if (replies_[i]->catalogue_version != version_) {
        return absl::StrCat("shard ", i, " answered at catalogue version ",
                            replies_[i]->catalogue_version, ", expected ",
                            version_);
      }
    }
    std::string slots = SlotFault();
    if (!slots.empty()) {
      return slots;
    }
    if (!malformed_.empty()) {
      return malformed_;
    }
    if (out_.duplicate_ids > 0) {
      return absl::StrCat(out_.duplicate_ids,
                          " ids were met on more than one shard");
    }
    return "";
  }

  std::string SlotFault() const {
    std::vector<int32_t> covered_by(spec_.owner.size(), -1);
    for (size_t i = 0; i < replies_.size(); ++i) {
      int64_t rows = 0;
      for (const SlotState& state : replies_[i]->slots) {
        rows += state.rows;
        if (state.slot < 0 || state.slot >= spec_.slots) {
          return absl::StrCat("shard ", i, " reports slot ", state.slot, " of ",
                              spec_.slots);
        }
        const size_t slot = static_cast<size_t>(state.slot);
        if (covered_by[slot] >= 0) {
          return absl::StrCat("slot ", slot, " is reported by shard ",
                              covered_by[slot], " and again by shard ", i);
        }
        if (spec_.owner[slot] != static_cast<int32_t>(i)) {
          return absl::StrCat("slot ", slot, " belongs to shard ",
                              spec_.owner[slot], " but shard ", i,
                              " reports it");
        }
        covered_by[slot] = static_cast<int32_t>(i);
      }
      if (rows != replies_[i]->rows_live) {
        return absl::StrCat("shard ", i, " reports ", replies_[i]->rows_live,
                            " live rows but its slots hold ", rows);
      }
    }
    for (size_t slot = 0; slot < covered_by.size(); ++slot) {
      if (covered_by[slot] < 0 && spec_.owner[slot] != kElsewhere) {
        return absl::StrCat("slot ", slot, " is reported by no shard");
      }
    }
    return "";
  }

  std::string AccountGap(size_t q) const {
    for (size_t i = 0; i < replies_.size(); ++i) {
      if (!replies_[i].ok()) {
        continue;
      }
      const QueryAccount& account = replies_[i]->accounts[q];
      const int64_t sum =
          account.evaluated + account.ruled_out + account.filtered;
      if (account.unseen > 0) {
        return absl::StrCat("query ", q, ": shard ", i, " left ",
                            account.unseen, " of ", replies_[i]->rows_live,
                            " live rows unseen, as the strategy allows");
      }
      const bool sound = account.evaluated >= 0 && account.ruled_out >= 0 &&
                         account.filtered >= 0 && account.unseen == 0;
      if (!sound || sum != replies_[i]->rows_live) {
        return absl::StrCat("query ", q, ": shard ", i, " accounts for ", sum,
                            " of ", replies_[i]->rows_live, " live rows");
      }
    }
    return "";
  }

  // Moves evidence and times into the reply.
  void HandOver() {
    for (size_t i = 0; i < replies_.size(); ++i) {
      if (!replies_[i].ok()) {
        continue;
      }
      ShardSearchReply& from = *replies_[i];
      ShardCertificate& to = out_.reply.certificate.shards.emplace_back();
      to.shard_id = static_cast<int32_t>(i);
      to.sequence = from.sequence;
      to.rows_live = from.rows_live;
      to.slots = std::move(from.slots);
      to.accounts = std::move(from.accounts);
      out_.reply.shard_times.emplace_back(static_cast<int32_t>(i),
                                          std::move(from.times));
    }
  }

  const SearchRequest& request_;
  const CollectionSpec& spec_;
  const int64_t version_;
  ShardReplies replies_;
  std::string malformed_;
  MergedSearch out_;
};

}  // namespace

void RefuseUnfit(const SearchRequest& request, ShardReplies* replies) {
  for (size_t i = 0; i < replies->size(); ++i) {
    absl::StatusOr<ShardSearchReply>& reply = (*replies)[i];
    if (reply.ok()) {
      absl::Status fits = CheckFit(*reply, static_cast<int32_t>(i), request);
      if (!fits.ok()) {
        reply = std::move(fits);
      }
    }
  }
}

absl::StatusOr<MergedSearch> MergeReplies(const SearchRequest& request,
                                          const CollectionSpec& spec,
                                          int64_t catalogue_version,
                                          ShardReplies replies) {
  return Merger(request, spec, catalogue_version, std::move(replies)).Run();
}

}  // namespace coterie
