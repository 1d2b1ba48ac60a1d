// Search in domain types: the request, a shard's reply, the merged reply.
// Plain data; shared between threads once built and then not changed.

#ifndef COTERIE_API_SEARCH_H_
#define COTERIE_API_SEARCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "api/collection.h"
#include "api/filter.h"
#include "api/link_use.h"
#include "api/point.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"

namespace coterie {

struct PartialPolicy {
  enum class Kind { kFail, kAllow, kRequire };
  Kind kind = Kind::kFail;
  double min_ratio = 1;  // kRequire only, (0, 1]
};

// How a shard looks for neighbours. 0 of a limit: none.
struct ExactStrategy {
  friend bool operator==(const ExactStrategy&, const ExactStrategy&) = default;
};
struct TreeStrategy {
  int64_t max_leaves = 0;
  double epsilon = 0;
  double target_recall = 1;  // (0, 1]

  friend bool operator==(const TreeStrategy&, const TreeStrategy&) = default;
};
struct LshStrategy {
  double target_recall = 0;  // (0, 1]; 0: the index's
  int64_t max_candidates = 0;

  friend bool operator==(const LshStrategy&, const LshStrategy&) = default;
};
// At most one of nprobe, ef_search and target_recall is set.
struct FaissStrategy {
  double target_recall = 0;  // (0, 1]; 0: the index's
  int64_t nprobe = 0;
  int64_t ef_search = 0;
  int64_t candidates = 0;

  friend bool operator==(const FaissStrategy&, const FaissStrategy&) = default;
};
// Whatever a shard predicts to cost least.
struct AutoStrategy {
  double target_recall = 1;  // (0, 1]

  friend bool operator==(const AutoStrategy&, const AutoStrategy&) = default;
};
using Strategy = std::variant<ExactStrategy, TreeStrategy, LshStrategy,
                              AutoStrategy, FaissStrategy>;

// Whether every answer by it is that of a scan: certified if nothing fails.
bool IsExact(const Strategy& strategy);

// FAILED_PRECONDITION naming collection and kind if the strategy is of an index
// that the collection does not have, or a limit not of the one that it has.
absl::Status CheckStrategy(const Strategy& strategy,
                           const CollectionSpec& spec);

struct SearchRequest {
  std::string collection;
  // A vector, or the id of a stored point. Shards receive vectors only.
  using Query = std::variant<std::vector<float>, PointId>;
  std::vector<Query> queries;
  // Neighbours wanted from each shard and overall: offset is already in it.
  int64_t k = 0;
  // Set: all points within this distance (inclusive), at most k; k + 1 found
  // is RESOURCE_EXHAUSTED.
  std::optional<double> radius;
  Strategy strategy;
  int64_t offset = 0;  // applied after the merge
  // Only points that it admits; before anything is cut.
  Filter filter;
  bool with_vectors = false;
  AttributeSelector with_attributes;
  PartialPolicy partial_policy;
  bool profile = false;
  bool measure_recall = false;  // of no concern to shards

  // By query: lowered and obeyed by all shards of this process that answer;
  // null: each looks alone. Never sent. Rows of one shard then rule out rows of
  // another, whose list ends at the threshold and may be short: only for
  // searches that fail as a whole when a shard does, without a radius.
  std::shared_ptr<std::vector<SharedThreshold>> thresholds;
};

struct Hit {
  Neighbor neighbor;
  std::vector<float> vector;  // with_vectors
  Attributes attributes;      // with_attributes
};

// A slot as a shard saw it at its sequence.
struct SlotState {
  int32_t slot = 0;
  int64_t offset = 0;        // writes applied
  int64_t rows = 0;          // live
  uint64_t id_checksum = 0;  // sum of SplitMix64(id) over live ids, mod 2^64
};

// rows_live = evaluated + ruled_out + filtered, or the certificate is void;
// with `unseen` it is so in any case.
struct QueryAccount {
  int64_t evaluated = 0;
  int64_t ruled_out = 0;
  int64_t filtered = 0;
  int64_t rescored = 0;
  int64_t unseen = 0;  // left out by the strategy's limits
  int64_t leaves = 0;  // of trees, read
  int64_t met = 0;     // in buckets, distinct
};

struct ShardTimes {
  std::string plan;
  int64_t rows_scanned = 0;
  int64_t bytes_scanned = 0;
  double queue_seconds = 0;
  double scan_seconds = 0;
  double round_trip_seconds = 0;  // filled by the coordinator
};

struct ShardSearchReply {
  int32_t shard_id = 0;
  int64_t catalogue_version = 0;
  int64_t sequence = 0;
  int64_t rows_live = 0;
  std::vector<SlotState> slots;           // all slots the shard owns
  std::vector<std::vector<Hit>> results;  // per query, sorted, at most k
  std::vector<QueryAccount> accounts;     // per query
  ShardTimes times;
  LinkUse link = {};  // filled by the client that called
  int64_t asked = 0;  // neighbours per query; filled by the coordinator
};

struct MissingShard {
  int32_t shard_id = 0;
  std::string reason;
};

struct Coverage {
  int32_t shards_total = 0;
  int32_t shards_ok = 0;
  int64_t rows_total = 0;
  int64_t rows_covered = 0;
  bool estimated = false;
  std::vector<MissingShard> missing;
};

// One shard's part of the evidence.
struct ShardCertificate {
  int32_t shard_id = 0;
  int64_t sequence = 0;
  int64_t rows_live = 0;
  std::vector<SlotState> slots;
  std::vector<QueryAccount> accounts;
};

struct Certificate {
  int64_t map_version = 0;
  std::vector<ShardCertificate> shards;
  std::string withheld;  // why `exact` is not set; empty when it is
};

struct CommunicationCost {
  int64_t messages = 0;
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  double measured_seconds = 0;
  double compute_seconds = 0;
  // By the links' models as they stood before the operation.
  double predicted_seconds = 0;
  double ratio = 0;  // compute_seconds / measured_seconds; 0 if that is 0
  // Against asking every shard for k at once; negative if that was cheaper.
  int64_t bytes_saved = 0;
};

struct SearchReply {
  struct Result {
    std::vector<Hit> hits;
    bool exact = false;
    std::optional<double> recall = {};  // with measure_recall
  };
  std::vector<Result> results;
  Coverage coverage;
  Certificate certificate;
  std::vector<std::pair<int32_t, ShardTimes>> shard_times;  // by shard id
  int32_t rounds = 0;  // how often shards were asked
  double total_seconds = 0;
  double merge_seconds = 0;
  CommunicationCost cost;
};

}  // namespace coterie

#endif  // COTERIE_API_SEARCH_H_
