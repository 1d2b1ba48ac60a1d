// Training to the same gap with one slow shard, synchronous and asynchronous:
// eight real shards over gRPC, each step made to last 4 ms, the slow shard's 4
// or 10 times as long.
//
//   straggler_bench A1A.libsvm      prints one JSON object a line
//
// Dealt: each shard has like rows. Sorted: each has rows of one label.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/sgd/experiments.h"
#include "bench/sgd/served_cluster.h"
#include "bench/sgd/slow_shard.h"
#include "training/sgd_model.h"

namespace coterie {
namespace {

constexpr int32_t kShards = 8;
constexpr int32_t kSlowShard = 3;
constexpr absl::Duration kStep = absl::Milliseconds(4);
constexpr double kGap = 1e-5;

struct Way {
  const char* name;
  SgdMode mode;
  SgdFeedback feedback;  // EF21 on whole gradients: the table
  SgdAsyncRule rule;
  // Runs of so many updates, a fifth more each time, until one ends at the gap;
  // synchronous: one run, to the gap.
  int64_t first;
  int64_t last;
};

struct Outcome {
  double seconds = 0;
  double gap = 0;  // measured at the end, over all rows
  int64_t updates = 0;
  int64_t staleness_p95 = 0;
};

Outcome RunOnce(const SgdProblem& problem, ServedCluster& cluster,
                const Way& way, int64_t updates) {
  const double range = problem.start - problem.optimum;
  SgdOptions options = ExperimentOptions(problem, SgdMethod::kGradientDescent,
                                         kShards, kShards, SgdSchedule::kTight);
  options.feedback = way.feedback;
  options.mode = way.mode;
  options.rule = way.rule;
  options.max_updates = updates;
  options.max_staleness = 1000;
  // Losses of asynchronous updates are of several versions: they tell no gap.
  if (way.mode == SgdMode::kSynchronous) {
    options.target_loss = problem.optimum + kGap * range;
  }
  options.evaluate_every = updates + 1;  // at the end alone
  SgdRequest request = RequestOf(options);
  request.report_every = 0;
  request.checkpoint_every = updates + 1;
  const absl::Time start = absl::Now();
  const Followed run = cluster.Train(request);
  if (!run.model.ok()) {
    std::fprintf(stderr, "%s: %s\n", way.name,
                 run.model.status().ToString().c_str());
    std::exit(1);
  }
  const SgdReport& last = run.model->last;
  const double loss = last.progress.held_out_loss +
                      SgdPenalty(problem.model, run.model->parameters);
  return {absl::ToDoubleSeconds(absl::Now() - start),
          (loss - problem.optimum) / range, last.progress.update,
          last.staleness.p95};
}

void Run(const SgdProblem& problem, ServedCluster& cluster, const Way& way,
         const char* layout, double slow) {
  Outcome run;
  for (int64_t updates = way.first; updates <= way.last;
       updates += updates / 5) {
    run = RunOnce(problem, cluster, way, updates);
    if (run.gap <= kGap) break;
  }
  std::printf(
      "{\"way\": \"%s\", \"layout\": \"%s\", \"slow\": %g, \"seconds\": "
      "%.3f, \"updates\": %lld, \"gap\": %.3g, \"reached\": %s, "
      "\"staleness_p95\": %lld}\n",
      way.name, layout, slow, run.seconds, static_cast<long long>(run.updates),
      run.gap, run.gap <= kGap ? "true" : "false",
      static_cast<long long>(run.staleness_p95));
  std::fflush(stdout);
}

int Main(const char* path) {
  absl::StatusOr<SgdProblem> problem = LogisticProblem(path, 123, 2.5e-3);
  if (!problem.ok()) {
    std::fprintf(stderr, "%s\n", problem.status().ToString().c_str());
    return 1;
  }
  const Way sync = {"synchronous",
                    SgdMode::kSynchronous,
                    SgdFeedback::kPlain,
                    SgdAsyncRule::kTable,
                    20'000,
                    20'000};
  const Way table = {"table",
                     SgdMode::kAsynchronous,
                     SgdFeedback::kEf21,
                     SgdAsyncRule::kTable,
                     800,
                     20'000};
  const Way plain = {"plain",
                     SgdMode::kAsynchronous,
                     SgdFeedback::kPlain,
                     SgdAsyncRule::kDelayAdaptive,
                     6'000,
                     6'000};
  for (const SgdLayout layout : {SgdLayout::kDealt, SgdLayout::kSorted}) {
    const char* name = layout == SgdLayout::kDealt ? "dealt" : "sorted";
    LayOut(layout, kShards, *problem);
    for (const double slow : {1.0, 4.0, 10.0}) {
      // A slot, and so a worker, for each shard.
      ServedCluster cluster(
          *problem, kShards, kShards,
          [&](int32_t shard, std::shared_ptr<ShardClient> client) {
            return std::make_shared<SlowShard>(
                std::move(client), shard == kSlowShard ? kStep * slow : kStep);
          });
      Run(*problem, cluster, sync, name, slow);
      Run(*problem, cluster, table, name, slow);
      if (slow > 1) Run(*problem, cluster, plain, name, slow);
    }
  }
  return 0;
}

}  // namespace
}  // namespace coterie

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "straggler_bench A1A.libsvm\n");
    return 2;
  }
  return coterie::Main(argv[1]);
}
