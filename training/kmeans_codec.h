// Steps and partials of k-means as flat little-endian bytes, and their exact
// sizes.
//
// Pure functions; any thread. A header of fixed size, then arrays: float32 and
// int64 values as they are, flags as bits. Decoding checks everything that
// lengths and enumerations can say, allocates no more than a small multiple of
// the input, and accepts exactly what encoding writes.

#ifndef COTERIE_TRAINING_KMEANS_CODEC_H_
#define COTERIE_TRAINING_KMEANS_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "training/kmeans_messages.h"

namespace coterie {

inline constexpr int64_t kKMeansStepHeaderBytes = 136;
inline constexpr int64_t kKMeansPartialHeaderBytes = 128;

// Size of the encoded form. For an assignment, header aside:
//   step     4 k d
//   partial  8 k (d + 1) under kInt64, 4 k (d + 1) under kFloat32
// (training/cost_model.h), plus k bits for `touched` and `active` where given.
// The rows of a batch's step take 2 bytes a value if all have 16 bits, the sums
// of its partial 4 if all fit.
int64_t KMeansStepBytes(const KMeansStep& step);
int64_t KMeansPartialBytes(const KMeansPartial& partial);

std::string EncodeKMeansStep(const KMeansStep& step);
std::string EncodeKMeansPartial(const KMeansPartial& partial);

// INVALID_ARGUMENT naming what is wrong and where.
absl::StatusOr<KMeansStep> DecodeKMeansStep(absl::string_view bytes);
absl::StatusOr<KMeansPartial> DecodeKMeansPartial(absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_TRAINING_KMEANS_CODEC_H_
