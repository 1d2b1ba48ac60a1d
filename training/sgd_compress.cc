#include "training/sgd_compress.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "training/draw.h"
#include "training/sgd_draw.h"

namespace coterie {
namespace {

using Run = std::pair<int64_t, int64_t>;

constexpr int32_t kMaxLevels = 32'767;
constexpr int32_t kMaxWorkers = 1 << 20;

template <typename T>
absl::Status Range(absl::string_view name, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " is ", value, "; must be in [", low, ", ", high, "]"));
}

SgdBlocks BlocksOf(const SgdTask& task) {
  return {SgdParameters(task.model), task.blocks};
}

int64_t CountOf(const std::vector<Run>& runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.second - run.first;
  return count;
}

std::vector<Run> RunsOf(const SgdTask& task,
                        const std::vector<int64_t>& blocks) {
  const SgdBlocks layout = BlocksOf(task);
  std::vector<Run> runs;
  runs.reserve(blocks.size());
  for (int64_t b : blocks) runs.emplace_back(layout.begin(b), layout.end(b));
  return runs;
}

bool SendsWhole(const SgdTask& task, int64_t step, int32_t worker) {
  const uint64_t hash = SgdHash(
      SgdDraw::kWhole,
      {task.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(worker)});
  return UniformOf(hash) < task.send_probability;
}

// x to a multiple of 2^(its exponent - bits), at least 2^lowest, ties to even.
double RoundTo(double x, int bits, int lowest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x) - bits, lowest);
  return std::ldexp(std::nearbyint(std::ldexp(x, -exponent)), exponent);
}

absl::Status TooLarge(double value, absl::string_view format) {
  return absl::OutOfRangeError(
      absl::StrCat("value ", value, " does not fit into ", format));
}

absl::StatusOr<double> ToWire(const SgdTask& task, double value) {
  if (task.float64) return value;
  const double rounded = static_cast<double>(static_cast<float>(value));
  if (!std::isfinite(rounded)) return TooLarge(value, "float32");
  return rounded;
}

absl::Status AddWire(const SgdTask& task, double value, SgdPayload& payload) {
  absl::StatusOr<double> wire = ToWire(task, value);
  if (!wire.ok()) return wire.status();
  payload.values.push_back(*wire);
  return absl::OkStatus();
}

absl::StatusOr<SgdPayload> CompressTopK(const SgdTask& task,
                                        absl::Span<const double> v) {
  std::vector<uint32_t> order(v.size());
  for (size_t j = 0; j < v.size(); ++j) order[j] = static_cast<uint32_t>(j);
  const auto kept = order.begin() + task.top_k;
  // Total: by size, then by index.
  std::nth_element(order.begin(), kept - 1, order.end(),
                   [v](uint32_t a, uint32_t b) {
                     const double x = std::abs(v[a]), y = std::abs(v[b]);
                     return x != y ? x > y : a < b;
                   });
  order.erase(kept, order.end());
  std::sort(order.begin(), order.end());
  SgdPayload payload;
  payload.indices = order;
  for (uint32_t j : order) {
    if (absl::Status s = AddWire(task, v[j], payload); !s.ok()) return s;
  }
  return payload;
}

absl::StatusOr<SgdPayload> CompressQsgd(const SgdTask& task, int64_t step,
                                        int32_t worker,
                                        absl::Span<const double> v) {
  double largest = 0;
  for (double x : v) largest = std::max(largest, std::abs(x));
  SgdPayload payload;
  payload.values.resize(v.size());
  payload.scale = 0;
  if (largest == 0) return payload;
  double squares = 0;
  for (double x : v) squares += (x / largest) * (x / largest);
  // At least the largest value, so that no level is above `levels`.
  payload.scale = std::max(largest * std::sqrt(squares), largest);
  if (!std::isfinite(payload.scale)) return TooLarge(largest, "a norm");
  const uint64_t key = SgdHash(
      SgdDraw::kDither,
      {task.seed, static_cast<uint64_t>(step), static_cast<uint64_t>(worker)});
  for (size_t j = 0; j < v.size(); ++j) {
    const double at = std::abs(v[j]) / payload.scale * task.levels;
    const double u =
        UniformOf(SgdHash(SgdDraw::kDither, {key, static_cast<uint64_t>(j)}));
    const double level = std::floor(at) + (at - std::floor(at) > u ? 1 : 0);
    payload.values[j] = v[j] < 0 ? 0 - level : level;
  }
  return payload;
}

absl::StatusOr<SgdPayload> CompressFp16(absl::Span<const double> v) {
  double largest = 0;
  for (double x : v) largest = std::max(largest, std::abs(x));
  SgdPayload payload;
  payload.values.resize(v.size());
  if (largest == 0) return payload;
  // The largest is in [1, 2): 2^14 more above, 2^24 below.
  const int exponent = std::max(std::ilogb(largest), -1000);
  payload.scale = std::ldexp(1.0, exponent);
  for (size_t j = 0; j < v.size(); ++j) {
    payload.values[j] = RoundToFloat16(v[j] / payload.scale);
  }
  return payload;
}

absl::StatusOr<SgdPayload> CompressBf16(absl::Span<const double> v) {
  SgdPayload payload;
  payload.values.reserve(v.size());
  for (double x : v) {
    payload.values.push_back(RoundToBfloat16(x));
    if (!std::isfinite(payload.values.back())) return TooLarge(x, "bfloat16");
  }
  return payload;
}

absl::Status CheckValue(const SgdTask& task, double value) {
  bool fits = std::isfinite(value);
  switch (task.compressor) {
    case SgdCompressor::kQsgd:
      fits = fits && value == std::nearbyint(value) &&
             std::abs(value) <= task.levels;
      break;
    case SgdCompressor::kFp16:
      fits = fits && RoundToFloat16(value) == value;
      break;
    case SgdCompressor::kBf16:
      fits = fits && RoundToBfloat16(value) == value;
      break;
    default:
      fits = fits && (task.float64 ||
                      static_cast<double>(static_cast<float>(value)) == value);
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("value ", value, " is not one of its format"));
}

}  // namespace

absl::Status ValidateSgdTask(const SgdTask& task) {
  if (absl::Status s = ValidateSgdModel(task.model); !s.ok()) return s;
  const int64_t d = SgdParameters(task.model);
  const auto known = [](auto value, auto last) {
    return value >= static_cast<decltype(value)>(1) && value <= last;
  };
  if (!known(task.estimator, SgdEstimator::kSagaShared) ||
      !known(task.compressor, SgdCompressor::kBf16) ||
      !known(task.feedback, SgdFeedback::kEf21) ||
      !known(task.sampling, SgdSampling::kIndependent)) {
    return absl::InvalidArgumentError(
        "estimator, compressor, feedback or sampling is not known");
  }
  for (const absl::Status& s :
       {Range("num_workers", task.workers, 1, kMaxWorkers),
        Range<int64_t>("blocks", task.blocks, 1, d),
        Range<int64_t>("blocks sent", task.blocks_sent, 1, task.blocks),
        Range<int64_t>("top_k", task.top_k, 1, d),
        Range("levels", task.levels, 1, kMaxLevels)}) {
    if (!s.ok()) return s;
  }
  if (!(task.send_probability > 0 && task.send_probability <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "send probability is ", task.send_probability, "; must be in (0, 1]"));
  }
  if (!(task.held_out >= 0 && task.held_out < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "held-out share is ", task.held_out, "; must be in [0, 1)"));
  }
  return absl::OkStatus();
}

SgdCompression SgdCompressionOf(const SgdTask& task) {
  const double d = static_cast<double>(SgdParameters(task.model));
  SgdCompression c;
  const auto masked = [&c](double share) {
    c.unbiased = true;
    c.share = share;
    c.omega = 1 / share - 1;
    c.scale = 1 / share;
    c.delta = share;
  };
  switch (task.compressor) {
    case SgdCompressor::kNone:
      masked(1);
      break;
    case SgdCompressor::kRandomBlock:
      masked(static_cast<double>(task.blocks_sent) /
             static_cast<double>(task.blocks));
      break;
    case SgdCompressor::kPermBlock:
      masked(1.0 / task.workers);
      break;
    case SgdCompressor::kWholeOrNothing:
      masked(task.send_probability);
      break;
    case SgdCompressor::kTopK:
      c.share = c.delta = static_cast<double>(task.top_k) / d;
      break;
    case SgdCompressor::kQsgd:
      c.unbiased = true;
      c.omega =
          std::min(d / task.levels / task.levels, std::sqrt(d) / task.levels);
      break;
    case SgdCompressor::kFp16:
      // Subnormal values of small components: |error| <= 2^-25 |v| each.
      c.delta = 1 - 0x1p-22 - d * 0x1p-50;
      break;
    case SgdCompressor::kBf16:
      c.delta = 1 - 0x1p-16;
      break;
  }
  return c;
}

std::vector<Run> SgdMask(const SgdTask& task, int64_t step, int32_t worker) {
  switch (task.compressor) {
    case SgdCompressor::kRandomBlock:
      return RunsOf(task, DrawSgdBlocks(task.seed, step, worker, task.blocks,
                                        task.blocks_sent));
    case SgdCompressor::kPermBlock:
      return RunsOf(task, DealSgdBlocks(task.seed, step, worker, task.workers,
                                        task.blocks));
    case SgdCompressor::kWholeOrNothing:
      if (!SendsWhole(task, step, worker)) return {};
      break;
    default:
      break;
  }
  return {{0, SgdParameters(task.model)}};
}

absl::StatusOr<SgdPayload> CompressSgd(const SgdTask& task, int64_t step,
                                       int32_t worker,
                                       absl::Span<const double> v) {
  switch (task.compressor) {
    case SgdCompressor::kTopK:
      return CompressTopK(task, v);
    case SgdCompressor::kQsgd:
      return CompressQsgd(task, step, worker, v);
    case SgdCompressor::kFp16:
      return CompressFp16(v);
    case SgdCompressor::kBf16:
      return CompressBf16(v);
    default:
      break;
  }
  SgdPayload payload;
  for (const Run& run : SgdMask(task, step, worker)) {
    for (int64_t j = run.first; j < run.second; ++j) {
      absl::Status s = AddWire(task, v[static_cast<size_t>(j)], payload);
      if (!s.ok()) return s;
    }
  }
  return payload;
}

void AddSgdPayload(const SgdTask& task, int64_t step, int32_t worker,
                   const SgdPayload& payload, double factor,
                   absl::Span<double> out) {
  if (task.compressor == SgdCompressor::kTopK) {
    for (size_t i = 0; i < payload.indices.size(); ++i) {
      out[payload.indices[i]] += factor * payload.values[i];
    }
    return;
  }
  if (task.compressor == SgdCompressor::kQsgd) {
    factor *= payload.scale / task.levels;
  } else if (task.compressor == SgdCompressor::kFp16) {
    factor *= payload.scale;
  }
  size_t i = 0;
  for (const Run& run : SgdMask(task, step, worker)) {
    for (int64_t j = run.first; j < run.second; ++j) {
      out[static_cast<size_t>(j)] += factor * payload.values[i++];
    }
  }
}

absl::Status CheckSgdPayload(const SgdTask& task, int64_t step, int32_t worker,
                             const SgdPayload& payload) {
  const bool top = task.compressor == SgdCompressor::kTopK;
  const int64_t expected =
      top ? task.top_k : CountOf(SgdMask(task, step, worker));
  const int64_t have = static_cast<int64_t>(payload.values.size());
  const size_t indices = top ? payload.values.size() : 0;
  if (have != expected || payload.indices.size() != indices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "payload has ", have, " values and ", payload.indices.size(),
        " indices; must have ", expected, " values"));
  }
  for (size_t i = 0; i < payload.indices.size(); ++i) {
    if (payload.indices[i] >= SgdParameters(task.model) ||
        (i > 0 && payload.indices[i] <= payload.indices[i - 1])) {
      return absl::InvalidArgumentError(
          absl::StrCat("index ", payload.indices[i], " at ", i,
                       " is out of range or order"));
    }
  }
  if (!std::isfinite(payload.scale) || payload.scale < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale is ", payload.scale, "; must be finite and >= 0"));
  }
  for (double value : payload.values) {
    if (absl::Status s = CheckValue(task, value); !s.ok()) return s;
  }
  return absl::OkStatus();
}

double RoundToFloat16(double x) {
  const double rounded = RoundTo(x, 10, -24);
  return std::abs(rounded) <= 65504
             ? rounded
             : std::copysign(std::numeric_limits<double>::infinity(), x);
}

double RoundToBfloat16(double x) {
  const double rounded = RoundTo(x, 7, -133);
  return std::abs(rounded) <= 0x1.fep127
             ? rounded
             : std::copysign(std::numeric_limits<double>::infinity(), x);
}

}  // namespace coterie
