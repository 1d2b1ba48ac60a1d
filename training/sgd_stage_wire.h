// Bytes of what a stage is to do and of its answer. For training/sgd_codec.cc.
//
// Pure functions; any thread.

#ifndef COTERIE_TRAINING_SGD_STAGE_WIRE_H_
#define COTERIE_TRAINING_SGD_STAGE_WIRE_H_

#include "absl/status/status.h"
#include "training/sgd_messages.h"
#include "training/sgd_wire.h"

namespace coterie::internal_sgd {

void WriteSgdStage(const SgdStageOrder& order, Out& out);
void WriteSgdStage(const SgdStageAnswer& answer, Out& out);

// INVALID_ARGUMENT naming what is wrong.
absl::Status ReadSgdStage(In& in, SgdStageOrder& order);
absl::Status ReadSgdStage(In& in, SgdStageAnswer& answer);

}  // namespace coterie::internal_sgd

#endif  // COTERIE_TRAINING_SGD_STAGE_WIRE_H_
