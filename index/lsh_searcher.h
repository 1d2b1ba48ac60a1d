// The search of LSH tables: a class that index/lsh_search.cc answers with and
// index/lsh_train.cc learns from. Belongs to one thread.

#ifndef COTERIE_INDEX_LSH_SEARCHER_H_
#define COTERIE_INDEX_LSH_SEARCHER_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "index/distance.h"
#include "index/exact_scan.h"
#include "index/lsh.h"
#include "index/lsh_collision.h"
#include "index/lsh_dispatch.h"
#include "index/lsh_probes.h"
#include "index/lsh_rotate.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "index/tree_live.h"
#include "index/vectors.h"

namespace coterie::internal_lsh {

using internal_tree::CountLive;

inline constexpr int64_t kStopBytes = 256 << 10;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kPi = 3.14159265358979323846;

// Candidates that wait while memory is asked for them.
inline constexpr size_t kBatch = 32;
// The angles of so many parts of the k nearest are told apart.
inline constexpr int64_t kParts = 4;
// Standard deviations that a sketch may differ beyond what is expected: one
// neighbour in 160 is lost.
inline constexpr double kSketchDeviations = 2.5;
inline constexpr double kSketchLoss = 0.0062;

// Where a search stood.
struct LshStep {
  double missed = 1;
  int64_t met = 0;
  int64_t probes = 0;
  int64_t hits = 0;     // of the k nearest
  bool looked = false;  // whether a scan would have been cheaper
};

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
        kernels_(ActiveRotateKernels()),
        unasked_bytes_(unasked_bytes),
        live_rows_(CountLive(segment.rows.live, 0, index_.size())),
        hashes_(index_.hashes()),
        probes_(index_),
        seen_(static_cast<size_t>((index_.size() + 63) / 64), 0),
        direction_(static_cast<size_t>(index_.dims_)),
        rotated_(static_cast<size_t>(index_.dims_ * kLanes)) {}

  // Whether the candidates that it takes, if each probe goes on to find as much
  // as those before, cost less than a scan. That is hopeful: probes get worse.
  static bool Worthwhile(const LshIndex& index, const LshStep& step,
                         const LshRule& rule) {
    auto candidates = static_cast<double>(step.met);
    if (step.probes >= 2 * index.tables()) {
      candidates = step.missed < 1
                       ? candidates * std::max(1.0, std::log(1 - rule.target) /
                                                        std::log(step.missed))
                       : kInfinity;
    }
    candidates = std::min(candidates, static_cast<double>(rule.most));
    return candidates * LshIndex::kRowsPerCandidate <
           static_cast<double>(index.size());
  }

  enum class Outcome { kDone, kStopped, kScan };

  // kScan: nothing was offered; a scan with `*seed` should answer the query.
  Outcome Run(int64_t query, TopK& top, LshAccount& account, double* seed) {
    TopK mine(top.k(), top.Threshold());
    *seed = mine.Threshold();
    rule_ = RuleFor(top.k());
    if (rule_.target >= 1) return Outcome::kScan;
    Start(query);
    const Outcome outcome = norm_ > 0 ? Read(mine) : Outcome::kScan;
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

  // In how many bits the sketches of a query and a row differ, over what they
  // hardly ever do at the angle that `farthest` bounds.
  double Differing(int64_t query, int64_t row, double farthest) {
    Start(query);
    const uint64_t* sketch =
        index_.sketches_.data() + row * int64_t{LshIndex::kSketchWords};
    return static_cast<double>(
               kernels_.differ(sketch, sketch_, LshIndex::kSketchWords)) /
           DifferAt(AngleFor(farthest));
  }

  // Reads on until `most` rows were met, and notes what a rule would have seen
  // on the way. `farthest`: the distance of the k-th neighbour.
  std::vector<LshStep> Trace(int64_t query, int64_t k, double farthest,
                             int64_t most) {
    std::vector<LshStep> steps;
    TopK mine(k);
    Start(query);
    rule_ = {0.9999, most};
    trace_ = &steps;
    farthest_ = farthest;
    if (norm_ > 0) Read(mine);
    trace_ = nullptr;
    for (uint32_t row : met_) seen_[row / 64] = 0;
    return steps;
  }

 private:
  // Of a search: the target that was asked for, or the rule that was seen to
  // reach it. Among fewer live rows the k-th lies as far as one of a larger k;
  // what a filter leaves may lie anywhere, so that nothing seen tells of it.
  LshRule RuleFor(int64_t k) const {
    if (2 * live_rows_ < index_.size()) {
      return {limits_.target_recall, limits_.max_candidates};
    }
    const double spread = static_cast<double>(index_.size()) /
                          static_cast<double>(std::max<int64_t>(1, live_rows_));
    LshRule rule =
        index_.RuleFor(static_cast<double>(k) * spread, limits_.target_recall);
    rule.most = std::min(rule.most, limits_.max_candidates);
    return rule;
  }

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
    hits_ = 0;
    met_.clear();
    waiting_.clear();
    probed_.clear();
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
        probes_.Fill(t, hash, rotated_.data() + (t - table));
      }
    }
    probes_.Start();
  }

  // Reads buckets until the answer is good enough or a scan is cheaper.
  Outcome Read(TopK& mine) {
    // The nearest of them, in parts: a near one is met sooner.
    std::vector<TopK> parts;
    for (int64_t p = 1; p < kParts; ++p) {
      parts.emplace_back((mine.k() * p + kParts - 1) / kParts);
    }
    size_t unfollowed = 0;  // candidates since the thresholds were followed
    while (probes_.LookAhead(first_shell_)) {
      const Awaited next = probes_.Take();
      const size_t before = waiting_.size();
      Meet(next);
      unfollowed += waiting_.size() - before;
      probed_.push_back(next.probe);
      for (int64_t p = 0; p < kParts; ++p) Credit(next.probe, p);
      const bool enough = Missed() <= 1 - rule_.target ||
                          static_cast<int64_t>(met_.size()) >= rule_.most;
      if (trace_ != nullptr) {
        // A search would end here, or go on; one that goes on looks later.
        if (!Evaluate(mine, parts)) return Outcome::kStopped;
        trace_->push_back(Here());
      }
      if (unfollowed < kBatch && probed_.size() % 16 != 0 && !enough) continue;
      unfollowed = 0;
      if (!Evaluate(mine, parts)) return Outcome::kStopped;
      if (enough) return Outcome::kDone;
      FollowThreshold(mine, parts);
      if (trace_ != nullptr) {
        trace_->push_back(Here());
        trace_->back().looked = true;
      } else if (!Worthwhile(index_, Here(), rule_)) {
        return Outcome::kScan;
      }
    }
    return Evaluate(mine, parts) ? Outcome::kScan : Outcome::kStopped;
  }

  LshStep Here() const {
    return {Missed(), static_cast<int64_t>(met_.size()),
            static_cast<int64_t>(probed_.size()), hits_, false};
  }

  // The expected share of the k nearest that was not met.
  double Missed() const {
    double sum = 0;
    for (double missed : missed_) sum += missed;
    return sum / kParts + kSketchLoss;
  }

  // Notes the rows of the bucket that were not met before.
  void Meet(const Awaited& awaited) {
    const uint32_t* const rows = probes_.RowsOf(awaited.probe);
    for (uint32_t i = awaited.shells[first_shell_];
         i < awaited.shells[last_shell_ + 1]; ++i) {
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
      if (trace_ != nullptr && found.distance <= farthest_) ++hits_;
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
      differ_ = static_cast<int64_t>(DifferAt(angle) *
                                     static_cast<double>(index_.sketch_cut_));
    }
  }

  // Bits in which sketches at an angle hardly ever differ more.
  static double DifferAt(double angle) {
    const double bits = double{LshIndex::kSketchWords * 64};
    const double share = angle / kPi;
    return bits * share +
           kSketchDeviations * std::sqrt(bits * share * (1 - share));
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
      const float gap = probes_.Of(probe, h).gap;
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
  LshProbes probes_;
  std::vector<uint64_t> seen_;  // all zero between queries
  std::vector<float> direction_;
  LshIndex::Array<float> rotated_;

  int64_t query_ = 0;
  LshRule rule_;
  std::vector<LshStep>* trace_ = nullptr;
  double farthest_ = 0;  // with a trace
  int64_t hits_ = 0;     // rows no farther
  double norm_ = 0;
  uint64_t sketch_[LshIndex::kSketchWords] = {};
  int64_t evaluated_ = 0;
  std::vector<uint32_t> met_;      // distinct rows of the buckets read
  std::vector<uint32_t> waiting_;  // those to look at
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

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_SEARCHER_H_
