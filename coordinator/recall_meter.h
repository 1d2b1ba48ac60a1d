// What approximate searches find of what is there: by query, and on average by
// collection.
//
// RecallMeter is thread-safe, the functions are stateless.

#ifndef COTERIE_COORDINATOR_RECALL_METER_H_
#define COTERIE_COORDINATOR_RECALL_METER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "api/search.h"
#include "index/top_k.h"
#include "sync/mutex.h"

namespace coterie {

// The neighbours of each query of a reply.
std::vector<std::vector<Neighbor>> NeighborsOf(const SearchReply& reply);

// The part of the exact neighbours that was found: hits as near as the farthest
// of these, over their number; 1 if there are none. So of equally near points
// any will do. REQUIRES: `exact` is sorted.
double RecallOf(const std::vector<Neighbor>& found,
                const std::vector<Neighbor>& exact);

class RecallMeter {
 public:
  // One of `interval` searches is to be measured; 0: none.
  explicit RecallMeter(int64_t interval) : interval_(interval) {}

  // Whether this search is, and none of those that are is under way. The caller
  // says Done in the end.
  bool Sample();
  void Done() { busy_.store(false); }

  void Record(const std::string& collection, double recall);
  // By collection: an average that forgets, of some hundred queries.
  std::map<std::string, double> averages() const;

 private:
  const int64_t interval_;
  std::atomic<int64_t> searches_{0};
  std::atomic<bool> busy_{false};
  mutable Mutex mutex_;
  std::map<std::string, double> averages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace coterie

#endif  // COTERIE_COORDINATOR_RECALL_METER_H_
