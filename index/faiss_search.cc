#include "index/faiss_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "index/distance.h"
#include "index/handed_over.h"
#include "index/tree_live.h"

namespace coterie {
namespace {

absl::Status Stopped() {
  return absl::CancelledError("the search was stopped");
}

// One query in one segment.
class OneSearch {
 public:
  OneSearch(const ScanQueries& queries, int64_t query,
            const FaissSegment& segment, absl::Span<TopK> tops,
            FaissAccount* account, absl::FunctionRef<bool()> stop)
      : queries_(queries),
        query_(query),
        segment_(segment),
        tops_(tops),
        top_(tops[static_cast<size_t>(query)]),
        account_(*account),
        stop_(stop),
        live_(internal_tree::CountLive(segment.rows.live, 0,
                                       segment.index->size())) {}

  absl::Status Run(const FaissLimits& limits) {
    const std::optional<FaissEffort> effort = Effort(limits);
    if (!effort.has_value() || 2 * effort->rescored >= live_) return Scan();
    const auto rows = segment_.index->Candidates(
        queries_.query(query_), *effort, segment_.rows.live, stop_);
    if (!rows.ok()) return rows.status();
    if (static_cast<int64_t>(rows->size()) < std::min(top_.k(), live_)) {
      return Scan();
    }
    for (const int64_t row : *rows) Offer(row);
    account_.evaluated += static_cast<int64_t>(rows->size());
    account_.unseen += live_ - static_cast<int64_t>(rows->size());
    return absl::OkStatus();
  }

 private:
  // None: scan.
  std::optional<FaissEffort> Effort(const FaissLimits& limits) const {
    if (live_ == 0 || top_.k() > live_) return std::nullopt;
    const FaissIndex& index = *segment_.index;
    const double dead =
        static_cast<double>(index.size()) / static_cast<double>(live_);
    const double k = std::ceil(static_cast<double>(top_.k()) * dead);
    FaissEffort effort;
    if (limits.effort > 0) {
      effort.effort = limits.effort;
      effort.rescored = index.DefaultRescored(static_cast<int64_t>(k));
    } else {
      // What a filter leaves may lie anywhere: nothing measured tells of it.
      if (limits.target_recall >= 1 || 2 * live_ < index.size()) {
        return std::nullopt;
      }
      const auto measured = index.EffortFor(k, limits.target_recall);
      if (!measured.has_value()) return std::nullopt;
      effort = *measured;
    }
    if (limits.rescored > 0) {
      effort.rescored = std::max(limits.rescored, static_cast<int64_t>(k));
    }
    return effort;
  }

  void Offer(int64_t row) {
    const double norm = segment_.rows.squared_norms != nullptr
                            ? segment_.rows.squared_norms[row]
                            : 0;
    top_.Offer({segment_.rows.ids[row],
                CanonicalDistance(queries_.metric(), queries_.query(query_),
                                  segment_.rows.rows.row(row),
                                  queries_.squared_norm(query_), norm)});
  }

  absl::Status Scan() {
    account_.scanned = true;
    HandedOver handed;
    handed.Add(query_, std::numeric_limits<double>::infinity());
    const ScannedSegment scanned = {segment_.codes, segment_.first_look,
                                    segment_.rows, segment_.index->size()};
    std::vector<ScanAccount> found;
    if (!handed.Scan(queries_, {&scanned, 1}, tops_, &found, stop_)) {
      return Stopped();
    }
    account_.evaluated += found[0].evaluated;
    account_.ruled_out += found[0].ruled_out;
    return absl::OkStatus();
  }

  const ScanQueries& queries_;
  const int64_t query_;
  const FaissSegment& segment_;
  const absl::Span<TopK> tops_;
  TopK& top_;
  FaissAccount& account_;
  const absl::FunctionRef<bool()> stop_;
  const int64_t live_;
};

}  // namespace

absl::Status FaissSearch(const ScanQueries& queries,
                         absl::Span<const FaissSegment> segments,
                         const FaissLimits& limits, absl::Span<TopK> tops,
                         absl::Span<FaissAccount> accounts,
                         absl::FunctionRef<bool()> stop) {
  for (int64_t q = 0; q < queries.size(); ++q) {
    const auto at = static_cast<size_t>(q);
    for (const FaissSegment& segment : segments) {
      if (stop()) return Stopped();
      const absl::Status status =
          OneSearch(queries, q, segment, tops, &accounts[at], stop).Run(limits);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace coterie
