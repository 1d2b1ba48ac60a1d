#include "training/kmeans_checkpoint.h"

#include <cstdint>

#include "absl/status/status.h"
#include "training/kmeans_fixed_point.h"

namespace coterie {
namespace {

constexpr uint8_t kFormat = 1;

template <typename Self, typename Of>
concept Is = std::same_as<std::remove_const_t<Self>, Of>;

}  // namespace

template <typename Archive, typename Self>
requires Is<Self, KMeansExtent>
void Fields(Archive& archive, Self& e) {
  archive(e.rows, e.positive_rows, e.max_weight, e.weighted, e.checksum,
          e.max_product, e.max_value);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansScale>
void Fields(Archive& archive, Self& s) {
  archive(s.sum_exponents, s.weight_exponent, s.objective_exponent);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansCentres>
void Fields(Archive& archive, Self& c) {
  archive(c.rows, c.active, c.sums, c.weights, c.objective);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansBatchState>
void Fields(Archive& archive, Self& b) {
  archive(b.number, b.counts, b.reassign, b.rows_since, b.average, b.least,
          b.averaged, b.worse, b.epoch_objective, b.epoch_rows, b.evaluated);
}

template <typename Archive, typename Self>
requires Is<Self, KMeansCheckpoint>
void Fields(Archive& archive, Self& c) {
  archive(c.options, c.phase, c.number, c.extent, c.scale, c.mean_variance,
          c.run, c.round, c.seeds, c.candidates, c.potential, c.iteration,
          c.stop, c.stop_requested, c.centres, c.assigned, c.relocated, c.fall,
          c.batch, c.unpolished, c.polished, c.best, c.best_run,
          c.best_iterations, c.best_stop, c.quality, c.progress);
}

std::string EncodeKMeansCheckpoint(const KMeansCheckpoint& checkpoint) {
  ByteWriter writer;
  writer(kFormat, checkpoint);
  return writer.Finish();
}

absl::StatusOr<KMeansCheckpoint> DecodeKMeansCheckpoint(
    absl::string_view bytes) {
  ByteParser parser(bytes);
  uint8_t format = 0;
  KMeansCheckpoint checkpoint;
  parser(format, checkpoint);
  if (format != kFormat) parser.Fail();
  absl::Status status = parser.Finish("k-means checkpoint");
  if (status.ok()) status = ValidateKMeansCheckpoint(checkpoint);
  if (!status.ok()) return status;
  return checkpoint;
}

}  // namespace coterie
