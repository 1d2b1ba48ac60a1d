// Fuzz target: messages of SGD and its stages out of any bytes. What decodes
// must encode to the same bytes, in as many as were foretold.
//
// Input: one byte that chooses a task, then a message. Partials belong to the
// task; steps have their own.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "training/sgd_codec.h"
#include "training/sgd_compress.h"
#include "training/sgd_pipeline.h"

namespace coterie {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

SgdTask TaskOf(uint8_t byte) {
  SgdTask task;
  task.model.kind = SgdModelKind::kLinear;
  task.model.dimension = 11;
  task.workers = 3;
  task.compressor = static_cast<SgdCompressor>(1 + byte % 8);
  task.blocks = 4;
  task.blocks_sent = 2;
  task.send_probability = 0.5;
  task.top_k = 3;
  task.levels = 1 + byte / 16;
  task.float64 = (byte & 8) != 0;
  return task;
}

void RunStages(absl::string_view bytes) {
  SgdModel model;
  model.kind = SgdModelKind::kMlp;
  model.dimension = 4;
  model.hidden = 2;
  model.classes = 3;
  if (const auto sent = DecodeSgdActivations(model, bytes); sent.ok()) {
    Check(EncodeSgdActivations(*sent) == bytes);
    Check(sent->values.size() == 2 * sent->labels.size());
  }
  if (const auto back = DecodeSgdActivationGradients(model, bytes); back.ok()) {
    Check(EncodeSgdActivationGradients(*back) == bytes);
  }
}

void Run(const uint8_t* data, size_t size) {
  if (size < 1) return;
  const SgdTask task = TaskOf(data[0]);
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                                size - 1);
  RunStages(bytes);
  if (const auto partial = DecodeSgdPartial(task, bytes); partial.ok()) {
    Check(EncodeSgdPartial(task, *partial) == bytes);
    Check(SgdPartialBytes(task, *partial) ==
          static_cast<int64_t>(bytes.size()));
  }
  if (const auto step = DecodeSgdStep(bytes); step.ok()) {
    SgdTask of_step = task;
    // Only the first step has the task in it; the width is in all of them.
    of_step.float64 =
        step->kind == SgdStepKind::kStart ? step->task.float64 : bytes[2] != 0;
    Check(EncodeSgdStep(of_step, *step) == bytes);
    Check(SgdStepBytes(of_step, *step) == static_cast<int64_t>(bytes.size()));
  }
}

}  // namespace
}  // namespace coterie

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  coterie::Run(data, size);
  return 0;
}
