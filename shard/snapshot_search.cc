#include "shard/snapshot_search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/status_details.h"
#include "index/certified_codes.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/code_simd.h"
#include "index/exact_scan.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/top_k.h"

namespace coterie {
namespace {

// Rows that one thread scans at a time: enough to forget the cost of handing
// them out, few enough to share the work evenly.
constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int64_t kLeastChunkRows = 256;

// How one segment is scanned.
struct SegmentScan {
  const SegmentView* view;
  // The queries against the segment's codes; null: its float32 rows are read.
  std::unique_ptr<const CertifiedQueries> coded;

  // What a scan reads of a row before any is re-scored.
  int64_t row_bytes() const {
    const RowsView rows = view->segment()->rows(view->rows());
    return coded != nullptr ? 4 * coded->codes().quads() + 8 : 4 * rows.d;
  }
};

// Rows [begin, end) of one segment.
struct Chunk {
  const SegmentScan* scan;
  int64_t begin;
  int64_t end;
};

// What one thread has found.
struct Findings {
  std::vector<TopK> tops;
  std::vector<ScanAccount> accounts;
};

absl::Status CheckBounds(const SearchRequest& request, const Limits& limits) {
  const auto queries = static_cast<int64_t>(request.queries.size());
  if (queries < 1) return InvalidField("queries", "there is none");
  if (queries > limits.queries) {
    return OverLimit("queries", queries, "queries", limits.queries);
  }
  if (request.k < 1) {
    return InvalidField("k", absl::StrCat(request.k, " is less than 1"));
  }
  if (request.k > limits.k) return OverLimit("k", request.k, "k", limits.k);
  if (queries * request.k > limits.queries_times_k) {
    return OverLimit("queries", queries * request.k, "queries_times_k",
                     limits.queries_times_k);
  }
  if (request.radius.has_value() && std::isnan(*request.radius)) {
    return InvalidField("radius", "it is not a number");
  }
  return absl::OkStatus();
}

// The queries as rows, each admitted by the collection's metric.
absl::StatusOr<std::vector<float>> QueryRows(const SearchRequest& request,
                                             const CollectionSpec& spec) {
  std::vector<float> rows;
  rows.reserve(request.queries.size() * static_cast<size_t>(spec.dimension));
  for (size_t i = 0; i < request.queries.size(); ++i) {
    const std::string field = absl::StrCat("queries[", i, "]");
    const auto* vector = std::get_if<std::vector<float>>(&request.queries[i]);
    if (vector == nullptr) {
      return InvalidField(field, "a shard is asked by vector, not by id");
    }
    if (static_cast<int64_t>(vector->size()) != spec.dimension) {
      return InvalidField(
          field, absl::StrCat("dimension ", vector->size(), ", collection '",
                              spec.name, "' has ", spec.dimension));
    }
    const absl::Status status = ValidateVector(spec.metric, *vector);
    if (!status.ok()) return InvalidField(field, status.message());
    rows.insert(rows.end(), vector->begin(), vector->end());
  }
  return rows;
}

std::vector<SegmentScan> ScansOf(const CollectionSnapshot& snapshot,
                                 const ScanQueries& queries) {
  std::vector<SegmentScan> scans;
  for (const auto& view : snapshot.segments()) {
    const CertifiedCodes* const codes = view->segment()->codes();
    scans.push_back({view.get(), codes == nullptr
                                     ? nullptr
                                     : std::make_unique<CertifiedQueries>(
                                           queries, *codes)});
  }
  return scans;
}

std::vector<Chunk> ChunksOf(const std::vector<SegmentScan>& scans) {
  std::vector<Chunk> chunks;
  for (const SegmentScan& scan : scans) {
    // Whole panels of codes; and threads then read different words of a bitmap.
    const int64_t unit =
        scan.coded != nullptr ? CertifiedCodes::kPanelRows : kLeastChunkRows;
    const int64_t step =
        std::max(unit, kChunkBytes / scan.row_bytes() / unit * unit);
    for (int64_t begin = 0; begin < scan.view->rows(); begin += step) {
      chunks.push_back(
          {&scan, begin, std::min(begin + step, scan.view->rows())});
    }
  }
  return chunks;
}

bool ScanChunk(const Chunk& chunk, const ScanQueries& queries,
               Findings* findings, absl::FunctionRef<bool()> stop) {
  const ScanRows rows = chunk.scan->view->Scannable();
  const auto tops = absl::MakeSpan(findings->tops);
  const auto accounts = absl::MakeSpan(findings->accounts);
  return chunk.scan->coded != nullptr
             ? CertifiedScan(*chunk.scan->coded, rows, chunk.begin, chunk.end,
                             tops, accounts, stop)
             : ExactScan(queries, rows, chunk.begin, chunk.end, tops, accounts,
                         stop);
}

// Scans all chunks on the queue's threads. CANCELLED or DEADLINE_EXCEEDED if
// the call ends before the scan.
absl::StatusOr<std::vector<Findings>> ScanChunks(
    const std::vector<Chunk>& chunks, const ScanQueries& queries, int64_t keep,
    double bound, const CallContext& call, WorkQueue* queue) {
  std::vector<Findings> findings(static_cast<size_t>(queue->threads()));
  std::atomic<bool> stopped{false};
  const auto stop = [&] {
    if (!stopped.load(std::memory_order_relaxed) && call.ShouldStop()) {
      stopped.store(true, std::memory_order_relaxed);
    }
    return stopped.load(std::memory_order_relaxed);
  };
  const auto body = [&](int32_t worker, int64_t task) {
    if (stop()) return;
    Findings& mine = findings[static_cast<size_t>(worker)];
    if (mine.tops.empty()) {
      const auto n = static_cast<size_t>(queries.size());
      mine.tops.assign(n, TopK(keep, bound));
      mine.accounts.resize(n);
    }
    if (!ScanChunk(chunks[static_cast<size_t>(task)], queries, &mine, stop)) {
      stopped.store(true, std::memory_order_relaxed);
    }
  };
  queue->ParallelFor(WorkClass::kSearch, static_cast<int64_t>(chunks.size()),
                     body);
  if (stopped.load()) {
    absl::Status status = call.status();
    if (status.ok()) status = absl::CancelledError("the scan was stopped");
    return status;
  }
  return findings;
}

// One query's neighbours, from every thread.
absl::StatusOr<std::vector<Neighbor>> MergeFindings(
    std::vector<Findings>* findings, size_t query, int64_t keep) {
  std::vector<std::vector<Neighbor>> lists;
  for (Findings& one : *findings) {
    if (!one.tops.empty()) lists.push_back(one.tops[query].TakeSorted());
  }
  MergedTopK merged = MergeTopK(lists, keep);
  if (merged.duplicate_ids > 0) {
    return absl::InternalError(
        absl::StrCat("queries[", query, "]: ", merged.duplicate_ids,
                     " ids have more than one live row on this shard"));
  }
  return std::move(merged.neighbors);
}

QueryAccount AccountOf(const std::vector<Findings>& findings, size_t query) {
  QueryAccount total;
  for (const Findings& one : findings) {
    if (one.accounts.empty()) continue;
    total.evaluated += one.accounts[query].evaluated;
    total.ruled_out += one.accounts[query].ruled_out;
  }
  total.rescored = total.evaluated;
  return total;
}

absl::StatusOr<std::vector<Hit>> HitsOf(const CollectionSnapshot& snapshot,
                                        std::vector<Neighbor> neighbors,
                                        bool with_vectors,
                                        ReplyBudget* budget) {
  std::vector<Hit> hits;
  hits.reserve(neighbors.size());
  if (with_vectors) {
    const absl::Status status =
        budget->Take(static_cast<int64_t>(neighbors.size()) *
                     snapshot.spec().dimension * int64_t{4});
    if (!status.ok()) return status;
  }
  for (const Neighbor& neighbor : neighbors) {
    Hit hit;
    hit.neighbor = neighbor;
    if (with_vectors) {
      const auto vector = snapshot.Find(neighbor.id);
      if (!vector.has_value()) {
        return absl::InternalError(
            absl::StrCat("point ", neighbor.id, " was found but has no row"));
      }
      hit.vector.assign(vector->begin(), vector->end());
    }
    hits.push_back(std::move(hit));
  }
  return hits;
}

// What was run, for people, and what it read.
void DescribeScan(const std::vector<SegmentScan>& scans,
                  const std::vector<QueryAccount>& accounts, int64_t dimension,
                  ShardTimes* times) {
  bool coded = false;
  bool plain = scans.empty();
  for (const SegmentScan& scan : scans) {
    (scan.coded != nullptr ? coded : plain) = true;
    times->rows_scanned += scan.view->rows();
    times->bytes_scanned += scan.view->rows() * scan.row_bytes();
  }
  if (coded) {
    for (const QueryAccount& account : accounts) {
      times->bytes_scanned += account.rescored * dimension * int64_t{4};
    }
  }
  const std::string int8 =
      absl::StrCat("int8 codes, ", CodeKernelName(ActiveCodeKernel()));
  const std::string float32 =
      absl::StrCat("float32 scan, ", SimdTargetName(ActiveSimdTarget()));
  times->plan = absl::StrCat("exact ", coded ? int8 : float32,
                             coded && plain ? absl::StrCat("; ", float32) : "");
}

}  // namespace

absl::StatusOr<ShardSearchReply> SearchSnapshot(
    const CollectionSnapshot& snapshot, const SearchRequest& request,
    const Limits& limits, const CallContext& call, ReplyBudget* budget,
    WorkQueue* queue) {
  const absl::Time start = absl::Now();
  const CollectionSpec& spec = snapshot.spec();
  absl::Status status = CheckBounds(request, limits);
  if (!status.ok()) return status;
  const absl::StatusOr<std::vector<float>> rows = QueryRows(request, spec);
  if (!rows.ok()) return rows.status();

  const auto n = static_cast<int64_t>(request.queries.size());
  const ScanQueries queries(spec.metric,
                            {rows->data(), n, spec.dimension, spec.dimension});
  // One more than may lie within the radius, to know that too many do.
  const int64_t keep = request.k + (request.radius.has_value() ? 1 : 0);
  const double bound =
      request.radius.value_or(std::numeric_limits<double>::infinity());
  const std::vector<SegmentScan> scans = ScansOf(snapshot, queries);
  auto findings =
      ScanChunks(ChunksOf(scans), queries, keep, bound, call, queue);
  if (!findings.ok()) return findings.status();

  ShardSearchReply reply;
  reply.rows_live = snapshot.rows_live();
  reply.slots = snapshot.slots();
  for (size_t i = 0; i < request.queries.size(); ++i) {
    auto neighbors = MergeFindings(&*findings, i, keep);
    if (!neighbors.ok()) return neighbors.status();
    if (static_cast<int64_t>(neighbors->size()) > request.k) {
      return absl::ResourceExhaustedError(
          absl::StrCat("queries[", i, "]: more than ", request.k,
                       " points lie within radius ", bound, " (limit `k` is ",
                       limits.k, "): ask for a smaller radius"));
    }
    auto hits =
        HitsOf(snapshot, std::move(*neighbors), request.with_vectors, budget);
    if (!hits.ok()) return hits.status();
    reply.results.push_back(std::move(*hits));
    reply.accounts.push_back(AccountOf(*findings, i));
  }
  DescribeScan(scans, reply.accounts, spec.dimension, &reply.times);
  reply.times.scan_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  return reply;
}

}  // namespace coterie
