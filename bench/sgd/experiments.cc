#include "bench/sgd/experiments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "training/sgd_draw.h"
#include "training/sgd_job.h"

namespace coterie {
namespace {

constexpr int32_t kShards = 4;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> RandomVector(int64_t d, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<double> v(static_cast<size_t>(d));
  for (double& x : v) x = normal(random);
  return v;
}

// Largest eigenvalue of the sum of c c^T, by the power method.
double LargestEigenvalue(const std::vector<std::vector<double>>& columns,
                         std::mt19937_64& random) {
  std::vector<double> v =
      RandomVector(static_cast<int64_t>(columns[0].size()), random);
  double norm = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<double> next(v.size());
    for (const std::vector<double>& c : columns) {
      const double along = Dot(c, v);
      for (size_t j = 0; j < v.size(); ++j) next[j] += along * c[j];
    }
    norm = std::sqrt(Dot(next, next));
    for (size_t j = 0; j < v.size(); ++j) v[j] = next[j] / norm;
  }
  return norm;
}

// Least eigenvalue of (1/n) sum of a a^T over the rows a, by the power method
// on largest I - that; never below the true one.
double LeastEigenvalue(const SgdSimulationData& data, std::mt19937_64& random) {
  const auto d = static_cast<size_t>(data.dimension);
  std::vector<double> matrix(d * d);
  for (size_t i = 0; i < data.labels.size(); ++i) {
    const float* a = data.values.data() + i * d;
    for (size_t r = 0; r < d; ++r) {
      for (size_t c = 0; c < d; ++c) {
        matrix[r * d + c] += static_cast<double>(a[r]) *
                             static_cast<double>(a[c]) /
                             static_cast<double>(data.labels.size());
      }
    }
  }
  const auto power = [&](double shift) {
    std::vector<double> v = RandomVector(data.dimension, random);
    double norm = 1;
    for (int round = 0; round < 2000; ++round) {
      std::vector<double> next(d);
      for (size_t r = 0; r < d; ++r) {
        const double along = std::inner_product(
            v.begin(), v.end(), matrix.begin() + static_cast<int64_t>(r * d),
            0.0);
        next[r] = shift == 0 ? along : shift * v[r] - along;
      }
      norm = std::sqrt(Dot(next, next));
      for (size_t r = 0; r < d; ++r) v[r] = next[r] / norm;
    }
    return norm;
  };
  const double largest = power(0);
  return largest - power(largest);
}

// One row of a LIBSVM file, of length 1.
absl::Status AddRow(const std::string& line, SgdSimulationData& data) {
  std::istringstream in(line);
  double label = 0;
  if (!(in >> label)) return absl::OkStatus();
  std::vector<double> row(static_cast<size_t>(data.dimension));
  int64_t column = 0;
  char colon = 0;
  double value = 0;
  while (in >> column >> colon >> value) {
    if (column < 1 || column > data.dimension || colon != ':') {
      return absl::InvalidArgumentError(
          absl::StrCat("column ", column, " of ", data.dimension));
    }
    row[static_cast<size_t>(column - 1)] = value;
  }
  const double norm = std::sqrt(Dot(row, row));
  for (double x : row) {
    data.values.push_back(static_cast<float>(norm > 0 ? x / norm : 0));
  }
  data.labels.push_back(label);
  return absl::OkStatus();
}

SgdOptions Fixed(SgdOptions options) {
  options.max_updates = 30'000;
  options.top_k = 1;
  return options;
}

absl::Status FindOptimum(SgdProblem& problem) {
  LayOut(SgdLayout::kDealt, 1, problem);
  SgdOptions options = ExperimentOptions(problem, SgdMethod::kAccelerated, 1, 1,
                                         SgdSchedule::kTight);
  options.float64 = true;
  options.max_updates = 1500;
  problem.start = std::log(2.0);
  absl::StatusOr<SgdRun> run = RunToGap(problem, options, 0);
  if (!run.ok()) return run.status();
  // The gap was measured from 0.
  problem.optimum = run->gap * problem.start;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SgdProblem> LogisticProblem(const std::string& path,
                                           int64_t dimension, double l2) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  SgdProblem problem;
  problem.data.dimension = dimension;
  std::string line;
  while (std::getline(file, line)) {
    if (absl::Status s = AddRow(line, problem.data); !s.ok()) return s;
  }
  problem.model.kind = SgdModelKind::kLogistic;
  problem.model.dimension = dimension;
  problem.model.l2 = l2;
  problem.smoothness = 0.25 + problem.model.l2;
  if (absl::Status s = FindOptimum(problem); !s.ok()) return s;
  return problem;
}

SgdProblem QuadraticProblem(int32_t workers, int64_t dimension, int64_t rank,
                            uint64_t seed) {
  std::mt19937_64 random(seed);
  SgdProblem problem;
  problem.data.dimension = dimension;
  problem.model.kind = SgdModelKind::kLinear;
  problem.model.dimension = dimension;
  problem.smoothness = 1;
  const std::vector<double> optimum = RandomVector(dimension, random);
  std::vector<double> v = RandomVector(dimension, random);
  const double norm = std::sqrt(Dot(v, v));
  for (double& x : v) x /= norm;
  // f_i = (1 / rows) sum (a^T (x - optimum))^2 / 2 with M_i = sum of a a^T.
  const double scale = std::sqrt(static_cast<double>(rank) + 1);
  double squares = 0;
  const auto add = [&](const std::vector<double>& row) {
    double label = 0;
    for (size_t j = 0; j < row.size(); ++j) {
      const float x = static_cast<float>(row[j] * scale);
      problem.data.values.push_back(x);
      label += static_cast<double>(x) * optimum[j];
    }
    problem.data.labels.push_back(label);
    squares += label * label;
  };
  std::vector<int32_t> owner;
  for (int32_t w = 0; w < workers; ++w) {
    std::vector<std::vector<double>> columns;
    for (int64_t c = 0; c < rank; ++c) {
      columns.push_back(RandomVector(dimension, random));
    }
    const double largest = LargestEigenvalue(columns, random);
    add(v);
    for (std::vector<double>& c : columns) {
      const double along = Dot(c, v);
      for (size_t j = 0; j < c.size(); ++j) {
        c[j] = (c[j] - along * v[j]) / std::sqrt(largest);
      }
      add(c);
    }
    owner.insert(owner.end(), static_cast<size_t>(rank) + 1, w);
  }
  problem.start = squares / 2 / static_cast<double>(problem.data.size());
  problem.data.SetWorkers(owner, workers);
  problem.convexity = LeastEigenvalue(problem.data, random);
  return problem;
}

void LayOut(SgdLayout layout, int32_t workers, SgdProblem& problem) {
  const size_t n = problem.data.labels.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  if (layout == SgdLayout::kSorted) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return problem.data.labels[a] < problem.data.labels[b];
    });
  }
  std::vector<int32_t> owner(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t w = layout == SgdLayout::kSorted
                         ? i * static_cast<size_t>(workers) / n
                         : i % static_cast<size_t>(workers);
    owner[order[i]] = static_cast<int32_t>(w);
  }
  problem.data.SetWorkers(owner, workers);
}

absl::StatusOr<SgdRun> RunToGap(const SgdProblem& problem, SgdOptions options,
                                double gap) {
  const int32_t shards = std::min(kShards, options.workers);
  const double range = problem.start - problem.optimum;
  std::vector<int32_t> shard_of;
  for (PointId id : problem.data.ids) {
    shard_of.push_back(SgdWorkerOf(id, options.workers) % shards);
  }
  // Mini-batches do not tell f: it is measured now and then.
  const bool exact = options.estimator == SgdEstimator::kFull;
  if (!exact) options.evaluate_every = 100;
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, shards);
  if (!job.ok()) return job.status();
  SgdRun run;
  run.updates = -1;
  SgdSimulation simulation(problem.data, shards, std::move(shard_of));
  simulation.on_update = [&](const SgdJob& j, double) {
    const SgdProgress& progress = j.progress();
    run.bytes_up += progress.bytes_up;
    run.bytes_down += progress.bytes_down;
    double f = progress.loss;
    int64_t at = progress.update - 1;
    if (!exact) {
      if (progress.measured_at != at) return true;
      f = progress.held_out_loss + SgdPenalty(options.model, j.Parameters());
    }
    run.gap = (f - problem.optimum) / range;
    if (run.gap > gap) return true;
    run.updates = at;
    return false;
  };
  if (absl::Status s = simulation.Run(*job); !s.ok()) return s;
  run.share = job->plan().block_fraction;
  return run;
}

absl::StatusOr<SgdRun> RunToNoise(const SgdProblem& problem, SgdOptions options,
                                  int64_t updates) {
  constexpr int64_t kEvery = 100;
  options.max_updates = updates;
  options.evaluate_every = kEvery;
  const std::vector<int32_t> shard_of(problem.data.ids.size(), 0);
  absl::StatusOr<SgdJob> job = SgdJob::Create(options, 1);
  if (!job.ok()) return job.status();
  SgdRun run;
  run.updates = updates;
  double sum = 0;
  int64_t measured = 0;
  SgdSimulation simulation(problem.data, 1, shard_of);
  simulation.on_update = [&](const SgdJob& j, double) {
    const SgdProgress& progress = j.progress();
    run.bytes_up += progress.bytes_up;
    run.bytes_down += progress.bytes_down;
    // Measured before this update.
    const int64_t at = progress.update - 1;
    if (progress.measured_at == at && at > updates / 2) {
      sum += progress.held_out_loss +
             SgdPenalty(options.model, j.Parameters()) - problem.optimum;
      ++measured;
    }
    return true;
  };
  if (absl::Status s = simulation.Run(*job); !s.ok()) return s;
  run.gap = sum / static_cast<double>(measured);
  run.share = job->plan().block_fraction;
  return run;
}

absl::StatusOr<SgdRun> RunAccelerated(const SgdProblem& problem,
                                      SgdOptions options, double gap,
                                      absl::Span<const double> growths,
                                      double* best) {
  absl::StatusOr<SgdRun> least =
      absl::NotFoundError("no constant of strong growth came to the gap");
  for (double growth : growths) {
    options.strong_growth = growth;
    const absl::StatusOr<SgdRun> run = RunToGap(problem, options, gap);
    if (!run.ok() || run->updates < 0) continue;
    if (least.ok() && least->updates <= run->updates) continue;
    least = run;
    *best = growth;
  }
  return least;
}

SgdOptions ExperimentOptions(const SgdProblem& problem, SgdMethod method,
                             int32_t workers, double u, SgdSchedule schedule) {
  SgdOptions options;
  options.model = problem.model;
  options.workers = workers;
  options.seed = 7600;
  options.block_fraction = std::min(1.0, u / workers);
  options.smoothness = problem.smoothness;
  options.schedule = schedule;
  if (method == SgdMethod::kIsaga || method == SgdMethod::kIsagaShared ||
      method == SgdMethod::kSgd || method == SgdMethod::kIsgd) {
    options.batch = 1;
  }
  return Fixed(SgdPreset(method, options));
}

}  // namespace coterie
