#include "training/sgd_testing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>

#include "gtest/gtest.h"
#include "index/test_vectors.h"
#include "training/sgd_draw.h"

namespace coterie {

SgdModel Logistic(int64_t d, double l2) {
  SgdModel model;
  model.kind = SgdModelKind::kLogistic;
  model.dimension = d;
  model.l2 = l2;
  return model;
}

SgdSimulationData MakeData(int64_t n, int64_t d, int32_t workers,
                           uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  SgdSimulationData data;
  data.dimension = d;
  std::vector<int32_t> wanted;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> row(static_cast<size_t>(d));
    double squares = 0;
    for (double& v : row) {
      v = normal(random);
      squares += v * v;
    }
    for (double v : row) {
      data.values.push_back(static_cast<float>(v / std::sqrt(squares)));
    }
    data.labels.push_back(row[0] + row[1] + normal(random) > 0 ? 1 : -1);
    wanted.push_back(static_cast<int32_t>(i % workers));
  }
  data.SetWorkers(wanted, workers);
  return data;
}

std::vector<int32_t> ByWorker(const SgdSimulationData& data, int32_t workers,
                              int32_t shards) {
  std::vector<int32_t> shard_of;
  for (PointId id : data.ids) {
    shard_of.push_back(SgdWorkerOf(id, workers) % shards);
  }
  return shard_of;
}

std::vector<int32_t> Dealt(const SgdSimulationData& data, int32_t shards) {
  std::vector<int32_t> shard_of;
  for (size_t i = 0; i < data.ids.size(); ++i) {
    shard_of.push_back(static_cast<int32_t>((i / 3) % shards));
  }
  return shard_of;
}

std::vector<double> Trained(const SgdSimulationData& data,
                            const SgdOptions& options, int32_t shards,
                            const std::vector<int32_t>& shard_of) {
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, shards);
  EXPECT_TRUE(job.ok()) << job.status();
  SgdSimulation simulation(data, shards, shard_of);
  const absl::Status status = simulation.Run(*job);
  EXPECT_TRUE(status.ok()) << status;
  return job->Parameters();
}

double Difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    difference = std::max(difference, std::abs(a[j] - b[j]));
    size = std::max(size, std::abs(a[j]));
  }
  return difference / size;
}

double Objective(const SgdSimulationData& data, const SgdModel& model,
                 const std::vector<double>& x, std::vector<double>* gradient) {
  SgdSums sums;
  if (gradient != nullptr) sums.gradient.resize(x.size());
  std::vector<const float*> rows;
  for (int64_t i = 0; i < data.size(); ++i) {
    rows.push_back(data.values.data() + i * data.dimension);
  }
  AddSgdSums(model, x, rows, data.labels, sums);
  if (gradient != nullptr) {
    *gradient = sums.gradient;
    for (double& g : *gradient) g /= static_cast<double>(data.size());
    AddSgdWeights(model, x, model.l2, absl::MakeSpan(*gradient));
  }
  return sums.loss / static_cast<double>(data.size()) + SgdPenalty(model, x);
}

SgdOptions TestOptions(SgdMethod method, const SgdModel& model, int32_t workers,
                       int64_t batch) {
  SgdOptions options;
  options.model = model;
  options.workers = workers;
  options.seed = TestSeed();
  options.batch = batch;
  options.max_updates = 30;
  options.float64 = true;
  return SgdPreset(method, options);
}

}  // namespace coterie
