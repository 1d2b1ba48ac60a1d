// Codes of rows.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "index/code_simd.h"
#include "index/metric.h"
#include "index/simd.h"
#include "training/code_vector.h"
#include "training/coded_nearest.h"
#include "training/kmeans_rows.h"
#include "training/row_code_kernels.h"

namespace coterie {

using internal_nearest::Centre;
using internal_nearest::Coded;
using internal_nearest::CodeVector;
using internal_nearest::FloatAtLeast;
using internal_nearest::kCodeLanes;
using internal_nearest::MaxOf;

namespace {

constexpr int64_t kRowsForOffset = 4096;
constexpr float kLeastScale = 0x1p-100f;
// In units; squares of what is below are float32, with room for sums.
constexpr float kMostScale = 0x1p40f;

internal_nearest::CodeRowKernel ActiveCodeRow() {
  switch (ActiveSimdTarget()) {
    case SimdTarget::kAvx512:
      return internal_nearest::CodeRowAvx512;
    case SimdTarget::kAvx2:
      return internal_nearest::CodeRowAvx2;
    case SimdTarget::kScalar:
      break;
  }
  return internal_nearest::CodeRowSse;
}

int64_t QuadsOf(int64_t d) { return (d + 3) / 4; }

}  // namespace

int64_t RowCodes::MemoryBytes(int64_t n, int64_t d) {
  return n * (4 * QuadsOf(d) + static_cast<int64_t>(sizeof(Form)));
}

struct RowCodes::Scratch {
  explicit Scratch(int64_t d)
      : floats(static_cast<size_t>((d + kCodeLanes - 1) / kCodeLanes *
                                   kCodeLanes)),
        doubles(static_cast<size_t>(d)) {}
  std::vector<float> floats;
  std::vector<double> doubles;
};

RowCodes::RowCodes(const KMeansRows& rows)
    : kernel_(ActiveCodeKernel()),
      code_row_(ActiveCodeRow()),
      quads_(QuadsOf(rows.dimension())),
      offset_(static_cast<size_t>(rows.dimension()), 0.0f),
      codes_(static_cast<size_t>(rows.size() * quads_)),
      forms_(static_cast<size_t>(rows.size())) {
  if (rows.metric() != Metric::kCosine) FindOffset(rows);
  const float to_units = std::ldexp(1.0f, -unit_);
  unit_offset_ = Scratch(rows.dimension()).floats;
  std::transform(offset_.begin(), offset_.end(), unit_offset_.begin(),
                 [to_units](float o) { return o * to_units; });
}

void RowCodes::Code(const KMeansRows& rows, int64_t begin, int64_t end) {
  Scratch scratch(rows.dimension());
  for (int64_t i = begin; i < end; ++i) CodeOne(rows, i, scratch);
}

// The mean of some rows is as good as that of all, and so is a unit, which
// keeps float32 from overflowing; codes of rows far beyond it say nothing.
void RowCodes::FindOffset(const KMeansRows& rows) {
  const int64_t step = std::max<int64_t>(1, rows.size() / kRowsForOffset);
  std::vector<double> mean(offset_.size(), 0);
  float most = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < rows.size(); i += step, ++count) {
    const float* x = rows.data(i);
    for (size_t j = 0; j < mean.size(); ++j) {
      mean[j] += x[j];
      most = std::max(most, std::fabs(x[j]));
    }
  }
  for (size_t j = 0; j < mean.size(); ++j) {
    offset_[j] = static_cast<float>(mean[j] / static_cast<double>(count));
  }
  if (most > 0) std::frexp(most, &unit_);
  unit_ = std::max(unit_, -126);  // 2^-unit is a float
}

void RowCodes::CodeOne(const KMeansRows& rows, int64_t row, Scratch& scratch) {
  float factor = std::ldexp(1.0f, -unit_);
  if (rows.metric() == Metric::kCosine) {
    const double inverse = 1 / std::sqrt(rows.squared_norm(row));
    if (!(inverse > 0x1p-100 && inverse < 0x1p100)) {
      return CodeSlowly(rows, row, scratch);
    }
    factor = static_cast<float>(inverse);
  }
  Form& form = forms_[static_cast<size_t>(row)];
  const internal_nearest::CodedRow coded =
      code_row_({.row = rows.data(row),
                 .offset = unit_offset_.data(),
                 .factor = factor,
                 .d = rows.dimension(),
                 .limit = QueryCodeLimit(kernel_)},
                scratch.floats.data(),
                reinterpret_cast<int8_t*>(codes_.data() + row * quads_));
  if (!(coded.scale < kMostScale)) {
    form = {.scale = 1, .error = std::numeric_limits<float>::infinity()};
    return;
  }
  form.scale = std::max(coded.scale, kLeastScale);
  // Beside the sum's own error, each component of y has two roundings (COSINE:
  // three), and its difference from the code one.
  form.error = FloatAtLeast(
      std::sqrt(static_cast<double>(coded.residual)) * (1 + 0x1p-11) +
      std::sqrt(static_cast<double>(coded.square)) * 0x1p-21 + 0x1p-130);
  form.square =
      static_cast<float>(static_cast<double>(form.scale) * form.scale *
                         static_cast<double>(coded.code_square));
  form.start = -128 * coded.code_sum;
}

// In double, for directions of rows whose norm float32 does not hold.
void RowCodes::CodeSlowly(const KMeansRows& rows, int64_t row,
                          Scratch& scratch) {
  std::vector<double>& y = scratch.doubles;
  Centre(rows.metric(), rows.row(row), rows.squared_norm(row), offset_, unit_,
         y);
  const int limit = QueryCodeLimit(kernel_);
  Form& form = forms_[static_cast<size_t>(row)];
  form.scale = std::max(FloatAtLeast(MaxOf(y) / limit), kLeastScale);
  auto* bytes = reinterpret_cast<int8_t*>(codes_.data() + row * quads_);
  const Coded coded =
      CodeVector(y, form.scale, limit, [bytes](size_t i, int32_t code) {
        bytes[i] = static_cast<int8_t>(code);
      });
  form.error = FloatAtLeast(coded.error);
  form.square =
      static_cast<float>(static_cast<double>(form.scale) * form.scale *
                         static_cast<double>(coded.code_square));
  form.start = -128 * coded.sum;
}

}  // namespace coterie
