// Fuzz target: a list of operations on TopK and MergeTopK, against sorting.
//
// Input: one byte of k, one of the bound, then three bytes an operation:
// which list, id, distance. Each list is fed to a TopK of its own; all are
// merged at the end.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <set>
#include <vector>

#include "index/top_k.h"

namespace coterie {
namespace {

constexpr int kLists = 4;

double DistanceOf(uint8_t byte) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (byte == 255) return std::numeric_limits<double>::quiet_NaN();
  if (byte == 254) return kInfinity;
  if (byte == 253) return -kInfinity;
  if (byte == 252) return -0.0;
  return (byte - 100) / 8.0;
}

void Check(bool holds) {
  if (!holds) std::abort();
}

std::vector<Neighbor> SortedAndCut(std::vector<Neighbor> all, int64_t k,
                                   double bound) {
  std::vector<Neighbor> kept;
  std::copy_if(all.begin(), all.end(), std::back_inserter(kept),
               [bound](const Neighbor& n) { return n.distance <= bound; });
  std::sort(kept.begin(), kept.end(), NeighborLess);
  kept.resize(std::min(kept.size(), static_cast<size_t>(k)));
  return kept;
}

void CheckMerge(const std::vector<std::vector<Neighbor>>& lists, int64_t k) {
  const MergedTopK merged = MergeTopK(lists, k);
  std::vector<Neighbor> all;
  for (const std::vector<Neighbor>& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
  }
  all = SortedAndCut(all, static_cast<int64_t>(all.size()),
                     std::numeric_limits<double>::infinity());
  std::set<PointId> seen;
  std::set<PointId> twice;
  std::vector<Neighbor> model;
  for (const Neighbor& n : all) {
    if (!seen.insert(n.id).second) {
      twice.insert(n.id);
    } else if (static_cast<int64_t>(model.size()) < k) {
      model.push_back(n);
    }
  }
  Check(merged.neighbors == model);
  Check(merged.duplicate_ids == static_cast<int64_t>(twice.size()));
  Check(merged.sources.size() == model.size());
  for (size_t i = 0; i < model.size(); ++i) {
    const auto& list = lists[static_cast<size_t>(merged.sources[i])];
    Check(std::count(list.begin(), list.end(), model[i]) > 0);
  }
}

void Run(const uint8_t* data, size_t size) {
  if (size < 2) return;
  const int64_t k = 1 + data[0] % 32;
  const double bound = DistanceOf(data[1]);
  std::vector<TopK> tops(kLists, TopK(k, bound));
  std::vector<std::vector<Neighbor>> offered(kLists);
  for (size_t i = 2; i + 3 <= size; i += 3) {
    const size_t list = data[i] % kLists;
    const Neighbor neighbor = {data[i + 1], DistanceOf(data[i + 2])};
    const double before = tops[list].Threshold();
    tops[list].Offer(neighbor);
    offered[list].push_back(neighbor);
    Check(!(tops[list].Threshold() > before));
    Check(tops[list].size() <= k);
  }
  CheckMerge(offered, k);  // neither sorted nor free of NaN
  for (size_t list = 0; list < kLists; ++list) {
    const std::vector<Neighbor> kept = tops[list].TakeSorted();
    Check(kept == SortedAndCut(offered[list], k, bound));
    offered[list] = kept;
  }
  CheckMerge(offered, k);
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coterie::Run(data, size);
  return 0;
}
