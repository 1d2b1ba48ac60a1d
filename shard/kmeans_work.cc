#include "shard/kmeans_work.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "training/kmeans_codec.h"
#include "training/kmeans_messages.h"
#include "training/kmeans_rows.h"
#include "training/kmeans_shard.h"

namespace coterie {
namespace {

class KMeansWork final : public JobWork {
 public:
  KMeansWork(std::shared_ptr<const JobRows> rows, KMeansRows kmeans_rows,
             const KMeansShard::Options& options)
      : rows_(std::move(rows)), shard_(std::move(kmeans_rows), options) {}

  absl::StatusOr<std::string> Step(absl::string_view step,
                                   const StepThreads& threads,
                                   absl::FunctionRef<bool()> stop) override {
    const absl::StatusOr<KMeansStep> decoded = DecodeKMeansStep(step);
    if (!decoded.ok()) return decoded.status();
    const absl::StatusOr<KMeansPartial> partial =
        shard_.Run(*decoded, threads, stop);
    if (!partial.ok()) return partial.status();
    return EncodeKMeansPartial(*partial);
  }

  absl::StatusOr<std::vector<std::pair<PointId, int64_t>>> Labels()
      const override {
    const absl::Span<const int32_t> labels = shard_.labels();
    if (static_cast<int64_t>(labels.size()) != shard_.rows().size()) {
      return absl::FailedPreconditionError("no step has given labels yet");
    }
    std::vector<std::pair<PointId, int64_t>> out;
    out.reserve(labels.size());
    for (size_t i = 0; i < labels.size(); ++i) {
      out.emplace_back(shard_.rows().id(static_cast<int64_t>(i)), labels[i]);
    }
    return out;
  }

 private:
  const std::shared_ptr<const JobRows> rows_;  // what shard_ reads
  KMeansShard shard_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<JobWork>> MakeKMeansWork(
    const CollectionSpec& spec, std::shared_ptr<const JobRows> rows,
    int64_t row_bytes) {
  std::vector<KMeansBlock> blocks;
  for (const JobSegment& segment : rows->segments()) {
    blocks.push_back(
        {segment.rows.rows, segment.rows.ids,
         segment.values.empty() ? nullptr : segment.values.front().data(),
         segment.rows.live});
  }
  auto kmeans_rows = KMeansRows::Create(spec.metric, spec.dimension, blocks);
  if (!kmeans_rows.ok()) return kmeans_rows.status();
  const int64_t bytes = row_bytes * kmeans_rows->size();
  return std::make_unique<KMeansWork>(
      std::move(rows), *std::move(kmeans_rows),
      KMeansShard::Options{.bound_bytes = bytes, .code_bytes = bytes});
}

}  // namespace coterie
