#include "shard/index_search.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/lsh.h"
#include "index/tree.h"

namespace coterie {
namespace {

// Queries of a task: enough to prepare codes for together, few enough to share
// them out.
constexpr int64_t kMostTaskQueries = 64;

int64_t OrNone(int64_t limit) {
  return limit > 0 ? limit : std::numeric_limits<int64_t>::max();
}

}  // namespace

IndexSearch::IndexSearch(const CollectionSnapshot& snapshot,
                         const ScanQueries& queries, const Strategy& strategy,
                         const SearchPass::Part& part,
                         const FilteredRows* filtered)
    : snapshot_(snapshot),
      queries_(queries),
      strategy_(strategy),
      part_(part),
      kind_(std::holds_alternative<TreeStrategy>(strategy) ? IndexKind::kTree
                                                           : IndexKind::kLsh),
      found_(static_cast<size_t>(queries.size())),
      accounts_(static_cast<size_t>(queries.size())) {
  for (FilteredSegment& segment : SegmentsOf(snapshot_, filtered)) {
    std::shared_ptr<const SegmentIndex> index =
        segment.view->segment()->indexes().Get(kind_);
    if (index != nullptr && segment.count() > 0) {
      pieces_.push_back({std::move(segment), std::move(index)});
    } else {
      rest_.push_back(std::move(segment));
    }
  }
}

bool IndexSearch::Run(WorkQueue* queue) {
  if (pieces_.empty()) return !part_.call.ShouldStop();
  const int64_t n = queries_.size();
  const int64_t step =
      std::clamp<int64_t>(n / (4 * queue->threads()), 1, kMostTaskQueries);
  std::atomic<bool> stopped{false};
  queue->ParallelFor(
      WorkClass::kSearch, (n + step - 1) / step, [&](int32_t, int64_t task) {
        if (stopped.load(std::memory_order_relaxed)) return;
        const int64_t first = task * step;
        const int64_t end = std::min(first + step, n);
        const auto* tree = std::get_if<TreeStrategy>(&strategy_);
        const bool done =
            tree != nullptr
                ? SearchTrees(first, end, *tree)
                : SearchHashes(first, end, std::get<LshStrategy>(strategy_));
        if (!done) stopped.store(true);
      });
  return !stopped.load();
}

bool IndexSearch::Suffices(int64_t wanted) const {
  for (const FilteredSegment& segment : rest_) wanted -= segment.count();
  return std::all_of(found_.begin(), found_.end(), [wanted](const auto& found) {
    return static_cast<int64_t>(found.size()) >= wanted;
  });
}

std::vector<TopK> IndexSearch::Tops(int64_t count) const {
  return std::vector<TopK>(static_cast<size_t>(count),
                           TopK(part_.keep, part_.radius));
}

void IndexSearch::Keep(int64_t first, std::vector<TopK> tops) {
  for (size_t i = 0; i < tops.size(); ++i) {
    found_[static_cast<size_t>(first) + i] = tops[i].TakeSorted();
  }
}

template <typename Account>
void IndexSearch::Keep(int64_t first, const std::vector<Account>& accounts) {
  int64_t filtered = 0;
  for (const Piece& piece : pieces_) {
    filtered += piece.segment.view->live() - piece.segment.count();
  }
  for (size_t i = 0; i < accounts.size(); ++i) {
    QueryAccount& account = accounts_[static_cast<size_t>(first) + i];
    account.filtered = filtered;
    account.evaluated = accounts[i].evaluated;
    account.ruled_out = accounts[i].ruled_out;
    account.unseen = accounts[i].unseen;
    if (accounts[i].scanned) scanned_.fetch_add(1);
  }
}

bool IndexSearch::SearchTrees(int64_t first, int64_t end,
                              const TreeStrategy& strategy) {
  const RowsView all = queries_.view();
  const ScanQueries queries(
      queries_.metric(),
      {all.data + first * all.stride, end - first, all.d, all.stride});
  std::vector<TreeSegment> segments;
  for (const Piece& piece : pieces_) {
    segments.push_back({piece.index->tree(), piece.segment.Scannable(),
                        piece.segment.view->segment()->codes()});
  }
  TreeLimits limits;
  limits.epsilon = strategy.epsilon;
  limits.max_leaves = OrNone(strategy.max_leaves);
  limits.target_recall = strategy.target_recall;
  std::vector<TopK> tops = Tops(end - first);
  std::vector<TreeAccount> accounts(tops.size());
  if (!TreeSearch(queries, segments, limits, absl::MakeSpan(tops),
                  absl::MakeSpan(accounts),
                  [this] { return part_.call.ShouldStop(); })) {
    return false;
  }
  Keep(first, std::move(tops));
  Keep(first, accounts);
  for (size_t i = 0; i < accounts.size(); ++i) {
    accounts_[static_cast<size_t>(first) + i].leaves = accounts[i].leaves;
  }
  return true;
}

double IndexSearch::LshTarget(const LshStrategy& strategy) const {
  return strategy.target_recall > 0
             ? strategy.target_recall
             : snapshot_.spec().FindIndex(IndexKind::kLsh)->target_recall;
}

bool IndexSearch::SearchHashes(int64_t first, int64_t end,
                               const LshStrategy& strategy) {
  const RowsView all = queries_.view();
  const ScanQueries queries(
      queries_.metric(),
      {all.data + first * all.stride, end - first, all.d, all.stride});
  std::vector<LshSegment> segments;
  for (const Piece& piece : pieces_) {
    segments.push_back(
        {piece.index->lsh(),
         piece.index->codes(piece.segment.view->segment()->codes()),
         piece.segment.Scannable()});
  }
  LshLimits limits;
  limits.target_recall = LshTarget(strategy);
  limits.max_candidates = OrNone(strategy.max_candidates);
  std::vector<TopK> tops = Tops(end - first);
  std::vector<LshAccount> accounts(tops.size());
  if (!LshSearch(queries, segments, limits, absl::MakeSpan(tops),
                 absl::MakeSpan(accounts),
                 [this] { return part_.call.ShouldStop(); })) {
    return false;
  }
  Keep(first, std::move(tops));
  Keep(first, accounts);
  for (size_t i = 0; i < accounts.size(); ++i) {
    accounts_[static_cast<size_t>(first) + i].met = accounts[i].candidates;
  }
  return true;
}

void IndexSearch::Describe(ShardTimes* times) const {
  const std::string name(IndexKindName(kind_));
  std::string plan;
  if (pieces_.empty()) {
    plan = absl::StrCat("no segment has a ", name, " yet");
  } else {
    plan = absl::StrCat(name, " of ", pieces_.size(), " segments");
    const auto* tree = std::get_if<TreeStrategy>(&strategy_);
    if (tree != nullptr) {
      absl::StrAppend(&plan, pieces_.front().index->tree()->boxes() != nullptr
                                 ? ", boxes"
                                 : ", cells");
      if (tree->target_recall < 1) {
        absl::StrAppend(&plan, ", for recall ", tree->target_recall);
      }
    } else {
      absl::StrAppend(&plan, ", for recall ",
                      LshTarget(std::get<LshStrategy>(strategy_)));
    }
    if (scanned_.load() > 0) {
      absl::StrAppend(&plan, "; a scan cost less and took over for ",
                      scanned_.load(), " of ", queries_.size(), " queries");
    }
  }
  for (const Piece& piece : pieces_) {
    times->rows_scanned += piece.segment.view->rows();
  }
  for (const QueryAccount& account : accounts_) {
    times->bytes_scanned +=
        account.evaluated * queries_.dimension() * int64_t{4};
  }
  times->plan = rest_.empty() ? plan
                              : absl::StrCat(plan, "; the other ", rest_.size(),
                                             " segments: ", times->plan);
}

}  // namespace coterie
