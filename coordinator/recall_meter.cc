#include "coordinator/recall_meter.h"

#include <algorithm>

namespace coterie {
namespace {

// Of the newest query in the average.
constexpr double kNewest = 0.02;
// Collections come and go; more than can exist are not remembered.
constexpr size_t kMostCollections = 1024;

}  // namespace

std::vector<std::vector<Neighbor>> NeighborsOf(const SearchReply& reply) {
  std::vector<std::vector<Neighbor>> all;
  all.reserve(reply.results.size());
  for (const SearchReply::Result& result : reply.results) {
    std::vector<Neighbor>& neighbors = all.emplace_back();
    neighbors.reserve(result.hits.size());
    for (const Hit& hit : result.hits) {
      neighbors.push_back(hit.neighbor);
    }
  }
  return all;
}

double RecallOf(const std::vector<Neighbor>& found,
                const std::vector<Neighbor>& exact) {
  if (exact.empty()) {
    return 1;
  }
  const double farthest = exact.back().distance;
  const auto near = static_cast<double>(std::count_if(
      found.begin(), found.end(),
      [farthest](const Neighbor& n) { return n.distance <= farthest; }));
  return std::min(1.0, near / static_cast<double>(exact.size()));
}

bool RecallMeter::Sample() {
  if (interval_ == 0 || searches_.fetch_add(1) % interval_ != 0) {
    return false;
  }
  return !busy_.exchange(true);
}

void RecallMeter::Record(const std::string& collection, double recall) {
  MutexLock lock(&mutex_);
  const auto known = averages_.find(collection);
  if (known != averages_.end()) {
    known->second += kNewest * (recall - known->second);
    return;
  }
  if (averages_.size() >= kMostCollections) {
    averages_.clear();
  }
  averages_[collection] = recall;
}

std::map<std::string, double> RecallMeter::averages() const {
  MutexLock lock(&mutex_);
  return averages_;
}

}  // namespace coterie
