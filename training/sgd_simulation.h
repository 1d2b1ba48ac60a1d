// An SGD job with its shards in one process, under a simulated clock: for tests
// and for counting iterations and bytes. Messages are really encoded.
//
// One thread.

#ifndef COTERIE_TRAINING_SGD_SIMULATION_H_
#define COTERIE_TRAINING_SGD_SIMULATION_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/vectors.h"
#include "training/sgd_job.h"
#include "training/sgd_rows.h"
#include "training/sgd_shard.h"
#include "training/step_threads.h"

namespace coterie {

struct SgdSimulationData {
  int64_t dimension = 0;
  std::vector<float> values;   // n x d
  std::vector<double> labels;  // n
  std::vector<PointId> ids;    // n

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  // Ids that give row i to worker wanted[i] of `workers`.
  void SetWorkers(const std::vector<int32_t>& wanted, int32_t workers);
};

class SgdSimulation {
 public:
  // Row i is on shard shard_of[i], below `shards`.
  SgdSimulation(const SgdSimulationData& data, int32_t shards,
                std::vector<int32_t> shard_of);

  // Seconds that a shard takes for its step `number`. Default: 1.
  std::function<double(int32_t shard, int64_t number)> seconds;
  // Called after each update; false: leaves the job as it is.
  std::function<bool(const SgdJob& job, double now)> on_update;
  StepThreads threads;

  // Runs until the job is done or on_update says no. Shards begin anew. The
  // first error of a shard is returned.
  absl::Status Run(SgdJob& job);

  // Of the last Run.
  double now() const { return now_; }
  // A new process in place of a shard, at the next answer it would give; the
  // job is told.
  void RestartShard(int32_t shard) { restart_ = shard; }

 private:
  absl::Status Begin(const SgdJob& job);
  absl::Status MakeShard(const SgdJob& job, int32_t shard);

  struct Node {
    std::vector<SgdShard> shard;  // one
    bool busy = false;
    double done_at = 0;
    int64_t last_number = 0;
    SgdStep step;
  };

  const SgdSimulationData& data_;
  const int32_t shards_;
  const std::vector<int32_t> shard_of_;
  std::vector<Node> nodes_;
  // Of each shard.
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<double>> labels_;
  std::vector<std::vector<PointId>> ids_;
  double now_ = 0;
  int32_t restart_ = -1;
};

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_SIMULATION_H_
