#include "coordinator/search_rounds.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "coordinator/shard_view.h"
#include "index/top_k.h"

namespace coterie {
namespace {

// Searches that may need a second round, of those over hashed ids.
constexpr double kSecondRounds = 1e-3;

std::vector<Neighbor> NeighborsOf(const std::vector<Hit>& hits) {
  std::vector<Neighbor> neighbors;
  neighbors.reserve(hits.size());
  for (const Hit& hit : hits) {
    // What is not finite is left out of the answer as well.
    if (std::isfinite(hit.neighbor.distance)) {
      neighbors.push_back(hit.neighbor);
    }
  }
  return neighbors;
}

// Whether the shard may have more for query q than its list says.
bool MayHaveMore(const absl::StatusOr<ShardSearchReply>& reply, size_t q,
                 int64_t k) {
  return reply.ok() && reply->asked < k &&
         static_cast<int64_t>(reply->results[q].size()) >= reply->asked;
}

}  // namespace

int64_t FirstAsk(const SearchRequest& request, const CollectionSpec& spec) {
  if (request.radius.has_value()) {
    return request.k - 1;
  }
  if (request.k < kLeastKForRounds) {
    return request.k;
  }
  absl::flat_hash_map<int32_t, int64_t> owned;
  int64_t slots = 0;
  int64_t most = 0;
  for (const int32_t owner : spec.owner) {
    if (owner != kElsewhere) {
      ++slots;
      most = std::max(most, ++owned[owner]);
    }
  }
  if (owned.size() < 2) {
    return request.k;
  }
  const double k = static_cast<double>(request.k);
  const double share = static_cast<double>(most) / static_cast<double>(slots);
  const double lists = static_cast<double>(request.queries.size()) *
                       static_cast<double>(owned.size());
  const double log = std::log(lists / kSecondRounds);
  const double variance = k * share * (1 - share);
  const double excess = log / 3 + std::sqrt(log * log / 9 + 2 * variance * log);
  return std::min(request.k,
                  static_cast<int64_t>(std::ceil(k * share + excess)));
}

std::vector<int32_t> CutShort(const SearchRequest& request,
                              const ShardReplies& replies) {
  if (request.radius.has_value()) {
    return {};
  }
  std::vector<bool> cut(replies.size());
  for (size_t q = 0; q < request.queries.size(); ++q) {
    std::vector<size_t> suspects;
    for (size_t i = 0; i < replies.size(); ++i) {
      if (!cut[i] && MayHaveMore(replies[i], q, request.k)) {
        suspects.push_back(i);
      }
    }
    if (suspects.empty()) {
      continue;
    }
    std::vector<std::vector<Neighbor>> lists(replies.size());
    for (size_t i = 0; i < replies.size(); ++i) {
      if (replies[i].ok()) {
        lists[i] = NeighborsOf(replies[i]->results[q]);
      }
    }
    const std::vector<Neighbor> merged = MergeTopK(lists, request.k).neighbors;
    const bool full = static_cast<int64_t>(merged.size()) == request.k;
    for (const size_t i : suspects) {
      cut[i] = !full || lists[i].empty() ||
               NeighborLess(lists[i].back(), merged.back());
    }
  }
  std::vector<int32_t> shards;
  for (size_t i = 0; i < cut.size(); ++i) {
    if (cut[i]) {
      shards.push_back(static_cast<int32_t>(i));
    }
  }
  return shards;
}

int64_t BytesNotSent(const SearchRequest& request, const CollectionSpec& spec,
                     const ShardReplies& replies) {
  if (request.radius.has_value()) {
    return 0;
  }
  int64_t hits = 0;
  for (const absl::StatusOr<ShardSearchReply>& reply : replies) {
    if (!reply.ok() || reply->link.bytes() == 0) {
      continue;
    }
    for (size_t q = 0; q < reply->results.size(); ++q) {
      if (MayHaveMore(reply, q, request.k)) {
        const auto sent = static_cast<int64_t>(reply->results[q].size());
        hits +=
            std::max<int64_t>(0, std::min(request.k, reply->rows_live) - sent);
      }
    }
  }
  const int64_t vector =
      request.with_vectors ? int64_t{4} * spec.dimension : int64_t{0};
  return hits * (16 + vector);
}

}  // namespace coterie
