#include "training/kmeans_testing.h"

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "index/distance.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/draw.h"
#include "training/kmeans_job.h"
#include "training/kmeans_local.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {

KMeansData Blobs(int64_t n, int64_t d, int64_t blobs, double spread,
                 std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> middles(static_cast<size_t>(blobs * d));
  for (double& m : middles) m = 10 * normal(random);
  KMeansData data;
  data.d = d;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t blob = static_cast<int64_t>(random() % blobs);
    for (int64_t j = 0; j < d; ++j) {
      data.rows.push_back(
          static_cast<float>(middles[static_cast<size_t>(blob * d + j)] +
                             spread * normal(random)));
    }
    data.ids.push_back(HashOf({static_cast<uint64_t>(i)}));
  }
  return data;
}

KMeansData HeavyTailed(int64_t n, int64_t d, std::mt19937_64& random) {
  KMeansData data;
  data.d = d;
  for (int64_t i = 0; i < n * d; ++i) {
    const double magnitude =
        std::ldexp(1.0 + static_cast<double>(random() % 1000) / 1000,
                   static_cast<int>(random() % 40) - 20);
    data.rows.push_back(
        static_cast<float>(random() % 2 == 0 ? magnitude : -magnitude));
  }
  return data;
}

KMeansData ReadCsv(const std::string& path) {
  KMeansData data;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::stringstream cells(line);
    std::string cell;
    int64_t d = 0;
    for (; std::getline(cells, cell, ','); ++d) {
      data.rows.push_back(std::stof(cell));
    }
    data.d = d;
  }
  return data;
}

KMeansWorkers ThreadedWorkers(int32_t threads) {
  KMeansWorkers workers;
  workers.count = threads;
  workers.run = [threads](int64_t tasks, KMeansWorkers::Body body) {
    std::atomic<int64_t> next = 0;
    std::vector<std::thread> crew;
    for (int32_t worker = 0; worker < threads; ++worker) {
      crew.emplace_back([&next, tasks, worker, body] {
        for (int64_t task = next++; task < tasks; task = next++) {
          body(worker, task);
        }
      });
    }
    for (std::thread& thread : crew) thread.join();
  };
  return workers;
}

KMeansCluster::KMeansCluster(const KMeansData& data,
                             const std::vector<int32_t>& place, int32_t shards,
                             const KMeansShard::Options& options) {
  Build(data, place, shards, options);
}

KMeansCluster::KMeansCluster(const KMeansData& data, int32_t shards,
                             uint64_t seed) {
  std::vector<int32_t> place;
  for (int64_t i = 0; i < data.n(); ++i) {
    place.push_back(
        static_cast<int32_t>(HashOf({seed, static_cast<uint64_t>(i)}) %
                             static_cast<uint64_t>(shards)));
  }
  Build(data, place, shards, {});
}

void KMeansCluster::Build(const KMeansData& data,
                          const std::vector<int32_t>& place, int32_t shards,
                          const KMeansShard::Options& options) {
  for (int32_t s = 0; s < shards; ++s)
    parts_.push_back(std::make_unique<Part>());
  for (int64_t i = 0; i < data.n(); ++i) {
    Part& part = *parts_[static_cast<size_t>(place[static_cast<size_t>(i)])];
    const VectorView row = data.row(i);
    part.rows.insert(part.rows.end(), row.begin(), row.end());
    part.ids.push_back(data.id(i));
    if (!data.weights.empty()) {
      part.weights.push_back(data.weights[static_cast<size_t>(i)]);
    }
  }
  for (const std::unique_ptr<Part>& part : parts_) {
    const KMeansBlock block = {
        .rows = {part->rows.data(), static_cast<int64_t>(part->ids.size()),
                 data.d, data.d},
        .ids = part->ids.data(),
        .weights = data.weights.empty() ? nullptr : part->weights.data()};
    absl::StatusOr<KMeansRows> rows =
        KMeansRows::Create(data.metric, data.d, {block});
    if (!rows.ok()) {
      std::fprintf(stderr, "%s\n", rows.status().ToString().c_str());
      std::abort();
    }
    shards_.push_back(std::make_unique<KMeansShard>(*std::move(rows), options));
    pointers_.push_back(shards_.back().get());
  }
}

absl::StatusOr<KMeansResult> KMeansCluster::Run(const KMeansOptions& options,
                                                const KMeansWorkers& workers) {
  return RunKMeans(options, pointers_, workers);
}

std::map<PointId, int32_t> KMeansCluster::Labels() const {
  std::map<PointId, int32_t> labels;
  for (const KMeansShard* shard : pointers_) {
    for (size_t i = 0; i < shard->labels().size(); ++i) {
      labels[shard->rows().id(static_cast<int64_t>(i))] = shard->labels()[i];
    }
  }
  return labels;
}

KMeansOptions OptionsFor(const KMeansData& data, int64_t k, bool given) {
  KMeansOptions options;
  options.metric = data.metric;
  options.dimension = data.d;
  options.k = k;
  options.tolerance = 0;
  if (given) {
    options.seeding = KMeansSeeding::kGiven;
    options.given.assign(data.rows.begin(), data.rows.begin() + k * data.d);
  }
  return options;
}

int32_t NearestByAll(Metric metric, VectorView row, RowsView centres,
                     double* distance) {
  int32_t label = 0;
  *distance = std::numeric_limits<double>::infinity();
  for (int64_t j = 0; j < centres.n; ++j) {
    const double one = CanonicalDistance(metric, centres.row(j), row);
    if (one < *distance) {
      *distance = one;
      label = static_cast<int32_t>(j);
    }
  }
  return label;
}

KMeansModel RunKMeansModel(const KMeansData& data, std::vector<float> centres,
                           int64_t max_iterations) {
  KMeansModel model;
  model.centres = std::move(centres);
  const int64_t d = data.d;
  const int64_t k = static_cast<int64_t>(model.centres.size()) / d;
  while (model.iterations < max_iterations) {
    ++model.iterations;
    std::vector<int32_t> labels;
    long double objective = 0;
    std::vector<long double> sums(model.centres.size(), 0);
    std::vector<long double> weights(static_cast<size_t>(k), 0);
    for (int64_t i = 0; i < data.n(); ++i) {
      double distance = 0;
      const int32_t label = NearestByAll(
          data.metric, data.row(i), {model.centres.data(), k, d, d}, &distance);
      labels.push_back(label);
      const long double w =
          data.weights.empty() ? 1 : data.weights[static_cast<size_t>(i)];
      objective += w * distance;
      weights[static_cast<size_t>(label)] += w;
      for (int64_t j = 0; j < d; ++j) {
        sums[static_cast<size_t>(label * d + j)] += w * data.row(i)[j];
      }
    }
    model.objective = static_cast<double>(objective);
    const bool same = labels == model.labels;
    model.labels = std::move(labels);
    if (same) return model;
    for (size_t i = 0; i < sums.size(); ++i) {
      const long double w = weights[i / static_cast<size_t>(d)];
      if (w > 0) model.centres[i] = static_cast<float>(sums[i] / w);
    }
  }
  return model;
}

}  // namespace coterie
