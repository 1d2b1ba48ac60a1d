// k-means over a collection, as callers ask for it and hear of it, in domain
// types. Plain data.

#ifndef COTERIE_API_CLUSTERING_H_
#define COTERIE_API_CLUSTERING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "api/filter.h"
#include "api/point.h"
#include "api/search.h"
#include "index/metric.h"
#include "index/top_k.h"
#include "training/kmeans_job.h"

namespace coterie {

struct KMeansRequest {
  std::string collection;
  std::string name;  // of job and result, within the collection
  // Metric and dimension are the collection's: filled in once it is known.
  KMeansOptions options;
  // Start from the centres of this clustering; empty: as options.seeding says.
  std::string initial_clustering = {};
  Filter filter = {};
  std::string weight_attribute = {};  // as in JobBegin
  bool skip_missing = false;
  int32_t threads = 0;            // of each shard; 0: all
  int64_t checkpoint_every = 10;  // iterations
  // Points get the number of their cluster as this attribute; empty: none do.
  std::string label_attribute = {};
  // A clustering of this name may be there, and is replaced at the end.
  bool replace = false;
};

// One iteration, and what it took.
struct KMeansReport {
  KMeansProgress progress;
  // Of the packed statistics alone, all shards: centres down; sums and weights
  // up.
  int64_t statistics_bytes_down = 0;
  int64_t statistics_bytes_up = 0;
  // Of all that went over the links since the last report.
  CommunicationCost cost;
  double seconds = 0;  // since the last report
};

// A result, as it is kept.
struct Clustering {
  std::string collection;
  std::string name;
  Metric metric = Metric::kSquaredL2;
  int32_t dimension = 0;
  int64_t rows = 0;
  int64_t rows_missing = 0;  // left out: without weight
  uint64_t seed = 0;
  KMeansResult result;
  int64_t labelled = 0;  // points that got their label
  double seconds = 0;    // of the run
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  std::vector<std::string> warnings;
  double age_seconds = 0;  // since it was stored
};

// Which clusters points belong to.
struct AssignRequest {
  std::string collection;
  std::string clustering;
  // Either of them, in the order of the reply.
  std::vector<PointId> ids;
  std::vector<std::vector<float>> vectors;
  int64_t top_m = 1;
};

struct AssignedPoint {
  struct Near {
    int64_t cluster = 0;
    double distance = 0;  // of the collection's metric; squared, if not COSINE
  };
  std::vector<Near> nearest;  // by distance, then cluster; empty: no such id
};

}  // namespace coterie

#endif  // COTERIE_API_CLUSTERING_H_
