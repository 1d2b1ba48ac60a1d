// Bytes that workers send over gRPC, counted there, to the same gap: whole
// gradients, blocks with shifts (ISEGA), and the largest value (EF21).
//
//   wire_bench A1A.libsvm      prints one JSON object a line

#include <cstdint>
#include <cstdio>
#include <string>

#include "bench/sgd/experiments.h"
#include "bench/sgd/served_cluster.h"

namespace coterie {
namespace {

constexpr int32_t kWorkers = 20;
constexpr double kGap = 1e-5;

struct Case {
  const char* name;
  SgdMethod method;
  double u;  // n tau
  SgdSchedule schedule;
};

bool Run(const SgdProblem& problem, ServedCluster& cluster, int32_t shards,
         const Case& c) {
  SgdOptions options =
      ExperimentOptions(problem, c.method, kWorkers, c.u, c.schedule);
  options.max_updates = 20'000;
  options.target_loss =
      problem.optimum + kGap * (problem.start - problem.optimum);
  SgdRequest request = RequestOf(options);
  request.report_every = 0;
  request.checkpoint_every = options.max_updates + 1;
  const Followed run = cluster.Train(request);
  if (!run.model.ok()) {
    std::fprintf(stderr, "%s: %s\n", c.name,
                 run.model.status().ToString().c_str());
    return false;
  }
  int64_t packed = 0;
  int64_t values = 0;
  for (const SgdShardAccount& shard : run.model->last.shards) {
    packed += shard.bytes_up;
    values += shard.bytes_whole;
  }
  std::printf(
      "{\"method\": \"%s\", \"shards\": %d, \"updates\": %lld, \"reached\": "
      "%s, \"wire_bytes_up\": %lld, \"packed_bytes_up\": %lld, "
      "\"whole_bytes_up\": %lld, \"wire_bytes_down\": %lld, \"seconds\": "
      "%.3f}\n",
      c.name, shards, static_cast<long long>(run.model->last.progress.update),
      run.model->stop == SgdStop::kTargetLoss ? "true" : "false",
      static_cast<long long>(run.model->bytes_received),
      static_cast<long long>(packed), static_cast<long long>(values),
      static_cast<long long>(run.model->bytes_sent), run.model->seconds);
  std::fflush(stdout);
  return true;
}

int Main(const std::string& path) {
  absl::StatusOr<SgdProblem> problem = LogisticProblem(path, 123);
  if (!problem.ok()) {
    std::fprintf(stderr, "%s\n", problem.status().ToString().c_str());
    return 1;
  }
  LayOut(SgdLayout::kDealt, kWorkers, *problem);
  for (const int32_t shards : {1, 2, 4}) {
    // A slot for each worker, which so lies whole on one shard.
    ServedCluster cluster(*problem, shards, kWorkers);
    for (const Case& c :
         {Case{"GD(1/2L)", SgdMethod::kGradientDescent, kWorkers,
               SgdSchedule::kTheorem},
          Case{"ISEGA", SgdMethod::kIsega, 1, SgdSchedule::kTight},
          Case{"EF21 top-1", SgdMethod::kEf21, 1, SgdSchedule::kTight}}) {
      if (!Run(*problem, cluster, shards, c)) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "wire_bench A1A.libsvm\n");
    return 2;
  }
  return coterie::Main(argv[1]);
}
