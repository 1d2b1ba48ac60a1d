// What the process counts, as Prometheus metrics (docs/OPERATIONS.md lists
// them).
//
// Thread-safe. Names are coterie_*, units in the name, no label without bound.

#ifndef COTERIE_SERVER_METRICS_H_
#define COTERIE_SERVER_METRICS_H_

#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/byte_budget.h"
#include "api/rpc_call.h"
#include "api/shard_messages.h"
#include "api/wire_counters.h"
#include "server/health.h"

namespace coterie {

class Metrics {
 public:
  // What is read at each scrape. Functions may block for about a second.
  struct Sources {
    std::string version;
    std::string role;
    const Health* health = nullptr;
    const ByteBudget* budget = nullptr;
    // To and from shards in other processes; may be null.
    const WireCounters* links = nullptr;
    std::function<std::vector<ShardDescription>()> shards;
    // Ids met on more than one shard since start.
    std::function<int64_t()> duplicate_ids;
    // What searches by an index find, by collection.
    std::function<std::map<std::string, double>()> recalls;
  };

  explicit Metrics(Sources sources);

  // Counts RPCs by method and code, and their seconds. Outlives its uses.
  RpcObserver Observer();

  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  const Sources sources_;
  mutable prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>& handling_;
};

}  // namespace coterie

#endif  // COTERIE_SERVER_METRICS_H_
