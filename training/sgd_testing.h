// Small problems and runs for tests of SGD jobs.

#ifndef COTERIE_TRAINING_SGD_TESTING_H_
#define COTERIE_TRAINING_SGD_TESTING_H_

#include <cstdint>
#include <vector>

#include "training/sgd_job.h"
#include "training/sgd_simulation.h"

namespace coterie {

SgdModel Logistic(int64_t d, double l2);

// n rows of length 1 with noisy labels of one direction; row i is worker
// i mod workers'.
SgdSimulationData MakeData(int64_t n, int64_t d, int32_t workers,
                           uint64_t seed);

// Shards of rows: each worker whole on one, or dealt out three at a time.
std::vector<int32_t> ByWorker(const SgdSimulationData& data, int32_t workers,
                              int32_t shards);
std::vector<int32_t> Dealt(const SgdSimulationData& data, int32_t shards);

// The parameters of a run; a test failure if it fails.
std::vector<double> Trained(const SgdSimulationData& data,
                            const SgdOptions& options, int32_t shards,
                            const std::vector<int32_t>& shard_of);

// Largest difference over the largest value of a.
double Difference(const std::vector<double>& a, const std::vector<double>& b);

// f with l2 and its gradient over all rows.
double Objective(const SgdSimulationData& data, const SgdModel& model,
                 const std::vector<double>& x, std::vector<double>* gradient);

// 30 updates with float64 and the test's seed.
SgdOptions TestOptions(SgdMethod method, const SgdModel& model, int32_t workers,
                       int64_t batch = 0);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_TESTING_H_
