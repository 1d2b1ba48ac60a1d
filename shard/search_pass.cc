#include "shard/search_pass.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "index/certified_codes.h"
#include "index/code_simd.h"
#include "index/planner.h"
#include "index/simd.h"

namespace coterie {
namespace {

// Rows that one thread scans at a time: enough to forget the cost of handing
// them out, few enough to share the work evenly.
constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int64_t kLeastChunkRows = 256;

// The i-th of `count` chunks to be scanned: rows lie in order of their ids, and
// near ids are often alike. The threshold of the first few chunks is the better
// the more they are like all. A permutation: golden-ratio steps, each coprime
// to the count.
int64_t Scattered(int64_t i, int64_t count) {
  int64_t step = std::max<int64_t>(1, count * 618 / 1000);
  while (std::gcd(step, count) != 1) ++step;
  return i * step % count;
}

// A scan asks every few microseconds whether to stop; with many callers it
// looks at all of them at every so many asks.
constexpr size_t kMostAsks = 16;

}  // namespace

double SearchPass::SegmentScan::row_bytes() const {
  if (coded != nullptr) {
    return static_cast<double>(4 * coded->codes().quads() + 8);
  }
  return static_cast<double>(4 * scannable.rows.d) *
         static_cast<double>(count) / static_cast<double>(rows);
}

SearchPass::SearchPass(std::vector<FilteredSegment> sources,
                       const ScanQueries& queries, std::vector<Part> parts)
    : sources_(std::move(sources)),
      queries_(queries),
      parts_(std::move(parts)),
      found_(static_cast<size_t>(queries.size())),
      thresholds_(static_cast<size_t>(queries.size())),
      ended_(parts_.size()) {
  for (const FilteredSegment& source : sources_) {
    const SegmentView& view = *source.view;
    rows_filtered_ += view.live() - source.count();
    const Segment& segment = *view.segment();
    int64_t first = 0;
    if (view.tail_blocks() != nullptr) {
      for (const auto& block : *view.tail_blocks()) {
        AddScan(source, block->first, block->codes.size(), &block->codes,
                block->plane.get(), nullptr);
        first = block->first + block->codes.size();
      }
    }
    if (first < view.rows()) {
      AddScan(source, first, view.rows() - first, segment.codes(),
              segment.plane(), segment.head());
    }
  }
  ChooseGuessed();
}

void SearchPass::ChooseGuessed() {
  if (scans_.empty()) return;
  const auto largest =
      std::max_element(scans_.begin(), scans_.end(),
                       [](const SegmentScan& a, const SegmentScan& b) {
                         return (a.coded == nullptr ? 0 : a.count) <
                                (b.coded == nullptr ? 0 : b.count);
                       });
  std::iter_swap(largest, scans_.end() - 1);
  const SegmentScan& scan = scans_.back();
  int64_t all = 0;
  for (const SegmentScan& each : scans_) all += each.count;
  if (scan.coded == nullptr || scan.count < all / 2) return;
  for (const Part& part : parts_) {
    if (!GuessPays(part.keep, scan.count, queries_.size() == 1)) continue;
    guesses_ = std::vector<GuessedThreshold>(thresholds_.size());
    return;
  }
}

void SearchPass::Guess(WorkQueue* queue) {
  if (guesses_.empty()) return;
  const SegmentScan& scan = scans_.back();
  std::vector<int64_t> ks;
  for (const Part& part : parts_) {
    ks.insert(ks.end(), static_cast<size_t>(part.count), part.keep);
  }
  constexpr int64_t kAtOnce = 12;
  queue->ParallelFor(
      WorkClass::kSearch, (queries_.size() + kAtOnce - 1) / kAtOnce,
      [&](int32_t worker, int64_t task) {
        if (all_ended() || !GoOn(&workers_[static_cast<size_t>(worker)]))
          return;
        const auto first = static_cast<size_t>(task * kAtOnce);
        GuessThresholds(*scan.coded, scan.scannable, scan.count, task * kAtOnce,
                        absl::MakeConstSpan(ks).subspan(first, kAtOnce),
                        absl::MakeSpan(guesses_).subspan(first, kAtOnce));
      });
}

void SearchPass::DecideGuesses() {
  for (const Part& part : parts_) {
    for (auto q = static_cast<size_t>(part.first);
         q < static_cast<size_t>(part.first + part.count); ++q) {
      GuessedThreshold& guess = guesses_[q];
      if (guess.within() >= part.keep ||
          thresholds_[q].value() <= guess.value()) {
        guess.Confirm();
      } else {
        guess.Fail();
      }
    }
  }
}

void SearchPass::AddScan(const FilteredSegment& source, int64_t first,
                         int64_t rows, const CertifiedCodes* codes,
                         const CertifiedPlane* plane,
                         const CertifiedHead* head) {
  SegmentScan scan{
      rows, nullptr, plane, nullptr, source.Scannable(first, first + rows),
      rows};
  if (source.admitted != nullptr) {
    scan.count = rows == source.view->rows()
                     ? source.count()
                     : source.admitted->rows.CountIn(first, first + rows);
    if (scan.count == 0) return;
  }
  if (codes != nullptr &&
      (source.admitted == nullptr || !GatherPays(scan.count, rows))) {
    scan.coded = std::make_unique<CertifiedQueries>(queries_, *codes);
    if (head != nullptr && queries_.size() == 1) {
      scan.head = std::make_unique<CertifiedHeadQuery>(queries_, 0, *head);
    }
  }
  scans_.push_back(std::move(scan));
}

const SearchPass::Part& SearchPass::PartOf(int64_t query) const {
  return *std::find_if(parts_.begin(), parts_.end(), [query](const Part& p) {
    return query < p.first + p.count;
  });
}

void SearchPass::Seed(int64_t query, std::vector<Neighbor> found,
                      const QueryAccount& account) {
  const int64_t keep = PartOf(query).keep;
  const auto q = static_cast<size_t>(query);
  if (static_cast<int64_t>(found.size()) >= keep) {
    thresholds_[q].Lower(found[static_cast<size_t>(keep - 1)].distance);
  }
  found_[q] = {std::move(found), account};
}

std::vector<SearchPass::Chunk> SearchPass::Chunks(size_t first_scan) const {
  std::vector<Chunk> chunks;
  for (size_t s = first_scan; s < scans_.size(); ++s) {
    const SegmentScan& scan = scans_[s];
    // Whole panels of codes; and threads then read different words of a bitmap.
    const int64_t unit =
        scan.coded != nullptr ? CertifiedCodes::kPanelRows : kLeastChunkRows;
    const auto fit = static_cast<int64_t>(std::min(
        kChunkBytes / scan.row_bytes(), static_cast<double>(scan.rows)));
    const int64_t step = std::max(unit, fit / unit * unit);
    const int64_t count = (scan.rows + step - 1) / step;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = Scattered(i, count) * step;
      chunks.push_back({&scan, begin, std::min(begin + step, scan.rows)});
    }
  }
  return chunks;
}

void SearchPass::Begin(Worker* worker) const {
  if (!worker->tops.empty()) return;
  worker->tops.reserve(static_cast<size_t>(queries_.size()));
  for (const Part& part : parts_) {
    worker->tops.insert(worker->tops.end(), static_cast<size_t>(part.count),
                        TopK(part.keep, part.radius));
  }
  worker->accounts.resize(worker->tops.size());
  worker->heeded.resize(parts_.size());
}

void SearchPass::LookForEnded() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (!ended_[i].load(std::memory_order_relaxed) &&
        parts_[i].call.ShouldStop() && !ended_[i].exchange(true)) {
      ended_count_.fetch_add(1);
    }
  }
}

// An ended part has a threshold that rules out all: nobody else hears of it, or
// it no longer matters, as its search then fails on all shards.
void SearchPass::Share() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (ended_[i].load(std::memory_order_relaxed)) continue;
    auto q = static_cast<size_t>(parts_[i].first);
    for (SharedThreshold& shared : parts_[i].shared) {
      thresholds_[q].Lower(shared.value());
      shared.Lower(thresholds_[q].value());
      ++q;
    }
  }
}

bool SearchPass::GoOn(Worker* worker) {
  Share();
  asks_.fetch_add(1, std::memory_order_relaxed);
  if (worker->asked++ % std::min(kMostAsks, parts_.size()) == 0) {
    LookForEnded();
  }
  return !all_ended();
}

void SearchPass::HeedEnded(Worker* worker) {
  if (ended_count_.load() == worker->heeded_count) return;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (worker->heeded[i] || !ended_[i].load()) continue;
    worker->heeded[i] = true;
    ++worker->heeded_count;
    for (int64_t q = parts_[i].first; q < parts_[i].first + parts_[i].count;
         ++q) {
      // Nothing passes the float32 scan, which has no way to leave.
      worker->tops[static_cast<size_t>(q)].Restrict(
          -std::numeric_limits<double>::infinity());
      if (worker->scanner != nullptr) worker->scanner->Leave(q);
    }
  }
}

bool SearchPass::FinishScan(Worker* worker) {
  if (worker->scanner == nullptr) return true;
  const bool finished =
      worker->scanner->Finish(absl::MakeSpan(worker->accounts),
                              [this, worker] { return !GoOn(worker); });
  worker->scanner = nullptr;
  return finished;
}

bool SearchPass::ScanRowsOf(const Chunk& chunk, Worker* worker) {
  for (size_t q = 0; q < worker->tops.size(); ++q) {
    worker->tops[q].Restrict(thresholds_[q].value());
  }
  if (!ExactScan(queries_, chunk.scan->scannable, chunk.begin, chunk.end,
                 absl::MakeSpan(worker->tops), absl::MakeSpan(worker->accounts),
                 [this, worker] { return !GoOn(worker); })) {
    return false;
  }
  for (size_t q = 0; q < worker->tops.size(); ++q) {
    thresholds_[q].Lower(worker->tops[q].Threshold());
  }
  return true;
}

void SearchPass::MakeScanner(const SegmentScan& scan, Worker* worker) {
  const bool guessed =
      !guesses_.empty() && &scan == &scans_.back() && !after_failed_;
  // Bounds by plane or head are too wide to confirm a guess.
  worker->scanner = std::make_unique<CertifiedScanner>(
      *scan.coded, scan.scannable, absl::MakeSpan(worker->tops),
      absl::MakeSpan(thresholds_), guessed ? nullptr : scan.plane,
      guessed ? nullptr : scan.head.get(),
      guessed ? absl::MakeSpan(guesses_) : absl::Span<GuessedThreshold>());
  for (int64_t q = 0; after_failed_ && q < queries_.size(); ++q) {
    if (!guesses_[static_cast<size_t>(q)].failed()) worker->scanner->Leave(q);
  }
  worker->heeded.assign(parts_.size(), false);
  worker->heeded_count = 0;
}

bool SearchPass::ScanChunk(const Chunk& chunk, Worker* worker) {
  Begin(worker);
  if (chunk.scan != worker->scan) {
    if (!FinishScan(worker)) return false;
    worker->scan = chunk.scan;
    if (chunk.scan->coded != nullptr) MakeScanner(*chunk.scan, worker);
  }
  HeedEnded(worker);
  if (worker->scanner == nullptr) return ScanRowsOf(chunk, worker);
  return worker->scanner->Scan(chunk.begin, chunk.end,
                               [this, worker] { return !GoOn(worker); });
}

// Each on its own would re-score about k rows of each query.
bool SearchPass::FinishTogether(const std::vector<Worker*>& unfinished,
                                WorkQueue* queue) {
  std::vector<CertifiedScanner*> others;
  for (Worker* worker : unfinished) {
    if (worker->scan != unfinished[0]->scan) return false;
    if (worker != unfinished[0]) others.push_back(worker->scanner.get());
  }
  constexpr int64_t kAtOnce = 16;
  queue->ParallelFor(
      WorkClass::kSearch, (queries_.size() + kAtOnce - 1) / kAtOnce,
      [&](int32_t worker, int64_t task) {
        Worker* mine = &workers_[static_cast<size_t>(worker)];
        if (all_ended() || !GoOn(mine)) return;
        const int64_t first = task * kAtOnce;
        unfinished[0]->scanner->FinishWith(
            others, first, std::min(kAtOnce, queries_.size() - first),
            absl::MakeSpan(unfinished[0]->accounts),
            [this, mine] { return !GoOn(mine); });
      });
  for (Worker* worker : unfinished) worker->scanner = nullptr;
  return true;
}

void SearchPass::ScanAll(const std::vector<Chunk>& chunks, WorkQueue* queue) {
  queue->ParallelFor(WorkClass::kSearch, static_cast<int64_t>(chunks.size()),
                     [&](int32_t worker, int64_t task) {
                       Worker* mine = &workers_[static_cast<size_t>(worker)];
                       if (!GoOn(mine)) return;
                       ScanChunk(chunks[static_cast<size_t>(task)], mine);
                     });
  std::vector<Worker*> unfinished;
  for (Worker& worker : workers_) {
    if (worker.scanner != nullptr) unfinished.push_back(&worker);
  }
  const auto count = static_cast<int64_t>(unfinished.size());
  if (!guesses_.empty() && !after_failed_) {
    queue->ParallelFor(WorkClass::kSearch, count, [&](int32_t, int64_t task) {
      unfinished[static_cast<size_t>(task)]->scanner->CountWithin();
    });
    DecideGuesses();
  }
  if (queries_.size() < 2 * queue->threads() || count < 2 ||
      !FinishTogether(unfinished, queue)) {
    queue->ParallelFor(WorkClass::kSearch, count, [&](int32_t, int64_t task) {
      FinishScan(unfinished[static_cast<size_t>(task)]);
    });
  }
  for (Worker& worker : workers_) worker.scan = nullptr;
}

void SearchPass::Run(WorkQueue* queue) {
  workers_.resize(static_cast<size_t>(queue->threads()));
  Guess(queue);
  ScanAll(Chunks(0), queue);
  after_failed_ =
      std::any_of(guesses_.begin(), guesses_.end(),
                  [](const GuessedThreshold& guess) { return guess.failed(); });
  if (after_failed_) ScanAll(Chunks(scans_.size() - 1), queue);
  Share();
  LookForEnded();
}

absl::StatusOr<std::vector<Neighbor>> SearchPass::TakeNeighbors(int64_t query) {
  const auto q = static_cast<size_t>(query);
  std::vector<std::vector<Neighbor>> lists;
  lists.push_back(std::move(found_[q].neighbors));
  for (Worker& worker : workers_) {
    if (worker.tops.empty()) continue;
    lists.push_back(worker.tops[q].TakeSorted());
  }
  const Part& part = PartOf(query);
  MergedTopK merged = MergeTopK(lists, part.keep);
  if (merged.duplicate_ids > 0) {
    return absl::InternalError(
        absl::StrCat(merged.duplicate_ids,
                     " ids have more than one live row on this shard"));
  }
  if (!part.shared.empty()) {
    SharedThreshold& shared =
        part.shared[static_cast<size_t>(query - part.first)];
    if (static_cast<int64_t>(merged.neighbors.size()) == part.keep) {
      shared.Lower(merged.neighbors.back().distance);
    }
    const double threshold = shared.value();
    // What lies beyond is what happened to be looked at.
    merged.neighbors.erase(
        std::find_if(
            merged.neighbors.begin(), merged.neighbors.end(),
            [threshold](const Neighbor& n) { return n.distance > threshold; }),
        merged.neighbors.end());
  }
  return std::move(merged.neighbors);
}

QueryAccount SearchPass::AccountOf(int64_t query) const {
  QueryAccount total = found_[static_cast<size_t>(query)].account;
  for (const Worker& worker : workers_) {
    if (worker.accounts.empty()) continue;
    const ScanAccount& account = worker.accounts[static_cast<size_t>(query)];
    total.evaluated += account.evaluated;
    total.ruled_out += account.ruled_out;
  }
  total.rescored = total.evaluated;
  total.filtered += rows_filtered_;
  return total;
}

void SearchPass::Describe(absl::Span<const QueryAccount> accounts,
                          ShardTimes* times) const {
  bool coded = false;
  bool plain = scans_.empty();
  for (const SegmentScan& scan : scans_) {
    (scan.coded != nullptr ? coded : plain) = true;
    times->rows_scanned += scan.coded != nullptr ? scan.rows : scan.count;
    times->bytes_scanned +=
        static_cast<int64_t>(static_cast<double>(scan.rows) * scan.row_bytes());
  }
  if (coded) {
    for (const QueryAccount& account : accounts) {
      times->bytes_scanned +=
          account.rescored * queries_.dimension() * int64_t{4};
    }
  }
  const std::string int8 =
      absl::StrCat("int8 codes, ", CodeKernelName(ActiveCodeKernel()));
  const std::string float32 =
      absl::StrCat("float32 scan, ", SimdTargetName(ActiveSimdTarget()));
  times->plan = absl::StrCat("exact ", coded ? int8 : float32,
                             coded && plain ? absl::StrCat("; ", float32) : "");
  if (parts_.size() > 1) {
    absl::StrAppend(&times->plan, "; one pass for ", parts_.size(),
                    " searches");
  }
}

}  // namespace coterie
