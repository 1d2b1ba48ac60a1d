// An SGD job's options and checkpoint as bytes: what a coordinator leaves
// behind for the next one.
//
// Pure functions; any thread. The bytes carry a checksum.

#ifndef COTERIE_TRAINING_SGD_CHECKPOINT_H_
#define COTERIE_TRAINING_SGD_CHECKPOINT_H_

#include <concepts>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "training/byte_archive.h"
#include "training/sgd_job.h"

namespace coterie {

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdModel>
void Fields(Archive& archive, Self& m) {
  archive(m.kind, m.dimension, m.classes, m.hidden, m.intercept, m.l2, m.l1);
}

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdOptions>
void Fields(Archive& archive, Self& o) {
  archive(o.model, o.seed, o.workers, o.batch, o.expected_global_batch,
          o.sampling, o.estimator, o.compressor, o.feedback, o.accelerated,
          o.strong_growth, o.block_fraction, o.blocks, o.top_k, o.levels,
          o.float64, o.mode, o.rule, o.backup, o.bound, o.buffer,
          o.max_staleness, o.schedule, o.step, o.decay, o.smoothness,
          o.strong_convexity, o.max_updates, o.target_loss, o.min_gradient,
          o.held_out, o.evaluate_every, o.refresh_every, o.micro_batches,
          o.back_copies, o.gather_every);
}

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdProgress>
void Fields(Archive& archive, Self& p) {
  archive(p.update, p.loss, p.squared_gradient, p.step, p.rows, p.bytes_down,
          p.bytes_up, p.seconds, p.held_out_loss, p.held_out_accuracy,
          p.measured_at);
}

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdShardAccount>
void Fields(Archive& archive, Self& a) {
  archive(a.accepted, a.late, a.dropped, a.rows, a.bytes_down, a.bytes_up,
          a.bytes_whole, a.bytes_forward, a.bytes_backward);
}

template <typename Archive, typename Self>
requires std::same_as<std::remove_const_t<Self>, SgdStaleness>
void Fields(Archive& archive, Self& s) { archive(s.p50, s.p95, s.max); }

// Linear in the size of the checkpoint: 8 d bytes for the parameters, and 8 d
// for each (worker, shard) whose estimate the job keeps.
std::string EncodeSgdCheckpoint(const SgdCheckpoint& checkpoint);
// DATA_LOSS for bytes that are damaged. What they say is judged by
// SgdJob::Resume.
absl::StatusOr<SgdCheckpoint> DecodeSgdCheckpoint(absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_CHECKPOINT_H_
