#include "index/top_k.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace coterie {
namespace {

// Neighbours that room is made for at once: most searches want no more.
constexpr int64_t kAtFirst = 16;

// One list, ready to merge: sorted and free of NaN.
class SortedList {
 public:
  explicit SortedList(const std::vector<Neighbor>& list) : list_(list) {
    if (std::none_of(list.begin(), list.end(), IsNan) &&
        std::is_sorted(list.begin(), list.end(), NeighborLess)) {
      return;
    }
    own_ = list;
    own_.erase(std::remove_if(own_.begin(), own_.end(), IsNan), own_.end());
    std::sort(own_.begin(), own_.end(), NeighborLess);
    list_ = own_;
  }

  // Views its own member: a copy would view the original's.
  SortedList(const SortedList&) = delete;
  SortedList& operator=(const SortedList&) = delete;
  // A moved vector keeps its buffer, so the view stays good.
  SortedList(SortedList&&) = default;

  bool empty() const { return list_.empty(); }
  const Neighbor& head() const { return list_.front(); }
  void Pop() { list_.remove_prefix(1); }

 private:
  static bool IsNan(const Neighbor& n) { return std::isnan(n.distance); }

  std::vector<Neighbor> own_;
  absl::Span<const Neighbor> list_;
};

}  // namespace

TopK::TopK(int64_t k, double bound) : k_(k), bound_(bound), threshold_(bound) {
  assert(k >= 1);
}

void TopK::Restrict(double bound) {
  if (bound < bound_) bound_ = bound;
  if (bound < threshold_) threshold_ = bound;
}

void TopK::Offer(Neighbor candidate) {
  if (!(candidate.distance <= threshold_)) return;  // NaN leaves here too
  if (size() < k_) {
    if (heap_.empty())
      heap_.reserve(static_cast<size_t>(std::min(k_, kAtFirst)));
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end(), NeighborLess);
  } else {
    if (!NeighborLess(candidate, heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end(), NeighborLess);
    heap_.back() = candidate;
    std::push_heap(heap_.begin(), heap_.end(), NeighborLess);
  }
  if (size() == k_) {
    threshold_ = std::min(threshold_, heap_.front().distance);
  }
}

std::vector<Neighbor> TopK::TakeSorted() {
  std::sort(heap_.begin(), heap_.end(), NeighborLess);
  threshold_ = bound_;
  return std::exchange(heap_, {});
}

MergedTopK MergeTopK(absl::Span<const std::vector<Neighbor>> lists, int64_t k) {
  assert(k >= 0);
  std::vector<SortedList> sorted;
  sorted.reserve(lists.size());
  size_t total = 0;
  for (const std::vector<Neighbor>& list : lists) {
    sorted.emplace_back(list);
    total += list.size();
  }

  // Min-heap of list heads; equal heads come out by index of their list.
  const auto later = [&sorted](int32_t a, int32_t b) {
    const Neighbor& x = sorted[static_cast<size_t>(a)].head();
    const Neighbor& y = sorted[static_cast<size_t>(b)].head();
    return NeighborLess(y, x) || (x == y && b < a);
  };
  std::vector<int32_t> heads;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (!sorted[i].empty()) heads.push_back(static_cast<int32_t>(i));
  }
  std::make_heap(heads.begin(), heads.end(), later);

  MergedTopK merged;
  // Every list is read to its end, so that an id whose second copy lies beyond
  // the k-th place is still found out. The value says: already counted.
  absl::flat_hash_map<PointId, bool> seen;
  seen.reserve(total);
  while (!heads.empty()) {
    std::pop_heap(heads.begin(), heads.end(), later);
    const int32_t source = heads.back();
    SortedList& list = sorted[static_cast<size_t>(source)];
    const Neighbor neighbor = list.head();
    list.Pop();
    if (list.empty()) {
      heads.pop_back();
    } else {
      std::push_heap(heads.begin(), heads.end(), later);
    }

    const auto [it, first] = seen.try_emplace(neighbor.id, false);
    if (!first) {
      if (!std::exchange(it->second, true)) ++merged.duplicate_ids;
    } else if (static_cast<int64_t>(merged.neighbors.size()) < k) {
      merged.neighbors.push_back(neighbor);
      merged.sources.push_back(source);
    }
  }
  return merged;
}

}  // namespace coterie
