// Fuzz target: bytes as a step or a partial of k-means.
//
// What decodes encodes to the same bytes. A step is then answered by a shard
// of six rows that is in the middle of a job, and its answer must fit it; a
// partial is checked against the steps of such a job and merged.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "index/metric.h"
#include "index/vectors.h"
#include "training/kmeans_codec.h"
#include "training/kmeans_job.h"
#include "training/kmeans_merge.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {
namespace {

constexpr float kRows[] = {0, 0, 1, 0, 9, 9, 8, 9, 0, 1, 4, 4};
constexpr PointId kIds[] = {1, 2, 3, 4, 5, 6};

void Check(bool holds) {
  if (!holds) std::abort();
}

absl::StatusOr<KMeansPartial> Answer(KMeansShard& shard,
                                     const KMeansStep& step) {
  return shard.Run(step, KMeansWorkers(), [] { return false; });
}

KMeansShard MakeShard() {
  absl::StatusOr<KMeansRows> rows = KMeansRows::Create(
      Metric::kSquaredL2, 2, {{.rows = {kRows, 6, 2, 2}, .ids = kIds}});
  Check(rows.ok());
  return KMeansShard(*std::move(rows));
}

KMeansJob MakeJob() {
  KMeansOptions options;
  options.dimension = 2;
  options.k = 3;
  options.seeding = KMeansSeeding::kRandom;
  options.polish = KMeansPolish::kHartiganWong;
  absl::StatusOr<KMeansJob> job = KMeansJob::Create(options, 1);
  Check(job.ok());
  return *std::move(job);
}

void RunStep(absl::string_view bytes) {
  absl::StatusOr<KMeansStep> step = DecodeKMeansStep(bytes);
  if (!step.ok()) return;
  Check(EncodeKMeansStep(*step) == bytes);
  KMeansShard shard = MakeShard();
  KMeansJob job = MakeJob();
  // Through extent, totals, seeds and two assignments.
  for (int i = 0; i < 5 && !job.Done(); ++i) {
    const absl::StatusOr<KMeansPartial> partial = Answer(shard, job.NextStep());
    Check(partial.ok() && job.Accept(0, *partial).ok());
  }
  for (int64_t base : {step->base, job.NextStep().base}) {
    step->base = base;
    step->number = job.NextStep().number + 1;
    const absl::StatusOr<KMeansPartial> partial = Answer(shard, *step);
    if (!partial.ok()) continue;
    Check(EncodeKMeansPartial(*DecodeKMeansPartial(
              EncodeKMeansPartial(*partial))) == EncodeKMeansPartial(*partial));
  }
}

void RunPartial(absl::string_view bytes) {
  absl::StatusOr<KMeansPartial> partial = DecodeKMeansPartial(bytes);
  if (!partial.ok()) return;
  Check(EncodeKMeansPartial(*partial) == bytes);
  KMeansShard shard = MakeShard();
  KMeansJob job = MakeJob();
  for (int i = 0; i < 40 && !job.Done(); ++i) {
    const KMeansStep step = job.NextStep();
    partial->number = step.number;
    if (job.Accept(0, *partial).ok()) continue;
    const absl::StatusOr<KMeansPartial> good = Answer(shard, step);
    if (!good.ok() || !job.Accept(0, *good).ok()) return;
  }
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  coterie::RunStep(bytes);
  coterie::RunPartial(bytes);
  return 0;
}
