#include "training/kmeans_local.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/kmeans_job.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_shard.h"
#include "training/kmeans_workers.h"

namespace coterie {

absl::Status PumpKMeans(KMeansJob& job, absl::Span<KMeansShard* const> shards,
                        const KMeansWorkers& workers) {
  while (!job.Done()) {
    const KMeansStep step = job.NextStep();
    for (size_t i = 0; i < shards.size(); ++i) {
      if (step.shard >= 0 && static_cast<size_t>(step.shard) != i) continue;
      const absl::StatusOr<KMeansPartial> partial =
          shards[i]->Run(step, workers, [] { return false; });
      if (!partial.ok()) return partial.status();
      const absl::Status taken = job.Accept(static_cast<int32_t>(i), *partial);
      if (!taken.ok()) return taken;
    }
  }
  return job.status();
}

absl::StatusOr<KMeansResult> RunKMeans(const KMeansOptions& options,
                                       absl::Span<KMeansShard* const> shards,
                                       const KMeansWorkers& workers) {
  absl::StatusOr<KMeansJob> job =
      KMeansJob::Create(options, static_cast<int32_t>(shards.size()));
  if (!job.ok()) return job.status();
  const absl::Status done = PumpKMeans(*job, shards, workers);
  if (!done.ok()) return done;
  return job->Result();
}

}  // namespace coterie
