// The experiments of "99% of Distributed Optimization is a Waste of Time"
// (arXiv 1901.09437) on real jobs with shards in one process: how many updates,
// and bytes of whole messages, it takes to come near the optimum.

#ifndef COTERIE_BENCH_SGD_EXPERIMENTS_H_
#define COTERIE_BENCH_SGD_EXPERIMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/sgd_options.h"
#include "training/sgd_simulation.h"

namespace coterie {

// A problem whose optimum is known.
struct SgdProblem {
  SgdSimulationData data;
  SgdModel model;
  double smoothness = 0;  // L of every worker's f_i and row
  double convexity = 0;   // mu of f, of the quadratic alone
  double start = 0;       // f at 0
  double optimum = 0;
};

// Rows dealt to `workers` in turn, or, sorted by label, in runs.
enum class SgdLayout : uint8_t { kDealt = 1, kSorted = 2 };

// Rows of a LIBSVM file scaled to length 1, logistic loss, L = 1/4 + l2; the
// optimum by accelerated gradient descent to rounding.
absl::StatusOr<SgdProblem> LogisticProblem(const std::string& path,
                                           int64_t dimension,
                                           double l2 = 2.5e-4);

// Display (17) of the paper, moved from 0 to a random optimum: every worker's
// f_i is quadratic with L = 1 and gradient 0 at the same point.
SgdProblem QuadraticProblem(int32_t workers, int64_t dimension, int64_t rank,
                            uint64_t seed);

// Gives the problem's rows to workers.
void LayOut(SgdLayout layout, int32_t workers, SgdProblem& problem);

struct SgdRun {
  int64_t updates = 0;  // to the gap; -1: not within max_updates
  double gap = 0;       // relative, at the end
  int64_t bytes_up = 0;
  int64_t bytes_down = 0;
  double share = 1;  // tau, as it came out
};

// Runs until (f - optimum) / (start - optimum) <= gap, measured at each update
// over all rows.
absl::StatusOr<SgdRun> RunToGap(const SgdProblem& problem, SgdOptions options,
                                double gap);

// Mean gap of the second half of `updates`, measured every 100: where a
// constant step lets the noise of mini-batches hold f.
absl::StatusOr<SgdRun> RunToNoise(const SgdProblem& problem, SgdOptions options,
                                  int64_t updates);

// RunToGap of an accelerated method with the constant of strong growth, out of
// those given, that needs the fewest updates; those that diverge are passed
// over. `best` gets it. NOT_FOUND if none comes to the gap.
absl::StatusOr<SgdRun> RunAccelerated(const SgdProblem& problem,
                                      SgdOptions options, double gap,
                                      absl::Span<const double> growths,
                                      double* best);

// `method` on the problem with `workers`, n tau = u, and a step rule.
SgdOptions ExperimentOptions(const SgdProblem& problem, SgdMethod method,
                             int32_t workers, double u, SgdSchedule schedule);

}  // namespace coterie

#endif  // COTERIE_BENCH_SGD_EXPERIMENTS_H_
