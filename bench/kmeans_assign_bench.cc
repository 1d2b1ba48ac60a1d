// One k-means iteration over a real or synthetic set, one thread.
//
//   kmeans_assign_bench [--data FILE.npy] [--k K] [--iterations N]
//       [--algorithm lloyd|hamerly|elkan]
//
// FILE: float32, C order, n x d; without one, 100,000 x 64 normal deviates.
// Centres start as rows 0, n/k, 2 n/k, ... Prints one JSON object an iteration:
// CPU seconds, inertia, rows moved, pairs evaluated and skipped. The last line
// is the median time. bench/kmeans/peer.py prints the same of scikit-learn.

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/vectors.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

// CPU time of this thread: what else runs on the machine counts less.
double Now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Matrix {
  int64_t n = 0;
  int64_t d = 0;
  std::vector<float> values;
};

Matrix Normal(int64_t n, int64_t d) {
  Matrix matrix = {n, d, std::vector<float>(static_cast<size_t>(n * d))};
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (float& v : matrix.values) v = normal(random);
  return matrix;
}

// The subset of the format that numpy.save writes for such arrays.
Matrix ReadNpy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[10] = {};
  file.read(magic, sizeof(magic));
  uint16_t header_size = 0;
  std::memcpy(&header_size, magic + 8, sizeof(header_size));
  std::string header(header_size, ' ');
  file.read(header.data(), header_size);
  Matrix matrix;
  const size_t shape = header.find("'shape': (");
  if (!file || std::memcmp(magic, "\x93NUMPY\x01", 7) != 0 ||
      header.find("'<f4'") == std::string::npos || shape == std::string::npos ||
      std::sscanf(header.c_str() + shape, "'shape': (%ld, %ld", &matrix.n,
                  &matrix.d) != 2) {
    std::fprintf(stderr, "%s: not a float32 matrix of numpy 1.0\n",
                 path.c_str());
    std::exit(2);
  }
  matrix.values.resize(static_cast<size_t>(matrix.n * matrix.d));
  file.read(reinterpret_cast<char*>(matrix.values.data()),
            static_cast<std::streamsize>(matrix.values.size() * 4));
  if (!file) {
    std::fprintf(stderr, "%s: cut short\n", path.c_str());
    std::exit(2);
  }
  return matrix;
}

struct Settings {
  std::string data;
  int64_t k = 1000;
  int64_t iterations = 5;
  KMeansAlgorithm algorithm = KMeansAlgorithm::kHamerly;
  std::string algorithm_name = "hamerly";
};

Settings Parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    bool good = true;
    if (name == "--data") {
      settings.data = value;
    } else if (name == "--k") {
      good = absl::SimpleAtoi(value, &settings.k);
    } else if (name == "--iterations") {
      good = absl::SimpleAtoi(value, &settings.iterations);
    } else if (name == "--algorithm") {
      settings.algorithm_name = value;
      settings.algorithm = value == "lloyd"   ? KMeansAlgorithm::kLloyd
                           : value == "elkan" ? KMeansAlgorithm::kElkan
                                              : KMeansAlgorithm::kHamerly;
    } else {
      good = false;
    }
    if (!good) {
      std::fprintf(stderr, "bad argument: %s %s\n", argv[i], argv[i + 1]);
      std::exit(2);
    }
  }
  return settings;
}

void Print(const Settings& settings, const KMeansProgress& progress,
           double seconds) {
  absl::PrintF(
      "{\"bench\":\"kmeans\",\"case\":\"%s/k=%d/assign/%s\",\"iteration\":%d,"
      "\"metric\":\"CPU time per iteration\",\"unit\":\"s\",\"ours\":%.4f,"
      "\"inertia\":%.10g,\"moved\":%d,\"evaluated\":%d,\"skipped\":%d,"
      "\"machine\":\"%s\"}\n",
      settings.data.empty() ? "normal-100k-64" : settings.data, settings.k,
      settings.algorithm_name, progress.iteration, seconds, progress.objective,
      progress.moved, progress.evaluated, progress.skipped,
      SimdTargetName(ActiveSimdTarget()));
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const Settings settings = Parse(argc, argv);
  const Matrix matrix =
      settings.data.empty() ? Normal(100'000, 64) : ReadNpy(settings.data);
  std::vector<PointId> ids(static_cast<size_t>(matrix.n));
  std::iota(ids.begin(), ids.end(), PointId{0});
  KMeansOptions options;
  options.dimension = matrix.d;
  options.k = settings.k;
  options.seeding = KMeansSeeding::kGiven;
  options.tolerance = 0;
  options.max_iterations = settings.iterations;
  options.algorithm = settings.algorithm;
  for (int64_t j = 0; j < settings.k; ++j) {
    const auto row =
        matrix.values.begin() + matrix.n / settings.k * j * matrix.d;
    options.given.insert(options.given.end(), row, row + matrix.d);
  }
  const KMeansBlock block = {
      .rows = {matrix.values.data(), matrix.n, matrix.d, matrix.d},
      .ids = ids.data()};
  absl::StatusOr<KMeansRows> rows =
      KMeansRows::Create(options.metric, matrix.d, {block});
  if (!rows.ok()) return 2;
  KMeansShard shard(*std::move(rows));
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
  if (!job.ok()) return 2;
  std::vector<double> times;
  while (!job->Done()) {
    const size_t before = job->progress().size();
    const double start = Now();
    const auto partial =
        shard.Run(job->NextStep(), KMeansWorkers(), [] { return false; });
    if (!partial.ok() || !job->Accept(0, *partial).ok()) return 2;
    const double seconds = Now() - start;
    if (job->progress().size() == before) continue;
    times.push_back(seconds);
    Print(settings, job->progress().back(), seconds);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  absl::PrintF("{\"bench\":\"kmeans\",\"median_seconds\":%.4f}\n",
               times[times.size() / 2]);
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) { return coterie::Main(argc, argv); }
