#include "training/sgd_stage_wire.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "training/sgd_model.h"

namespace coterie::internal_sgd {
namespace {

void WriteBytes(const std::string& bytes, Out& out) {
  out.Varint(static_cast<uint64_t>(bytes.size()));
  out.Raw(bytes.data(), bytes.size());
}

std::string ReadBytes(In& in) {
  const int64_t count = in.Count();
  if (static_cast<uint64_t>(count) > in.left()) {
    in.Fail();
    return "";
  }
  const char* at = in.Take(static_cast<size_t>(count));
  return at == nullptr ? "" : std::string(at, static_cast<size_t>(count));
}

// Parts of a model are never rounded.
void WriteParts(const std::vector<double>& front,
                const std::vector<double>& back, Out& out) {
  for (const std::vector<double>* part : {&front, &back}) {
    out.Varint(static_cast<uint64_t>(part->size()));
    out.Values(*part, true);
  }
}

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::Status Check(const SgdStageOrder& order) {
  if (order.task < SgdStageTask::kSet || order.task > SgdStageTask::kGather) {
    return Bad("what a stage is to do is not known");
  }
  if (order.micro_batches < 1 || order.micro >= order.micro_batches ||
      !std::isfinite(order.step_size)) {
    return Bad(absl::StrCat("micro-batch ", order.micro, " of ",
                            order.micro_batches, ", step ", order.step_size));
  }
  if (FindNonFinite(order.front) >= 0 || FindNonFinite(order.back) >= 0) {
    return Bad("a value of a stage is not finite");
  }
  return absl::OkStatus();
}

absl::Status Check(const SgdStageAnswer& answer) {
  if (FindNonFinite(answer.front) < 0 && FindNonFinite(answer.back) < 0) {
    return absl::OkStatus();
  }
  return Bad("a value of a stage is not finite");
}

}  // namespace

void WriteSgdStage(const SgdStageOrder& order, Out& out) {
  out.Byte(static_cast<uint8_t>(order.task));
  out.Varint(order.micro + 1);
  out.Varint(order.micro_batches);
  out.Varint(order.rows);
  out.Double(order.step_size);
  WriteBytes(order.message, out);
  WriteParts(order.front, order.back, out);
}

void WriteSgdStage(const SgdStageAnswer& answer, Out& out) {
  WriteBytes(answer.message, out);
  out.Varint(answer.batch_rows);
  WriteParts(answer.front, answer.back, out);
}

absl::Status ReadSgdStage(In& in, SgdStageOrder& order) {
  order.task = static_cast<SgdStageTask>(in.Byte());
  order.micro = in.Count() - 1;
  order.micro_batches = in.Count();
  order.rows = in.Count();
  order.step_size = in.Double();
  order.message = ReadBytes(in);
  order.front = in.Values(in.Count(), true);
  order.back = in.Values(in.Count(), true);
  return in.ok() ? Check(order) : Bad("stage");
}

absl::Status ReadSgdStage(In& in, SgdStageAnswer& answer) {
  answer.message = ReadBytes(in);
  answer.batch_rows = in.Count();
  answer.front = in.Values(in.Count(), true);
  answer.back = in.Values(in.Count(), true);
  return in.ok() ? Check(answer) : Bad("stage");
}

}  // namespace coterie::internal_sgd
