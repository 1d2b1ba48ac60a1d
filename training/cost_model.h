// What moving data costs: the latency-bandwidth model of a link, the bytes of
// each distributed operation, and the time of a step in a star of shards.
// All functions are pure and thread-safe.
//
// The model of a transfer of q messages with M bytes in total is
//
//   T = q * alpha + M / beta
//
// (Hockney, "The communication challenge for MPP", Parallel Computing 20,
// 1994), with alpha in seconds per message and beta in bytes per second. It is
// linear and knows no congestion, no flow-control windows and no contention
// between computing and copying; on one machine, where both use the same
// cores, it is a rough guide. training/link_fit.h learns alpha and beta from
// measured transfers.
//
// Sizes are payloads in bytes: field tags, lengths, HTTP/2 frames and headers
// are not in them. Every function is O(1) unless it takes a list.
//
// Errors, everywhere: INVALID_ARGUMENT naming the argument and its value when
// a count is negative or a time is negative or not finite; OUT_OF_RANGE naming
// the factors when a count does not fit into int64_t, or a time into double.
// Nothing wraps.

#ifndef COTERIE_TRAINING_COST_MODEL_H_
#define COTERIE_TRAINING_COST_MODEL_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace coterie {

// One direction-less link. The default is free, as calls within one process
// are taken to be.
struct LinkModel {
  // Per message, >= 0 and finite.
  double alpha_seconds = 0;
  // > 0. +infinity when bytes cost nothing that can be measured.
  double beta_bytes_per_second = std::numeric_limits<double>::infinity();
};

// INVALID_ARGUMENT naming the parameter that is out of its range.
absl::Status ValidateLinkModel(const LinkModel& link);

// Seconds for `messages` messages that carry `bytes` bytes in total; 0 for
// none. Relative rounding error at most 3 * 2^-53, plus that of converting a
// count above 2^53.
absl::StatusOr<double> TransferSeconds(const LinkModel& link, int64_t messages,
                                       int64_t bytes);

// --- Payloads ---------------------------------------------------------------

// One shard's k-means statistics: k sums of d values and k counts, all of
// `bytes_per_value`: k (d + 1) b. The objective and counts travel beside them
// in a header of fixed size (training/kmeans_codec.h) and are not included.
absl::StatusOr<int64_t> KMeansUplinkBytes(int64_t k, int64_t dimension,
                                          int64_t bytes_per_value);

// The centroids sent to one shard: k d b.
absl::StatusOr<int64_t> KMeansDownlinkBytes(int64_t k, int64_t dimension,
                                            int64_t bytes_per_value);

// A dense gradient, or the parameters themselves.
absl::StatusOr<int64_t> SgdGradientBytes(int64_t parameters,
                                         int64_t bytes_per_value);

// `blocks_sent` of `blocks` near-equal contiguous blocks of a gradient, each
// with its number in `bytes_per_block_id` (0 when both ends draw the blocks
// from the same seed). Blocks have at most ceil(parameters / blocks) values,
// and this charges every one sent with as many, but never more values than
// there are: exact when `blocks` divides `parameters`, else too high by less
// than one value per block sent.
// REQUIRES: 1 <= blocks <= parameters, blocks_sent <= blocks; else
// INVALID_ARGUMENT.
absl::StatusOr<int64_t> BlockSparsifiedBytes(int64_t parameters, int64_t blocks,
                                             int64_t blocks_sent,
                                             int64_t bytes_per_value,
                                             int64_t bytes_per_block_id);

// Activations of a batch across a cut `hidden` values wide, one way. The
// gradient that comes back has the same size, so a training step costs twice
// this in two messages. Independent of the number of parameters.
absl::StatusOr<int64_t> ActivationBytes(int64_t batch, int64_t hidden,
                                        int64_t bytes_per_value = 4);

// The candidates that a coordinator merges for one query: p k.
absl::StatusOr<int64_t> SearchCandidates(int64_t shards, int64_t k);

// A candidate's id (8) and distance (8).
inline constexpr int64_t kCandidateBytes = 16;

// The candidates' bytes for one query, all shards together.
absl::StatusOr<int64_t> SearchCandidateBytes(
    int64_t shards, int64_t k, int64_t bytes_per_candidate = kCandidateBytes);

// p workers with local batches of b examples: p b examples per update.
absl::StatusOr<int64_t> GlobalBatchSize(int64_t workers, int64_t local_batch);

// --- The star ---------------------------------------------------------------

// One round through the coordinator. Sent to each shard and received from it.
struct StarTraffic {
  int64_t messages = 0;  // 2 per shard
  int64_t bytes_down = 0;
  int64_t bytes_up = 0;
};

// Of `shards` equal shards: one message down and one up for each.
absl::StatusOr<StarTraffic> StarTotals(int64_t shards,
                                       int64_t down_bytes_per_shard,
                                       int64_t up_bytes_per_shard);

// One shard's part of a step: receive, compute, reply. Chunked streams count
// each chunk as a message.
struct ShardStep {
  LinkModel link;
  int64_t messages_down = 1;
  int64_t messages_up = 1;
  int64_t bytes_down = 0;
  int64_t bytes_up = 0;
  double compute_seconds = 0;
};

// How transfers to different shards share the coordinator. With T_i and C_i
// shard i's transfer and compute seconds:
enum class StarLinks : uint8_t {
  // Links do not disturb one another; the step lasts as long as its slowest
  // shard: max_i (T_i + C_i). A lower estimate: the coordinator's one network
  // card, core or lock is taken to be free.
  kOverlapped,
  // The coordinator moves one message at a time, shards compute at the same
  // time, and the three phases do not overlap: sum_i T_i + max_i C_i. An upper
  // estimate: waiting for one message is never used to send another.
  kSerial,
};

// Never lower for kSerial than for kOverlapped; a real step of a model that
// fits lies between them. What is not in it: merging at the coordinator,
// transfers hidden behind computing, queueing, and stragglers other than those
// in `compute_seconds`.
struct StepPrediction {
  int64_t messages = 0;
  int64_t bytes_down = 0;
  int64_t bytes_up = 0;
  double step_seconds = 0;
  // The slowest shard's work.
  double compute_seconds = 0;
  // step_seconds - compute_seconds: time at which not even the slowest shard
  // works. With kOverlapped it can be less than every T_i, because the slowest
  // to compute need not be the slowest to reach.
  double communication_seconds = 0;
  // ComputeToCommunicationRatio of the two above.
  double ratio = 0;
};

// INVALID_ARGUMENT also without shards. Errors name the shard's position.
// O(shards).
absl::StatusOr<StepPrediction> PredictStarStep(
    absl::Span<const ShardStep> shards, StarLinks links);

// --- Ratios -----------------------------------------------------------------

// R = T_compute / T_communication. Large: communication is easy to hide;
// small: more workers will not help. +infinity when communication takes no
// time, also when computing takes none either: then nothing is to be hidden;
// and when the quotient is too large for a double.
absl::StatusOr<double> ComputeToCommunicationRatio(
    double compute_seconds, double communication_seconds);

// T_communication / (T_compute + T_communication) = 1 / (1 + R), in [0, 1].
// 0 when both are 0.
absl::StatusOr<double> CommunicationFraction(double compute_seconds,
                                             double communication_seconds);

}  // namespace coterie

#endif  // COTERIE_TRAINING_COST_MODEL_H_
