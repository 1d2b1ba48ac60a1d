// k-means over one shard behind C functions, for bench/kmeans/kmeans.py: a
// KMeansJob and a KMeansShard as the service runs them, without network, disk
// and gRPC, on the calling thread.
//
// An object belongs to one caller at a time.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "index/metric.h"
#include "index/simd.h"
#include "index/vectors.h"
#include "training/kmeans_codec.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

class Fit {
 public:
  static std::unique_ptr<Fit> Create(RowsView view,
                                     const KMeansOptions& options) {
    auto fit = std::unique_ptr<Fit>(new Fit());
    fit->ids_.resize(static_cast<size_t>(view.n));
    std::iota(fit->ids_.begin(), fit->ids_.end(), PointId{0});
    auto rows = KMeansRows::Create(options.metric, view.d,
                                   {{.rows = view, .ids = fit->ids_.data()}});
    auto job = KMeansJob::Create(options, 1);
    if (!rows.ok() || !job.ok()) {
      Print(rows.ok() ? job.status() : rows.status());
      return nullptr;
    }
    fit->shard_ = std::make_unique<KMeansShard>(*std::move(rows));
    fit->job_ = std::make_unique<KMeansJob>(*std::move(job));
    return fit;
  }

  // False after printing what is wrong.
  bool Step() {
    const KMeansStep& step = job_->NextStep();
    const auto partial =
        shard_->Run(step, KMeansWorkers(), [] { return false; });
    if (!partial.ok()) return Print(partial.status());
    bytes_ += KMeansStepBytes(step) + KMeansPartialBytes(*partial);
    if (const absl::Status taken = job_->Accept(0, *partial); !taken.ok()) {
      return Print(taken);
    }
    return job_->status().ok() || Print(job_->status());
  }

  const KMeansJob& job() const { return *job_; }
  const KMeansShard& shard() const { return *shard_; }
  int64_t bytes() const { return bytes_; }

 private:
  Fit() = default;

  static bool Print(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return false;
  }

  std::vector<PointId> ids_;
  std::unique_ptr<KMeansShard> shard_;
  std::unique_ptr<KMeansJob> job_;
  int64_t bytes_ = 0;
};

}  // namespace
}  // namespace coterie

extern "C" {

const char* kmeans_kernels() {
  return coterie::SimdTargetName(coterie::ActiveSimdTarget()).data();
}

// rows: n x d, start: k x d; rows are kept by reference. algorithm: of
// KMeansAlgorithm. The others: of KMeansOptions.
// Null after printing what is wrong.
void* kmeans_begin(int64_t n, int64_t d, const float* rows, int64_t k,
                   const float* start, int32_t algorithm, int64_t batch_rows,
                   double reassignment_ratio, int64_t max_iterations,
                   double tolerance) {
  using namespace coterie;
  KMeansOptions options;
  options.dimension = d;
  options.k = k;
  options.seeding = KMeansSeeding::kGiven;
  options.given.assign(start, start + k * d);
  options.algorithm = static_cast<KMeansAlgorithm>(algorithm);
  options.batch_rows = batch_rows;
  options.reassignment_ratio = reassignment_ratio;
  options.max_iterations = max_iterations;
  options.tolerance = tolerance;
  return Fit::Create({rows, n, d, d}, options).release();
}

void kmeans_end(void* fit) { delete static_cast<coterie::Fit*>(fit); }

// Runs one step of the job. 1: there is more to do; 0: done; -1: failed.
int32_t kmeans_step(void* fit) {
  auto* it = static_cast<coterie::Fit*>(fit);
  if (it->job().Done()) return 0;
  if (!it->Step()) return -1;
  return it->job().Done() ? 0 : 1;
}

// Assignments (mini-batch: epochs) so far.
int64_t kmeans_reports(void* fit) {
  return static_cast<int64_t>(
      static_cast<coterie::Fit*>(fit)->job().progress().size());
}

// Of the last of them: its inertia before centres moved; rows that moved; pairs
// computed and skipped.
void kmeans_report(void* fit, double* inertia, int64_t* counts) {
  const auto& last = static_cast<coterie::Fit*>(fit)->job().progress().back();
  *inertia = last.objective;
  counts[0] = last.moved;
  counts[1] = last.evaluated;
  counts[2] = last.skipped;
}

// All steps so far, both ways, headers included.
int64_t kmeans_bytes(void* fit) {
  return static_cast<coterie::Fit*>(fit)->bytes();
}

// As they are now, k x d.
void kmeans_centres(void* fit, float* centres) {
  const auto& job = static_cast<coterie::Fit*>(fit)->job();
  const std::vector<float> rows =
      job.Done() ? job.Result().centres : job.Checkpoint().centres.rows;
  std::copy(rows.begin(), rows.end(), centres);
}

// Of the last assignment, n of them.
void kmeans_labels(void* fit, int32_t* labels) {
  const auto all = static_cast<coterie::Fit*>(fit)->shard().labels();
  std::copy(all.begin(), all.end(), labels);
}

// REQUIRES: done.
double kmeans_inertia(void* fit, int64_t* iterations) {
  const coterie::KMeansResult result =
      static_cast<coterie::Fit*>(fit)->job().Result();
  *iterations = result.iterations;
  return result.objective;
}

}  // extern "C"
