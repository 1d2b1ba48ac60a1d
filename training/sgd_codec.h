// SGD messages as bytes, with exact sizes. Little-endian; integers as
// varints, values in the width of their format: float32 or float64, 2 bytes
// for kFp16 and kBf16, ceil(log2(2 levels + 1)) bits for kQsgd. A contribution
// has a worker, a number of rows, and values: no block ids, since the receiver
// draws them again. Pure functions; any thread.
//
// Overhead for d parameters: at most 64 bytes a step and 48 a partial (the
// first: 64); a contribution at most 10 (2 to 4 for few workers with few rows),
// 8 more for the scale of kQsgd and kFp16 and 4 an index for kTopK. A step of a
// stage has at most 96 bytes beside its message and values, its answer 64.
//
// Decoding validates everything that can be judged without the rows: it returns
// INVALID_ARGUMENT naming what is wrong, never crashes, and allocates no more
// than a small multiple of its input. decode(encode(m)) is m.

#ifndef COTERIE_TRAINING_SGD_CODEC_H_
#define COTERIE_TRAINING_SGD_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "training/sgd_messages.h"

namespace coterie {

// `task` is the job's: what the values of a step are held in depends on it.
// REQUIRES: values fit their format, as those of SgdJob and SgdShard do.
std::string EncodeSgdStep(const SgdTask& task, const SgdStep& step);
std::string EncodeSgdPartial(const SgdTask& task, const SgdPartial& partial);

// Sizes of the above, without encoding. O(contributions).
int64_t SgdStepBytes(const SgdTask& task, const SgdStep& step);
int64_t SgdPartialBytes(const SgdTask& task, const SgdPartial& partial);

// The first step has the task in it.
absl::StatusOr<SgdStep> DecodeSgdStep(absl::string_view bytes);
absl::StatusOr<SgdPartial> DecodeSgdPartial(const SgdTask& task,
                                            absl::string_view bytes);

}  // namespace coterie

#endif  // COTERIE_TRAINING_SGD_CODEC_H_
