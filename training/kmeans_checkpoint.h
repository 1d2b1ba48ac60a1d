// A k-means job's options and checkpoint as bytes: what a coordinator leaves
// behind for the next one.
//
// Pure functions; any thread. The bytes carry a checksum.

#ifndef COTERIE_TRAINING_KMEANS_CHECKPOINT_H_
#define COTERIE_TRAINING_KMEANS_CHECKPOINT_H_

#include <concepts>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "training/byte_archive.h"
#include "training/kmeans_job.h"

namespace coterie {

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, KMeansOptions>
void Fields(Archive& archive, Self& o) {
  archive(o.metric, o.dimension, o.k, o.seed, o.seeding, o.given,
          o.oversampling, o.rounds, o.runs, o.max_iterations, o.tolerance,
          o.relative_tolerance, o.empty, o.algorithm, o.form, o.batch_rows,
          o.patience, o.reassignment_ratio, o.polish, o.polish_passes,
          o.measure, o.silhouette_rows);
}

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, KMeansProgress>
void Fields(Archive& archive, Self& p) {
  archive(p.run, p.iteration, p.objective, p.moved, p.shift_squared, p.empty,
          p.relocated, p.evaluated, p.skipped, p.bytes_down, p.bytes_up);
}

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, KMeansQuality>
void Fields(Archive& archive, Self& q) {
  archive(q.objectives, q.mean_radii, q.imbalance, q.calinski_harabasz,
          q.davies_bouldin, q.silhouette);
}

// Linear in the size of the checkpoint: mostly up to four sets of centres, with
// their sums.
std::string EncodeKMeansCheckpoint(const KMeansCheckpoint& checkpoint);
// DATA_LOSS for bytes that are damaged; INVALID_ARGUMENT for a checkpoint that
// no job produces.
absl::StatusOr<KMeansCheckpoint> DecodeKMeansCheckpoint(
    absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_CHECKPOINT_H_
