#include <immintrin.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "index/certified_query.h"
#include "index/certified_scan.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/lsh.h"
#include "index/lsh_collision.h"
#include "index/lsh_dispatch.h"
#include "index/lsh_rotate.h"
#include "index/metric.h"
#include "index/shared_threshold.h"
#include "index/top_k.h"
#include "index/tree_live.h"
#include "index/vectors.h"

namespace coterie {

using internal_lsh::CollisionTable;
using internal_lsh::kLanes;
using internal_tree::CountLive;

namespace {

constexpr int64_t kStopBytes = 256 << 10;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

// Near misses of one hash that are probed.
constexpr int64_t kMostAlternatives = 24;
// Hashes of a bucket's number: 24 bits in codes of 5 or more.
constexpr int64_t kMostHashes = 5;
// Candidates that wait while memory is asked for them.
constexpr size_t kBatch = 32;
// A candidate costs as much as that many rows of a scan.
constexpr int64_t kRowsPerCandidate = 12;
// The angles of so many parts of the k nearest are told apart.
constexpr int64_t kParts = 4;
// Standard deviations that a sketch may differ beyond what is expected: one
// neighbour in 160 is lost.
constexpr double kSketchDeviations = 2.5;
constexpr double kSketchLoss = 0.0062;

// A code near the query's own and how far its coordinate lies below.
struct Alternative {
  float gap = 0;
  uint32_t code = 0;
};

// A bucket to read: which alternative of each hash of a table.
struct Probe {
  float score = 0;  // sum of squared gaps
  int32_t table = 0;
  uint8_t ranks[kMostHashes] = {};

  friend bool operator>(const Probe& a, const Probe& b) {
    return a.score != b.score ? a.score > b.score : a.table > b.table;
  }
};

}  // namespace

// One segment, one query after the other.
class LshSearcher {
 public:
  LshSearcher(const ScanQueries& queries, const LshSegment& segment,
              const LshLimits& limits, absl::FunctionRef<bool()> stop,
              int64_t& unasked_bytes)
      : queries_(queries),
        index_(*segment.index),
        rows_(segment.rows),
        limits_(limits),
        stop_(stop),
        kernels_(internal_lsh::ActiveRotateKernels()),
        unasked_bytes_(unasked_bytes),
        live_rows_(CountLive(segment.rows.live, 0, index_.size())),
        hashes_(index_.hashes()),
        seen_(static_cast<size_t>((index_.size() + 63) / 64), 0),
        direction_(static_cast<size_t>(index_.dims_)),
        rotated_(static_cast<size_t>(index_.dims_ * kLanes)),
        alternatives_(static_cast<size_t>(index_.tables_ * index_.hashes())) {}

  enum class Outcome { kDone, kStopped, kScan };

  // kScan: nothing was offered; a scan with `*seed` should answer the query.
  Outcome Run(int64_t query, TopK& top, LshAccount& account, double* seed) {
    TopK mine(top.k(), top.Threshold());
    Start(query);
    const Outcome outcome =
        norm_ > 0 && limits_.target_recall < 1 ? Read(mine) : Outcome::kScan;
    for (uint32_t row : met_) seen_[row / 64] = 0;
    *seed = mine.Threshold();
    account.candidates += static_cast<int64_t>(met_.size());
    account.probes += static_cast<int64_t>(probed_.size());
    if (outcome != Outcome::kDone) return outcome;
    for (const Neighbor& n : mine.TakeSorted()) top.Offer(n);
    account.evaluated += evaluated_;
    account.unseen += live_rows_ - evaluated_;
    return outcome;
  }

 private:
  bool AskStop(int64_t bytes) {
    unasked_bytes_ += bytes;
    if (unasked_bytes_ < kStopBytes) return false;
    unasked_bytes_ = 0;
    return stop_();
  }

  void Start(int64_t query) {
    query_ = query;
    norm_ = index_.Direction(queries_.query(query), direction_.data());
    evaluated_ = 0;
    met_.clear();
    waiting_.clear();
    probed_.clear();
    heap_.clear();
    found_.assign(static_cast<size_t>(index_.tables_ * kParts), 0);
    std::fill_n(missed_, kParts, 1.0);
    std::fill_n(angle_rows_, kParts, CollisionTable::kAngles);
    differ_ = LshIndex::kSketchWords * 64;
    first_shell_ = 0;
    last_shell_ = index_.shells() - 1;
    index_.Rotate(direction_.data(), index_.groups() - 1, rotated_.data());
    index_.Sketch(rotated_.data(), sketch_);
    for (int64_t g = 0; g + 1 < index_.groups(); ++g) {
      index_.Rotate(direction_.data(), g, rotated_.data());
      const int64_t hash = g / index_.table_groups();
      const int64_t table = g % index_.table_groups() * kLanes;
      for (int64_t t = table; t < std::min(index_.tables_, table + kLanes);
           ++t) {
        FillAlternatives(t, hash, rotated_.data() + (t - table));
      }
    }
    for (int64_t t = 0; t < index_.tables_; ++t) {
      heap_.push_back({0, static_cast<int32_t>(t), {}});
    }
  }

  std::vector<Alternative>& Alternatives(int64_t table, int64_t hash) {
    return alternatives_[static_cast<size_t>(hash * index_.tables_ + table)];
  }

  // From coordinates that stand kLanes apart.
  void FillAlternatives(int64_t table, int64_t hash, const float* x) {
    const int64_t dims = int64_t{1} << (index_.code_bits(hash) - 1);
    float most = 0;
    for (int64_t i = 0; i < dims; ++i) {
      most = std::max(most, std::fabs(x[i * kLanes]));
    }
    std::vector<Alternative>& list = Alternatives(table, hash);
    list.clear();
    for (int64_t i = 0; i < dims; ++i) {
      const float gap = most - std::fabs(x[i * kLanes]);
      if (CollisionTable::GapColumn(gap) == CollisionTable::kGaps) continue;
      list.push_back(
          {gap, static_cast<uint32_t>(2 * i) + (x[i * kLanes] < 0 ? 1u : 0u)});
    }
    std::sort(list.begin(), list.end(),
              [](const Alternative& a, const Alternative& b) {
                return a.gap != b.gap ? a.gap < b.gap : a.code < b.code;
              });
    if (static_cast<int64_t>(list.size()) > kMostAlternatives) {
      list.resize(static_cast<size_t>(kMostAlternatives));
    }
  }

  // Reads buckets until the answer is good enough or a scan is cheaper.
  Outcome Read(TopK& mine) {
    // The nearest of them, in parts: a near one is met sooner.
    std::vector<TopK> parts;
    for (int64_t p = 1; p < kParts; ++p) {
      parts.emplace_back((mine.k() * p + kParts - 1) / kParts);
    }
    while (!heap_.empty()) {
      const Probe probe = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      PushNext(probe);
      Meet(probe);
      probed_.push_back(probe);
      for (int64_t p = 0; p < kParts; ++p) Credit(probe, p);
      const bool enough =
          Missed() <= 1 - limits_.target_recall ||
          static_cast<int64_t>(met_.size()) >= limits_.max_candidates;
      if (waiting_.size() >= kBatch || probed_.size() % 16 == 0 || enough) {
        if (!Evaluate(mine, parts)) return Outcome::kStopped;
        if (enough) return Outcome::kDone;
        FollowThreshold(mine, parts);
        if (!Worthwhile()) return Outcome::kScan;
      }
    }
    return Evaluate(mine, parts) ? Outcome::kScan : Outcome::kStopped;
  }

  // The expected share of the k nearest that was not met.
  double Missed() const {
    double sum = 0;
    for (double missed : missed_) sum += missed;
    return sum / kParts + kSketchLoss;
  }

  // Whether the candidates that it takes, if each probe goes on to find as much
  // as those before, cost less than a scan. That is hopeful: probes get worse.
  bool Worthwhile() const {
    double candidates = static_cast<double>(met_.size());
    const double missed = Missed();
    if (static_cast<int64_t>(probed_.size()) >= 2 * index_.tables_) {
      if (!(missed < 1)) return false;
      candidates *=
          std::max(1.0, std::log(1 - limits_.target_recall) / std::log(missed));
    }
    return candidates * kRowsPerCandidate < static_cast<double>(index_.size());
  }

  // Each tuple of ranks is made once: from the one with its last rank, if not
  // 0, one less.
  void PushNext(const Probe& probe) {
    int64_t last = hashes_ - 1;
    while (last > 0 && probe.ranks[last] == 0) --last;
    for (int64_t h = last; h < hashes_; ++h) {
      const std::vector<Alternative>& list = Alternatives(probe.table, h);
      const size_t rank = probe.ranks[h];
      if (rank + 1 >= list.size()) continue;
      Probe next = probe;
      ++next.ranks[h];
      next.score += list[rank + 1].gap * list[rank + 1].gap -
                    list[rank].gap * list[rank].gap;
      heap_.push_back(next);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }

  // Notes the rows of the bucket that were not met before.
  void Meet(const Probe& probe) {
    int64_t bucket = 0;
    for (int64_t h = 0; h < hashes_; ++h) {
      bucket = bucket << index_.code_bits(h) |
               Alternatives(probe.table, h)[probe.ranks[h]].code;
    }
    const uint32_t* directory = index_.directory_.data() +
                                probe.table * index_.directory_size() +
                                bucket * index_.shells();
    const uint32_t* rows = index_.rows_.data() + probe.table * index_.n_;
    for (uint32_t i = directory[first_shell_]; i < directory[last_shell_ + 1];
         ++i) {
      const uint32_t row = rows[i];
      const uint64_t bit = uint64_t{1} << (row % 64);
      if (seen_[row / 64] & bit) continue;
      seen_[row / 64] |= bit;
      met_.push_back(row);
      if (rows_.live != nullptr && (rows_.live[row / 64] & bit) == 0) continue;
      __builtin_prefetch(index_.sketches_.data() +
                         size_t{row} * LshIndex::kSketchWords);
      waiting_.push_back(row);
    }
  }

  // Sketches first, then distances. False if stopped.
  bool Evaluate(TopK& mine, std::vector<TopK>& parts) {
    size_t kept = 0;
    for (uint32_t row : waiting_) {
      const uint64_t* sketch =
          index_.sketches_.data() + size_t{row} * LshIndex::kSketchWords;
      if (kernels_.differ(sketch, sketch_, LshIndex::kSketchWords) > differ_) {
        continue;
      }
      waiting_[kept++] = row;
      const float* data = rows_.rows.row(row).data();
      for (int64_t j = 0; j < std::min<int64_t>(rows_.rows.d, 512); j += 16) {
        __builtin_prefetch(data + j);
      }
    }
    const bool with_norms = queries_.metric() != Metric::kSquaredL2;
    for (size_t i = 0; i < kept; ++i) {
      const int64_t row = waiting_[i];
      const Neighbor found = {
          rows_.ids[row],
          CanonicalDistance(queries_.metric(), queries_.query(query_),
                            rows_.rows.row(row), queries_.squared_norm(query_),
                            with_norms ? rows_.squared_norms[row] : 0)};
      if (found.distance > mine.Threshold()) continue;
      mine.Offer(found);
      for (TopK& part : parts) part.Offer(found);
    }
    evaluated_ += static_cast<int64_t>(kept);
    const int64_t bytes =
        static_cast<int64_t>(waiting_.size()) * 64 +
        static_cast<int64_t>(kept) * rows_.rows.d * int64_t{sizeof(float)};
    waiting_.clear();
    return !AskStop(bytes);
  }

  // The largest angle of a row within the threshold; pi if there is no bound.
  double AngleFor(double threshold) const {
    if (!(threshold < kInfinity)) return kPi;
    switch (queries_.metric()) {
      case Metric::kCosine:
        return std::acos(std::clamp(1 - threshold, -1.0, 1.0));
      case Metric::kSquaredL2: {
        const double sine = std::sqrt(std::max(0.0, threshold)) / norm_;
        return sine < 1 ? std::asin(sine) : kPi;
      }
      case Metric::kInnerProduct: {
        const double cosine = -threshold / (norm_ * index_.max_norm_);
        return cosine > 0 ? std::acos(std::min(cosine, 1.0)) : kPi;
      }
    }
    return kPi;
  }

  // Follows the thresholds: what was probed is worth more at smaller angles.
  void FollowThreshold(const TopK& mine, const std::vector<TopK>& parts) {
    for (int64_t p = 0; p < kParts; ++p) {
      const bool last = p + 1 == kParts;
      const double threshold =
          last ? mine.Threshold()
               : std::min(parts[static_cast<size_t>(p)].Threshold(),
                          mine.Threshold());
      const double angle = AngleFor(threshold);
      const int64_t row = CollisionTable::AngleRow(angle);
      if (row == angle_rows_[p]) continue;
      angle_rows_[p] = row;
      missed_[p] = 1;
      for (int64_t t = 0; t < index_.tables_; ++t) {
        found_[static_cast<size_t>(t * kParts + p)] = 0;
      }
      for (const Probe& probe : probed_) Credit(probe, p);
      if (!last) continue;
      SetShells(threshold);
      const double bits = double{LshIndex::kSketchWords * 64};
      const double share = angle / kPi;
      differ_ = static_cast<int64_t>(bits * share +
                                     kSketchDeviations *
                                         std::sqrt(bits * share * (1 - share)));
    }
  }

  // Shells that may hold a row within the threshold.
  void SetShells(double threshold) {
    const auto& shells = index_.shells_;
    double low = 0;
    double high = kInfinity;
    if (queries_.metric() == Metric::kSquaredL2) {
      low = norm_ - std::sqrt(threshold);
      high = norm_ + std::sqrt(threshold);
    } else if (queries_.metric() == Metric::kInnerProduct) {
      low = -threshold / norm_;
    }
    while (last_shell_ > first_shell_ &&
           shells[static_cast<size_t>(last_shell_ - 1)] > high * 1.000001) {
      --last_shell_;
    }
    while (first_shell_ < last_shell_ &&
           shells[static_cast<size_t>(first_shell_)] < low * 0.999999) {
      ++first_shell_;
    }
  }

  // Adds the probability that a row at the angle of a part is in this bucket.
  void Credit(const Probe& probe, int64_t part) {
    const int64_t row = angle_rows_[part];
    if (row == CollisionTable::kAngles) return;
    double p = 1;
    for (int64_t h = 0; h < hashes_; ++h) {
      const float gap = Alternatives(probe.table, h)[probe.ranks[h]].gap;
      p *= static_cast<double>(index_.collisions_[static_cast<size_t>(h)]->At(
          row, CollisionTable::GapColumn(gap)));
    }
    double& found = found_[static_cast<size_t>(probe.table * kParts + part)];
    const double more = std::min(0.9999, found + p);
    missed_[part] *= (1 - more) / (1 - found);
    found = more;
  }

  const ScanQueries& queries_;
  const LshIndex& index_;
  const ScanRows rows_;
  const LshLimits& limits_;
  const absl::FunctionRef<bool()> stop_;
  const internal_lsh::RotateKernels& kernels_;
  int64_t& unasked_bytes_;
  const int64_t live_rows_;
  const int64_t hashes_;
  std::vector<uint64_t> seen_;  // all zero between queries
  std::vector<float> direction_;
  LshIndex::Array<float> rotated_;
  std::vector<std::vector<Alternative>> alternatives_;

  int64_t query_ = 0;
  double norm_ = 0;
  uint64_t sketch_[LshIndex::kSketchWords] = {};
  int64_t evaluated_ = 0;
  std::vector<uint32_t> met_;      // distinct rows of the buckets read
  std::vector<uint32_t> waiting_;  // those to look at
  std::vector<Probe> heap_;
  std::vector<Probe> probed_;
  // By part of the k nearest: the angle of its farthest, the probability that
  // a row at that angle was met in each table (found_), and in none.
  int64_t angle_rows_[kParts] = {};
  std::vector<double> found_;
  double missed_[kParts] = {};
  int64_t differ_ = 0;  // bits in which its sketch may differ
  int64_t first_shell_ = 0;
  int64_t last_shell_ = 0;
};

namespace {

// Queries that a scan answers faster, with the thresholds found for them.
struct HandedOver {
  std::vector<int64_t> queries;
  std::vector<double> seeds;
};

bool Scan(const ScanQueries& all, const LshSegment& segment,
          const HandedOver& handed, absl::Span<TopK> tops,
          absl::Span<LshAccount> accounts, absl::FunctionRef<bool()> stop) {
  std::vector<float> data;
  std::vector<TopK> found;
  std::vector<SharedThreshold> shared(handed.queries.size());
  for (size_t i = 0; i < handed.queries.size(); ++i) {
    const VectorView query = all.query(handed.queries[i]);
    data.insert(data.end(), query.begin(), query.end());
    const TopK& top = tops[static_cast<size_t>(handed.queries[i])];
    found.emplace_back(top.k(), top.Threshold());
    shared[i].Lower(handed.seeds[i]);
  }
  const ScanQueries queries(
      all.metric(), {data.data(), static_cast<int64_t>(handed.queries.size()),
                     all.dimension(), all.dimension()});
  const CertifiedQueries coded(queries, *segment.codes);
  std::vector<ScanAccount> scanned(found.size());
  if (!CertifiedScan(coded, segment.rows, 0, segment.index->size(),
                     absl::MakeSpan(found), absl::MakeSpan(scanned), stop,
                     absl::MakeSpan(shared))) {
    return false;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t q = static_cast<size_t>(handed.queries[i]);
    for (const Neighbor& n : found[i].TakeSorted()) tops[q].Offer(n);
    accounts[q].evaluated += scanned[i].evaluated;
    accounts[q].ruled_out += scanned[i].ruled_out;
    accounts[q].scanned = true;
  }
  return true;
}

}  // namespace

bool LshSearch(const ScanQueries& queries,
               absl::Span<const LshSegment> segments, const LshLimits& limits,
               absl::Span<TopK> tops, absl::Span<LshAccount> accounts,
               absl::FunctionRef<bool()> stop) {
  assert(static_cast<int64_t>(tops.size()) == queries.size());
  assert(static_cast<int64_t>(accounts.size()) == queries.size());
  assert((_mm_getcsr() & 0x8040) == 0);  // DAZ and FTZ
  if (stop()) return false;
  int64_t unasked_bytes = 0;
  for (const LshSegment& segment : segments) {
    LshSearcher searcher(queries, segment, limits, stop, unasked_bytes);
    HandedOver handed;
    for (int64_t q = 0; q < queries.size(); ++q) {
      const size_t at = static_cast<size_t>(q);
      double seed = kInfinity;
      switch (searcher.Run(q, tops[at], accounts[at], &seed)) {
        case LshSearcher::Outcome::kStopped:
          return false;
        case LshSearcher::Outcome::kScan:
          handed.queries.push_back(q);
          handed.seeds.push_back(seed);
          break;
        case LshSearcher::Outcome::kDone:
          break;
      }
    }
    if (!handed.queries.empty() &&
        !Scan(queries, segment, handed, tops, accounts, stop)) {
      return false;
    }
  }
  return true;
}

}  // namespace coterie
