// Buckets of LSH tables in order of promise: the multi-probe heap over all
// tables. Belongs to one search of one thread.

#ifndef COTERIE_INDEX_LSH_PROBES_H_
#define COTERIE_INDEX_LSH_PROBES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "index/lsh.h"
#include "index/lsh_collision.h"
#include "index/lsh_rotate.h"

namespace coterie::internal_lsh {

// Near misses of one hash that are probed.
inline constexpr int64_t kMostAlternatives = 24;
// Hashes of a bucket's number: 24 bits in codes of 5 or more.
inline constexpr int64_t kMostHashes = 5;
// Probes that wait for memory: half of this for the place of their rows, the
// other half for these.
inline constexpr size_t kAhead = 16;

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

// A probe that waits for memory.
struct Awaited {
  Probe probe;
  const uint32_t* shells = nullptr;  // where those of its bucket start
};

// Of one query after the other: Fill for each table and hash, then Start, then
// LookAhead and Take in turn.
class LshProbes {
 public:
  explicit LshProbes(const LshIndex& index)
      : index_(index),
        hashes_(index.hashes()),
        alternatives_(static_cast<size_t>(index.tables() * hashes_)) {}

  // The alternatives of a hash, from the query's rotated coordinates, which
  // stand kLanes apart.
  void Fill(int64_t table, int64_t hash, const float* x) {
    const int64_t dims = int64_t{1} << (index_.code_bits(hash) - 1);
    float most = 0;
    for (int64_t i = 0; i < dims; ++i) {
      most = std::max(most, std::fabs(x[i * kLanes]));
    }
    std::vector<Alternative>& list =
        alternatives_[static_cast<size_t>(hash * index_.tables_ + table)];
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

  void Start() {
    first_ = 0;
    count_ = 0;
    heap_.clear();
    for (int64_t t = 0; t < index_.tables_; ++t) {
      heap_.push_back({0, static_cast<int32_t>(t), {}});
    }
  }

  // Asks memory for what the next probes lead to, from this shell on. False if
  // there are no more.
  bool LookAhead(int64_t shell) {
    while (count_ < kAhead && !heap_.empty()) {
      const Probe probe = heap_.front();
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
      PushNext(probe);
      const uint32_t* const shells = ShellsOf(probe);
      __builtin_prefetch(shells + shell);
      ahead_[(first_ + count_++) % kAhead] = {probe, shells};
    }
    if (count_ > kAhead / 2) {
      const Awaited& awaited = ahead_[(first_ + kAhead / 2) % kAhead];
      __builtin_prefetch(RowsOf(awaited.probe) + awaited.shells[shell]);
    }
    return count_ > 0;
  }

  // The next probe. REQUIRES: LookAhead has said true since the last.
  Awaited Take() {
    const Awaited next = ahead_[first_];
    first_ = (first_ + 1) % kAhead;
    --count_;
    return next;
  }

  // Which code of a hash the probe is for.
  const Alternative& Of(const Probe& probe, int64_t hash) const {
    return List(probe.table, hash)[probe.ranks[hash]];
  }

  // The rows of its table: of the bucket, from shells[0] on.
  const uint32_t* RowsOf(const Probe& probe) const {
    return index_.rows_.data() + probe.table * index_.n_;
  }

 private:
  const std::vector<Alternative>& List(int64_t table, int64_t hash) const {
    return alternatives_[static_cast<size_t>(hash * index_.tables_ + table)];
  }

  const uint32_t* ShellsOf(const Probe& probe) const {
    int64_t bucket = 0;
    for (int64_t h = 0; h < hashes_; ++h) {
      bucket = bucket << index_.code_bits(h) | Of(probe, h).code;
    }
    return index_.directory_.data() + probe.table * index_.directory_size() +
           bucket * index_.shells();
  }

  // Each tuple of ranks is made once: from the one with its last rank, if not
  // 0, one less.
  void PushNext(const Probe& probe) {
    int64_t last = hashes_ - 1;
    while (last > 0 && probe.ranks[last] == 0) --last;
    for (int64_t h = last; h < hashes_; ++h) {
      const std::vector<Alternative>& list = List(probe.table, h);
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

  const LshIndex& index_;
  const int64_t hashes_;
  std::vector<std::vector<Alternative>> alternatives_;
  std::vector<Probe> heap_;
  Awaited ahead_[kAhead];  // a ring
  size_t first_ = 0;
  size_t count_ = 0;
};

}  // namespace coterie::internal_lsh

#endif  // COTERIE_INDEX_LSH_PROBES_H_
