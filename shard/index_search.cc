#include "shard/index_search.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "index/faiss_search.h"
#include "index/lsh.h"
#include "index/tree.h"
#include "sync/mutex.h"

namespace coterie {
namespace {

// Queries of a task: enough to prepare codes for together, few enough to share
// them out.
constexpr int64_t kMostTaskQueries = 64;

int64_t OrNone(int64_t limit) {
  return limit > 0 ? limit : std::numeric_limits<int64_t>::max();
}

// REQUIRES: it is of an index.
IndexKind KindOf(const Strategy& strategy) {
  if (std::holds_alternative<TreeStrategy>(strategy)) return IndexKind::kTree;
  return std::holds_alternative<LshStrategy>(strategy) ? IndexKind::kLsh
                                                       : IndexKind::kFaiss;
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
      kind_(KindOf(strategy)),
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

absl::Status IndexSearch::Run(WorkQueue* queue) {
  if (pieces_.empty()) {
    return part_.call.ShouldStop() ? part_.call.status() : absl::OkStatus();
  }
  const int64_t n = queries_.size();
  const int64_t step =
      std::clamp<int64_t>(n / (4 * queue->threads()), 1, kMostTaskQueries);
  std::atomic<bool> stopped{false};
  Mutex mutex;
  absl::Status failure;
  queue->ParallelFor(
      WorkClass::kSearch, (n + step - 1) / step, [&](int32_t, int64_t task) {
        if (stopped.load(std::memory_order_relaxed)) return;
        const int64_t first = task * step;
        const absl::Status status = Search(first, std::min(first + step, n));
        if (status.ok()) return;
        stopped.store(true);
        if (absl::IsCancelled(status)) return;
        MutexLock lock(&mutex);
        failure.Update(status);
      });
  MutexLock lock(&mutex);
  if (!failure.ok() || !stopped.load()) return failure;
  return part_.call.status();
}

absl::Status IndexSearch::Search(int64_t first, int64_t end) {
  const RowsView all = queries_.view();
  const ScanQueries queries(
      queries_.metric(),
      {all.data + first * all.stride, end - first, all.d, all.stride});
  if (const auto* tree = std::get_if<TreeStrategy>(&strategy_)) {
    return SearchTrees(first, queries, *tree);
  }
  if (const auto* faiss = std::get_if<FaissStrategy>(&strategy_)) {
    return SearchFaiss(first, queries, *faiss);
  }
  return SearchHashes(first, queries, std::get<LshStrategy>(strategy_));
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

absl::Status IndexSearch::SearchTrees(int64_t first, const ScanQueries& queries,
                                      const TreeStrategy& strategy) {
  std::vector<TreeSegment> segments;
  for (const Piece& piece : pieces_) {
    segments.push_back({piece.index->tree(), piece.segment.Scannable(),
                        piece.segment.view->segment()->codes(),
                        piece.segment.view->segment()->first_look()});
  }
  TreeLimits limits;
  limits.epsilon = strategy.epsilon;
  limits.max_leaves = OrNone(strategy.max_leaves);
  limits.target_recall = strategy.target_recall;
  std::vector<TopK> tops = Tops(queries.size());
  std::vector<TreeAccount> accounts(tops.size());
  if (!TreeSearch(queries, segments, limits, absl::MakeSpan(tops),
                  absl::MakeSpan(accounts),
                  [this] { return part_.call.ShouldStop(); })) {
    return absl::CancelledError("the search was stopped");
  }
  Keep(first, std::move(tops));
  Keep(first, accounts);
  for (size_t i = 0; i < accounts.size(); ++i) {
    accounts_[static_cast<size_t>(first) + i].leaves = accounts[i].leaves;
  }
  return absl::OkStatus();
}

double IndexSearch::TargetOr(double target_recall) const {
  return target_recall > 0 ? target_recall
                           : snapshot_.spec().FindIndex(kind_)->target_recall;
}

absl::Status IndexSearch::SearchHashes(int64_t first,
                                       const ScanQueries& queries,
                                       const LshStrategy& strategy) {
  std::vector<LshSegment> segments;
  for (const Piece& piece : pieces_) {
    segments.push_back(
        {piece.index->lsh(),
         piece.index->codes(piece.segment.view->segment()->codes()),
         piece.segment.Scannable(),
         piece.segment.view->segment()->first_look()});
  }
  LshLimits limits;
  limits.target_recall = TargetOr(strategy.target_recall);
  limits.max_candidates = OrNone(strategy.max_candidates);
  std::vector<TopK> tops = Tops(queries.size());
  std::vector<LshAccount> accounts(tops.size());
  if (!LshSearch(queries, segments, limits, absl::MakeSpan(tops),
                 absl::MakeSpan(accounts),
                 [this] { return part_.call.ShouldStop(); })) {
    return absl::CancelledError("the search was stopped");
  }
  Keep(first, std::move(tops));
  Keep(first, accounts);
  for (size_t i = 0; i < accounts.size(); ++i) {
    accounts_[static_cast<size_t>(first) + i].met = accounts[i].candidates;
  }
  return absl::OkStatus();
}

absl::Status IndexSearch::SearchFaiss(int64_t first, const ScanQueries& queries,
                                      const FaissStrategy& strategy) {
  std::vector<FaissSegment> segments;
  for (const Piece& piece : pieces_) {
    segments.push_back(
        {piece.index->faiss(),
         piece.index->codes(piece.segment.view->segment()->codes()),
         piece.segment.Scannable(),
         piece.segment.view->segment()->first_look()});
  }
  FaissLimits limits;
  limits.target_recall = TargetOr(strategy.target_recall);
  limits.effort = std::max(strategy.nprobe, strategy.ef_search);
  limits.rescored = strategy.candidates;
  std::vector<TopK> tops = Tops(queries.size());
  std::vector<FaissAccount> accounts(tops.size());
  const absl::Status status = FaissSearch(
      queries, segments, limits, absl::MakeSpan(tops), absl::MakeSpan(accounts),
      [this] { return part_.call.ShouldStop(); });
  if (!status.ok()) return status;
  Keep(first, std::move(tops));
  Keep(first, accounts);
  return absl::OkStatus();
}

std::string IndexSearch::Limits() const {
  const SegmentIndex& index = *pieces_.front().index;
  if (const auto* tree = std::get_if<TreeStrategy>(&strategy_)) {
    return absl::StrCat(
        index.tree()->boxes() != nullptr ? ", boxes" : ", cells",
        tree->target_recall < 1
            ? absl::StrCat(", for recall ", tree->target_recall)
            : "");
  }
  if (const auto* faiss = std::get_if<FaissStrategy>(&strategy_)) {
    const std::string factory = snapshot_.spec().FindIndex(kind_)->factory;
    if (faiss->nprobe > 0) {
      return absl::StrCat(", ", factory, ", nprobe ", faiss->nprobe);
    }
    if (faiss->ef_search > 0) {
      return absl::StrCat(", ", factory, ", ef_search ", faiss->ef_search);
    }
    return absl::StrCat(", ", factory, ", for recall ",
                        TargetOr(faiss->target_recall));
  }
  return absl::StrCat(", for recall ",
                      TargetOr(std::get<LshStrategy>(strategy_).target_recall));
}

void IndexSearch::Describe(ShardTimes* times) const {
  const std::string name(IndexKindName(kind_));
  std::string plan;
  if (pieces_.empty()) {
    plan = absl::StrCat("no segment has a ", name, " yet");
  } else {
    plan = absl::StrCat(name, " of ", pieces_.size(), " segments", Limits());
    if (scanned_.load() > 0) {
      absl::StrAppend(&plan, "; a scan took over for ", scanned_.load(), " of ",
                      queries_.size(), " queries");
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
