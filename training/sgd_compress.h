// Compression of gradients and their differences. Pure functions with the same
// bits on every machine, drawing by hashes of (seed, step, worker); any thread.
//
// C is unbiased with omega if E C(v) = v and E |C(v) - v|^2 <= omega |v|^2; it
// is contractive with delta if E |C(v) - v|^2 <= (1 - delta) |v|^2. Payloads
// hold no more than was drawn: an unbiased C(v) is `scale` times what the
// payload expands to.

#ifndef COTERIE_TRAINING_SGD_COMPRESS_H_
#define COTERIE_TRAINING_SGD_COMPRESS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "training/sgd_messages.h"

namespace coterie {

// OK, or INVALID_ARGUMENT naming the field, its value and its range.
absl::Status ValidateSgdTask(const SgdTask& task);

struct SgdCompression {
  bool unbiased = false;
  double omega = 0;  // if unbiased
  double scale = 1;  // if unbiased: 1 / tau for blocks
  double delta = 0;  // of the payload itself, unscaled; 0: not contractive
  // Expected share of the d values that is sent, tau; 1 for kQsgd, kFp16 and
  // kBf16.
  double share = 1;
};

// REQUIRES: a valid task, here and below.
SgdCompression SgdCompressionOf(const SgdTask& task);

// Which parameters a payload speaks for, as ascending runs [begin, end), for
// every compressor but kTopK (which names them itself).
std::vector<std::pair<int64_t, int64_t>> SgdMask(const SgdTask& task,
                                                 int64_t step, int32_t worker);

// REQUIRES: v finite, with SgdParameters values.
// OUT_OF_RANGE when a value does not fit into the format. O(d), O(d) expected
// for kTopK.
absl::StatusOr<SgdPayload> CompressSgd(const SgdTask& task, int64_t step,
                                       int32_t worker,
                                       absl::Span<const double> v);

// out += factor * payload. O(values sent). REQUIRES: CheckSgdPayload is OK.
void AddSgdPayload(const SgdTask& task, int64_t step, int32_t worker,
                   const SgdPayload& payload, double factor,
                   absl::Span<double> out);

// INVALID_ARGUMENT naming what is wrong: counts that are not those of the
// draw, values that are not finite or not of the format, indices out of order.
absl::Status CheckSgdPayload(const SgdTask& task, int64_t step, int32_t worker,
                             const SgdPayload& payload);

// x rounded to what a value of kFp16, kBf16 holds, ties to even. Infinite where
// it does not fit.
double RoundToFloat16(double x);
double RoundToBfloat16(double x);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_COMPRESS_H_
