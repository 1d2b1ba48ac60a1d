// A shard's exact search behind C functions, for bench/exact/exact.py: rows
// are upserted, sealed and searched as a shard does it, without disk and gRPC.
//
// An object belongs to one caller at a time.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/call.h"
#include "api/collection.h"
#include "api/limits.h"
#include "api/search.h"
#include "bench/exact/machine_limits.h"
#include "index/code_simd.h"
#include "index/metric.h"
#include "index/simd.h"
#include "shard/collection_state.h"
#include "shard/reply_budget.h"
#include "shard/snapshot_search.h"
#include "shard/work_queue.h"

namespace coterie {
namespace {

constexpr int32_t kQueueCapacity = 16;

// The limits that a server has bound what a stranger may ask, not this.
Limits WideLimits() {
  Limits limits;
  limits.queries = 1 << 20;
  limits.k = 1 << 20;
  limits.queries_times_k = int64_t{1} << 32;
  return limits;
}

CollectionSpec SpecOf(Metric metric, int64_t dimension) {
  CollectionSpec spec;
  spec.name = "bench";
  spec.number = 1;
  spec.dimension = static_cast<int32_t>(dimension);
  spec.metric = metric;
  spec.slots = 1;
  spec.owner = {0};
  return spec;
}

class Collection {
 public:
  Collection(Metric metric, RowsView rows) {
    // Sealed rows only: what a shard holds once it is not written to.
    CollectionState state(SpecOf(metric, rows.d), 0, SegmentTuning());
    state.StartLoad(rows.n);
    for (int64_t i = 0; i < rows.n; ++i) {
      state.Load(static_cast<PointId>(i), rows.row(i));
    }
    state.FinishLoad();
    snapshot_ = state.Publish(1);
  }

  absl::StatusOr<ShardSearchReply> Search(const SearchRequest& request,
                                          int32_t threads) {
    ReplyBudget budget(int64_t{1} << 40);
    return SearchSnapshot(*snapshot_, request, WideLimits(), CallContext(),
                          &budget, Queue(threads));
  }

 private:
  WorkQueue* Queue(int32_t threads) {
    if (queue_ == nullptr || queue_->threads() != threads) {
      queue_ = std::make_unique<WorkQueue>(threads, kQueueCapacity);
    }
    return queue_.get();
  }

  std::shared_ptr<const CollectionSnapshot> snapshot_;
  std::unique_ptr<WorkQueue> queue_;
};

// Runs `work` on that many threads at once; seconds until the last has ended.
template <typename Work>
double OnThreads(int32_t threads, Work work) {
  const absl::Time start = absl::Now();
  std::vector<std::thread> others;
  for (int32_t t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& other : others) other.join();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace
}  // namespace coterie

extern "C" {

// metric: 0 squared L2, 1 inner product, 2 cosine. rows: n x d, copied; row i
// gets id i. Null if the metric is none of these.
void* coterie_open(int32_t metric, int64_t n, int64_t d, const float* rows) {
  using coterie::Metric;
  constexpr Metric kMetrics[] = {Metric::kSquaredL2, Metric::kInnerProduct,
                                 Metric::kCosine};
  if (metric < 0 || metric > 2) return nullptr;
  return new coterie::Collection(kMetrics[metric], {rows, n, d, d});
}

void coterie_close(void* collection) {
  delete static_cast<coterie::Collection*>(collection);
}

// Fills ids and distances, n x k, short lists with ~0 and infinity. The number
// of rows re-scored for all queries; -1 after printing what is wrong.
int64_t coterie_search(void* collection, int64_t n, int64_t d,
                       const float* queries, int64_t k, int32_t threads,
                       uint64_t* ids, double* distances) {
  coterie::SearchRequest request;
  request.k = k;
  for (int64_t i = 0; i < n; ++i) {
    request.queries.push_back(
        std::vector<float>(queries + i * d, queries + (i + 1) * d));
  }
  const auto reply =
      static_cast<coterie::Collection*>(collection)->Search(request, threads);
  if (!reply.ok()) {
    std::fprintf(stderr, "%s\n", reply.status().ToString().c_str());
    return -1;
  }
  std::fill_n(ids, n * k, ~uint64_t{0});
  std::fill_n(distances, n * k, std::numeric_limits<double>::infinity());
  int64_t rescored = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto& hits = reply->results[static_cast<size_t>(i)];
    for (size_t j = 0; j < hits.size(); ++j) {
      ids[i * k + static_cast<int64_t>(j)] = hits[j].neighbor.id;
      distances[i * k + static_cast<int64_t>(j)] = hits[j].neighbor.distance;
    }
    rescored += reply->accounts[static_cast<size_t>(i)].rescored;
  }
  return rescored;
}

// The instructions that scans of codes and of float32 rows run on.
const char* coterie_kernels() {
  static const auto& names = *new std::string(
      absl::StrCat(coterie::CodeKernelName(coterie::ActiveCodeKernel()), ", ",
                   coterie::SimdTargetName(coterie::ActiveSimdTarget())));
  return names.c_str();
}

// Bytes per second when `threads` read `bytes` at `data` (64-byte aligned)
// once, each its part.
double coterie_read_rate(const void* data, int64_t bytes, int32_t threads) {
  const int64_t part = bytes / threads / 64 * 64;
  std::vector<uint64_t> sums(static_cast<size_t>(threads));
  const double seconds = coterie::OnThreads(threads, [&](int32_t t) {
    sums[static_cast<size_t>(t)] =
        coterie::ReadOnce(static_cast<const char*>(data) + t * part, part);
  });
  return static_cast<double>(part * threads) / seconds;
}

// Products of bytes per second on `threads`; 0 if the CPU has no vpdpbusd.
double coterie_multiply_rate(int32_t threads) {
  constexpr int64_t kRounds = 20'000'000;
  std::vector<int64_t> done(static_cast<size_t>(threads));
  const double seconds = coterie::OnThreads(threads, [&](int32_t t) {
    done[static_cast<size_t>(t)] = coterie::MultiplyBytes(kRounds);
  });
  double all = 0;
  for (const int64_t n : done) all += static_cast<double>(n);
  return all / seconds;
}

}  // extern "C"
