#include "training/sgd_codec.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "training/sgd_compress.h"
#include "training/sgd_stage_wire.h"
#include "training/sgd_wire.h"

namespace coterie {
namespace {

constexpr uint8_t kStepMark = 0xa1;
constexpr uint8_t kPartialMark = 0xa2;

using internal_sgd::In;
using internal_sgd::kBfloat16;
using internal_sgd::kFloat16;
using internal_sgd::Out;
using internal_sgd::ReadSgdStage;
using internal_sgd::WriteSgdStage;

int BitsOf(int32_t levels) {
  return std::bit_width(static_cast<uint32_t>(2 * levels));
}

void WriteLevels(const SgdTask& task, const std::vector<double>& values,
                 Out& out) {
  const int bits = BitsOf(task.levels);
  uint64_t pending = 0;
  int filled = 0;
  for (double value : values) {
    const int64_t code = static_cast<int64_t>(value) + task.levels;
    pending |= static_cast<uint64_t>(code) << filled;
    for (filled += bits; filled >= 8; filled -= 8, pending >>= 8) {
      out.Byte(static_cast<uint8_t>(pending));
    }
  }
  if (filled > 0) out.Byte(static_cast<uint8_t>(pending));
}

std::vector<double> ReadLevels(const SgdTask& task, int64_t count, In& in) {
  const int bits = BitsOf(task.levels);
  std::vector<double> values;
  if (static_cast<uint64_t>(count) > 8 * static_cast<uint64_t>(in.left())) {
    in.Fail();
    return values;
  }
  values.reserve(static_cast<size_t>(count));
  uint64_t pending = 0;
  int filled = 0;
  while (static_cast<int64_t>(values.size()) < count && in.ok()) {
    for (; filled < bits; filled += 8) {
      pending |= static_cast<uint64_t>(in.Byte()) << filled;
    }
    const uint64_t code = pending & ((uint64_t{1} << bits) - 1);
    values.push_back(static_cast<double>(code) - task.levels);
    pending >>= bits;
    filled -= bits;
  }
  if (pending != 0) in.Fail();  // padding
  return values;
}

void WritePayload(const SgdTask& task, const SgdPayload& payload, Out& out) {
  switch (task.compressor) {
    case SgdCompressor::kQsgd:
      out.Double(payload.scale);
      WriteLevels(task, payload.values, out);
      return;
    case SgdCompressor::kFp16:
      out.Double(payload.scale);
      [[fallthrough]];
    case SgdCompressor::kBf16:
      for (double value : payload.values) {
        const uint16_t bits =
            (task.compressor == SgdCompressor::kFp16 ? kFloat16 : kBfloat16)
                .Pack(value);
        out.Raw(&bits, sizeof(bits));
      }
      return;
    case SgdCompressor::kTopK:
      out.Raw(payload.indices.data(), payload.indices.size() * 4);
      [[fallthrough]];
    default:
      out.Values(payload.values, task.float64);
  }
}

int64_t ValuesOf(const SgdTask& task, int64_t round, int32_t worker) {
  if (task.compressor == SgdCompressor::kTopK) return task.top_k;
  int64_t count = 0;
  for (const auto& run : SgdMask(task, round, worker)) {
    count += run.second - run.first;
  }
  return count;
}

SgdPayload ReadPayload(const SgdTask& task, int64_t round, int32_t worker,
                       In& in) {
  SgdPayload payload;
  const int64_t count = ValuesOf(task, round, worker);
  switch (task.compressor) {
    case SgdCompressor::kQsgd:
      payload.scale = in.Double();
      payload.values = ReadLevels(task, count, in);
      return payload;
    case SgdCompressor::kFp16:
      payload.scale = in.Double();
      [[fallthrough]];
    case SgdCompressor::kBf16: {
      const char* at = in.Take(2 * static_cast<size_t>(count));
      for (int64_t i = 0; at != nullptr && i < count; ++i) {
        uint16_t bits = 0;
        std::memcpy(&bits, at + 2 * i, 2);
        payload.values.push_back(
            (task.compressor == SgdCompressor::kFp16 ? kFloat16 : kBfloat16)
                .Unpack(bits));
      }
      return payload;
    }
    case SgdCompressor::kTopK: {
      const char* at = in.Take(4 * static_cast<size_t>(count));
      if (at == nullptr) return payload;
      payload.indices.resize(static_cast<size_t>(count));
      std::memcpy(payload.indices.data(), at, 4 * payload.indices.size());
      break;
    }
    default:
      break;
  }
  payload.values = in.Values(count, task.float64);
  return payload;
}

void WriteTask(const SgdTask& task, Out& out) {
  out.Byte(static_cast<uint8_t>(task.model.kind));
  out.Varint(task.model.dimension);
  out.Varint(task.model.classes);
  out.Varint(task.model.hidden);
  out.Byte(task.model.intercept ? 1 : 0);
  out.Double(task.model.l2);
  out.Double(task.model.l1);
  out.Varint(task.seed);
  out.Varint(int64_t{task.workers});
  out.Byte(static_cast<uint8_t>(task.estimator));
  out.Byte(static_cast<uint8_t>(task.compressor));
  out.Byte(static_cast<uint8_t>(task.feedback));
  out.Byte(static_cast<uint8_t>(task.sampling));
  out.Varint(task.blocks);
  out.Varint(task.blocks_sent);
  out.Double(task.send_probability);
  out.Varint(task.top_k);
  out.Varint(int64_t{task.levels});
  out.Double(task.held_out);
}

SgdTask ReadTask(In& in) {
  SgdTask task;
  task.model.kind = static_cast<SgdModelKind>(in.Byte());
  task.model.dimension = in.Count();
  task.model.classes = in.Count();
  task.model.hidden = in.Count();
  task.model.intercept = in.Flag();
  task.model.l2 = in.Double();
  task.model.l1 = in.Double();
  task.seed = in.Unsigned();
  task.workers = in.Small();
  task.estimator = static_cast<SgdEstimator>(in.Byte());
  task.compressor = static_cast<SgdCompressor>(in.Byte());
  task.feedback = static_cast<SgdFeedback>(in.Byte());
  task.sampling = static_cast<SgdSampling>(in.Byte());
  task.blocks = in.Count();
  task.blocks_sent = in.Count();
  task.send_probability = in.Double();
  task.top_k = in.Count();
  task.levels = in.Small();
  task.held_out = in.Double();
  return task;
}

void WriteStep(const SgdTask& task, const SgdStep& step, Out& out) {
  out.Byte(kStepMark);
  out.Byte(static_cast<uint8_t>(step.kind));
  out.Byte(task.float64 ? 1 : 0);
  out.Varint(step.number);
  out.Varint(step.version);
  out.Varint(step.round);
  out.Varint(step.base);
  out.Varint(step.epoch_steps);
  out.Double(step.row_probability);
  out.Byte(step.refresh ? 1 : 0);
  if (step.kind == SgdStepKind::kStart) {
    WriteTask(step.task, out);
    out.Varint(static_cast<uint64_t>(step.shifts.size()));
    for (const SgdShift& shift : step.shifts) {
      out.Varint(int64_t{shift.worker});
      // What the shard has is not rounded to the wire's width.
      out.Values(shift.values, true);
    }
    return;
  }
  if (step.kind == SgdStepKind::kStage) return WriteSgdStage(step.stage, out);
  out.Varint(static_cast<uint64_t>(step.parameters.size()));
  out.Values(step.parameters, task.float64);
}

void WritePartial(const SgdTask& job, const SgdPartial& partial, Out& out) {
  SgdTask task = job;
  if (partial.refresh) task.compressor = SgdCompressor::kNone;
  out.Byte(kPartialMark);
  out.Byte(static_cast<uint8_t>(partial.kind));
  out.Byte(
      static_cast<uint8_t>((partial.lost ? 1 : 0) + (partial.refresh ? 2 : 0)));
  out.Varint(partial.number);
  out.Varint(partial.round);
  if (partial.kind == SgdStepKind::kStart) {
    out.Varint(static_cast<uint64_t>(partial.extents.size()));
    for (const SgdWorkerRows& extent : partial.extents) {
      out.Varint(int64_t{extent.worker});
      out.Varint(extent.rows);
    }
    out.Double(partial.max_squared_norm);
    out.Varint(partial.held_out);
    out.Varint(partial.checksum);
    out.Double(partial.least_label);
    out.Double(partial.most_label);
    return;
  }
  out.Double(partial.loss);
  out.Varint(partial.rows);
  if (partial.kind != SgdStepKind::kGradient) {
    out.Varint(partial.correct);
    if (partial.kind == SgdStepKind::kStage) WriteSgdStage(partial.stage, out);
    return;
  }
  out.Varint(static_cast<uint64_t>(partial.contributions.size()));
  for (const SgdContribution& c : partial.contributions) {
    out.Varint(int64_t{c.worker});
    out.Varint(c.rows);
    WritePayload(task, c.payload, out);
  }
}

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("SGD message: ", what));
}

template <typename Message>
absl::StatusOr<Message> Ended(const In& in, Message message) {
  if (!in.ok()) return Bad("too short, or a number out of range");
  if (in.left() > 0) return Bad(absl::StrCat(in.left(), " bytes too many"));
  return message;
}

bool KnownKind(SgdStepKind kind) {
  return kind >= SgdStepKind::kStart && kind <= SgdStepKind::kStage;
}

absl::Status ReadShifts(In& in, SgdStep& step) {
  const int64_t d = SgdParameters(step.task.model);
  const int64_t count = in.Count();
  for (int64_t i = 0; i < count && in.ok(); ++i) {
    SgdShift shift;
    shift.worker = in.Small();
    shift.values = in.Values(d, true);
    if (shift.worker >= step.task.workers ||
        (i > 0 && shift.worker <= step.shifts.back().worker)) {
      return Bad(absl::StrCat("shift of worker ", shift.worker));
    }
    if (FindNonFinite(shift.values) >= 0) return Bad("a shift is not finite");
    step.shifts.push_back(std::move(shift));
  }
  return absl::OkStatus();
}

absl::Status ReadExtents(const SgdTask& task, In& in, SgdPartial& partial) {
  const int64_t count = in.Count();
  for (int64_t i = 0; i < count && in.ok(); ++i) {
    const int32_t worker = in.Small();
    const int64_t rows = in.Count();
    if (worker >= task.workers || rows < 1 ||
        (i > 0 && worker <= partial.extents.back().worker)) {
      return Bad(absl::StrCat("extent of worker ", worker));
    }
    partial.extents.push_back({worker, rows});
  }
  partial.max_squared_norm = in.Double();
  partial.held_out = in.Count();
  partial.checksum = in.Unsigned();
  partial.least_label = in.Double();
  partial.most_label = in.Double();
  if (!(std::isfinite(partial.max_squared_norm) &&
        partial.max_squared_norm >= 0)) {
    return Bad("the largest norm is out of range");
  }
  if (!std::isfinite(partial.least_label) ||
      !(partial.least_label <= partial.most_label) ||
      !std::isfinite(partial.most_label)) {
    return Bad("labels are out of range");
  }
  return absl::OkStatus();
}

absl::Status ReadContributions(const SgdTask& task, In& in,
                               SgdPartial& partial) {
  const int64_t count = in.Count();
  for (int64_t i = 0; i < count && in.ok(); ++i) {
    SgdContribution c;
    c.worker = in.Small();
    if (!in.ok() || c.worker >= task.workers ||
        (i > 0 && c.worker <= partial.contributions.back().worker)) {
      return Bad(absl::StrCat("contribution of worker ", c.worker));
    }
    c.rows = in.Count();
    c.payload = ReadPayload(task, partial.round, c.worker, in);
    if (!in.ok()) break;
    absl::Status s = CheckSgdPayload(task, partial.round, c.worker, c.payload);
    if (!s.ok()) return Bad(s.message());
    partial.contributions.push_back(std::move(c));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeSgdStep(const SgdTask& task, const SgdStep& step) {
  std::string bytes;
  Out out(&bytes);
  WriteStep(task, step, out);
  return bytes;
}

std::string EncodeSgdPartial(const SgdTask& task, const SgdPartial& partial) {
  std::string bytes;
  Out out(&bytes);
  WritePartial(task, partial, out);
  return bytes;
}

int64_t SgdStepBytes(const SgdTask& task, const SgdStep& step) {
  Out out(nullptr);
  WriteStep(task, step, out);
  return out.size();
}

int64_t SgdPartialBytes(const SgdTask& task, const SgdPartial& partial) {
  Out out(nullptr);
  WritePartial(task, partial, out);
  return out.size();
}

absl::StatusOr<SgdStep> DecodeSgdStep(absl::string_view bytes) {
  In in(bytes);
  SgdStep step;
  if (in.Byte() != kStepMark) return Bad("not a step");
  step.kind = static_cast<SgdStepKind>(in.Byte());
  const bool float64 = in.Flag();
  step.number = in.Count();
  step.version = in.Count();
  step.round = in.Count();
  step.base = in.Count();
  step.epoch_steps = in.Count();
  step.row_probability = in.Double();
  step.refresh = in.Flag();
  if (!in.ok() || !KnownKind(step.kind)) return Bad("header");
  if (step.epoch_steps < 1 ||
      !(step.row_probability > 0 && step.row_probability <= 1)) {
    return Bad("share of rows out of range");
  }
  if (step.kind == SgdStepKind::kStart) {
    step.task = ReadTask(in);
    step.task.float64 = float64;
    if (!in.ok()) return Bad("task");
    if (absl::Status s = ValidateSgdTask(step.task); !s.ok()) {
      return Bad(s.message());
    }
    if (absl::Status s = ReadShifts(in, step); !s.ok()) return s;
    return Ended(in, std::move(step));
  }
  if (step.kind == SgdStepKind::kStage) {
    absl::Status s = ReadSgdStage(in, step.stage);
    return s.ok() ? Ended(in, std::move(step)) : Bad(s.message());
  }
  step.parameters = in.Values(in.Count(), float64);
  if (FindNonFinite(step.parameters) >= 0)
    return Bad("a parameter is not finite");
  return Ended(in, std::move(step));
}

absl::StatusOr<SgdPartial> DecodeSgdPartial(const SgdTask& job,
                                            absl::string_view bytes) {
  In in(bytes);
  SgdPartial partial;
  if (in.Byte() != kPartialMark) return Bad("not a partial");
  partial.kind = static_cast<SgdStepKind>(in.Byte());
  const uint8_t flags = in.Byte();
  partial.lost = (flags & 1) != 0;
  partial.refresh = (flags & 2) != 0;
  partial.number = in.Count();
  partial.round = in.Count();
  if (!in.ok() || !KnownKind(partial.kind) || flags > 3) return Bad("header");
  SgdTask task = job;
  if (partial.refresh) task.compressor = SgdCompressor::kNone;
  if (partial.kind == SgdStepKind::kStart) {
    if (absl::Status s = ReadExtents(task, in, partial); !s.ok()) return s;
    return Ended(in, std::move(partial));
  }
  partial.loss = in.Double();
  partial.rows = in.Count();
  if (!std::isfinite(partial.loss)) return Bad("the loss is not finite");
  if (partial.kind != SgdStepKind::kGradient) {
    partial.correct = in.Count();
    if (partial.correct > partial.rows) return Bad("more right than rows");
    if (partial.kind == SgdStepKind::kStage) {
      absl::Status s = ReadSgdStage(in, partial.stage);
      if (!s.ok()) return Bad(s.message());
    }
  } else if (absl::Status s = ReadContributions(task, in, partial); !s.ok()) {
    return s;
  }
  return Ended(in, std::move(partial));
}

}  // namespace coterie
