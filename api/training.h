// Training by SGD over a collection, as callers ask for it and hear of it, in
// domain types. Plain data.

#ifndef COTERIE_API_TRAINING_H_
#define COTERIE_API_TRAINING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "api/filter.h"
#include "api/point.h"
#include "api/search.h"
#include "training/sgd_job.h"
#include "training/sgd_options.h"

namespace coterie {

struct SgdRequest {
  std::string collection;
  std::string name;  // of job and model, within the collection
  // The model's dimension is the collection's: filled in once it is known.
  SgdOptions options;
  Filter filter = {};
  std::string label_attribute = {};
  bool skip_missing = false;
  int32_t threads = 0;           // of each shard; 0: all
  int64_t checkpoint_every = 0;  // updates; 0: now and then
  int64_t report_every = 0;      // updates; 0: each, at most 20 a second
  // A model of this name may be there, and is replaced at the end.
  bool replace = false;
};

// Some updates, and what they took.
struct SgdReport {
  SgdProgress progress;
  int64_t global_batch = 0;
  std::vector<SgdShardAccount> shards;
  SgdStaleness staleness;
  // Of all that went over the links since the last report.
  CommunicationCost cost;
  double seconds = 0;  // since the last report
};

// A model, as it is kept.
struct TrainedModel {
  std::string collection;
  std::string name;
  SgdModel model;
  std::vector<double> parameters;
  SgdStop stop = SgdStop::kNone;
  SgdReport last;
  int64_t rows = 0;
  int64_t rows_missing = 0;  // left out: without label
  uint64_t seed = 0;
  int32_t workers = 1;
  double first_step = 0;
  double smoothness = 0;
  double block_fraction = 1;
  double seconds = 0;  // of the run
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
  std::vector<std::string> warnings;
  double age_seconds = 0;  // since it was stored
};

struct PredictRequest {
  std::string collection;
  std::string model;
  // Either of them, in the order of the reply.
  std::vector<PointId> ids;
  std::vector<std::vector<float>> vectors;
};

struct Prediction {
  // As PredictSgd has them; empty: no such id.
  std::vector<double> outputs;
  double label = 0;
};

}  // namespace coterie

#endif  // COTERIE_API_TRAINING_H_
